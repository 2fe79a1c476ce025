"""How a task tells the driver which queries its failure is due to.

All that Spark passes on of a failed task is the text of the Python traceback, so the queries are a line of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headrace.errors import HeadraceError

_LINE = re.compile(r"^\s*headrace culprits: (\[.*\])\s*$", re.MULTILINE)


@contextmanager
def telling() -> Iterator[None]:
    """Let the traceback of an error name the queries that it is due to."""
    try:
        yield
    except HeadraceError as error:
        if error.culprits:
            # as numbers: names may have any characters, and the text passes through several programs
            text = msgspec.json.encode([(list(name.encode()), incarnation) for name, incarnation in error.culprits])
            error.add_note(f"headrace culprits: {text.decode()}")
        raise


def culprits_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the queries that the text of a failure names; none if it is due to no query."""
    told = _LINE.findall(text)
    if not told:
        return ()
    decoded = msgspec.json.decode(told[-1], type=list[tuple[list[int], int]])
    return tuple((bytes(name).decode(), incarnation) for name, incarnation in decoded)
