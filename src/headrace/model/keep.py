"""What is kept of the newest results of a query: WITH (keep '10000 rows'), '1 hour', 'latest by item', '1 day durable'.

`keep_of` reads the option. Without it the newest 10,000 rows are kept, and at most 16 MB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from headrace.model.option import Option
from headrace.model.time import SECOND, format_duration, parse_duration

#: The name of the option.
KEEP = "keep"
_ROWS = re.compile(r"([0-9][0-9_,]*)\s+rows?", re.IGNORECASE)
_BY = re.compile(r"latest\s+by\s+(.+)", re.IGNORECASE | re.DOTALL)
_DURABLE = re.compile(r"\s+durable$", re.IGNORECASE)


class Keep(Struct, frozen=True):
    """Limits of what is kept: rows, seconds, the newest row of each key; durable: on disk, with the delivery."""

    rows: int | None = None
    seconds: float | None = None
    by: tuple[str, ...] | None = None
    durable: bool = False
    bytes: int = 16 * 1024 * 1024

    @property
    def is_none(self) -> bool:
        """Return whether nothing is kept."""
        return self.rows == 0

    def __str__(self) -> str:
        if self.is_none:
            return "none"
        limits = [] if self.rows is None else [f"{self.rows} rows"]
        limits += [] if self.seconds is None else [format_duration(round(self.seconds * SECOND))]
        limits += [] if self.by is None else [f"latest by {', '.join(self.by)}"]
        return ", ".join(limits) + (" durable" if self.durable else "")


DEFAULT = Keep(rows=10_000)


def keep_of(options: Mapping[str, Option]) -> Keep:
    """Read the option; ValueError says what is wrong with it."""
    value = options.get(KEEP)
    if value is None:
        return DEFAULT
    text = str(value).strip()
    if text.lower() == "none":
        return Keep(rows=0)
    durable = _DURABLE.search(text) is not None
    text = _DURABLE.sub("", text)
    if (rows := _ROWS.fullmatch(text)) is not None:
        number = int(re.sub("[_,]", "", rows[1]))
        if number < 1:
            raise ValueError("expected at least one row; NONE keeps nothing")
        return Keep(rows=number, durable=durable)
    if (keys := _BY.fullmatch(text)) is not None:
        if durable:
            raise ValueError("latest by cannot be durable: write '1 day durable' or '10000 rows durable'")
        return Keep(by=tuple(key.strip() for key in keys[1].split(",")))
    try:
        return Keep(seconds=parse_duration(text) / SECOND, durable=durable)
    except ValueError:
        raise ValueError(f"{text!r} is not a limit such as '10000 rows', '1 hour' or 'latest by item'") from None
