"""Paths to a value inside a JSON text, such as $.a.b[0]['c d']."""

from __future__ import annotations

import re

from headrace.errors import NotSupported

_STEP = re.compile(r"\.([^.\[]+)|\['([^']*)'\]|\[(\d+)\]")


def steps_of(path: str) -> list[str | int]:
    """Return the names and positions of a path."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and position < len(path):
        step = _STEP.match(path, position)
        if step is None or step[1] == "*":
            break
        steps.append(int(step[3]) if step[3] is not None else step[1] or step[2])
        position = step.end()
    if not path.startswith("$") or position < len(path):
        raise NotSupported(
            f"{path!r} is not a path to one value", hint="write for example '$.name', '$.user.id' or '$.items[0]'"
        )
    return steps
