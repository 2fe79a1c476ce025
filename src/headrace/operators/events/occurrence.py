"""What has been detected so far: occurrences as small immutable records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct


class Row(Struct, frozen=True, array_like=True, gc=False):
    """One tuple of a part, with the values (as they are stored in columns) that are needed."""

    part: int
    ts: int
    values: tuple[Any, ...]


class Occurrence(Struct, frozen=True, array_like=True, gc=False):
    """An interval and what it consists of.

    `start` is what operators see; `begin` is the time of the first constituent, which WITHIN counts from, and differs
    from it under point semantics. `mark` is for the operator that keeps it: ticks so far, or members so far.
    """

    start: int
    end: int
    begin: int
    rows: tuple[Row, ...]
    mark: int = 0


Occurrences: TypeAlias = list[Occurrence]
#: What each store of each operator of an expression holds, for one key.
Memory: TypeAlias = list[Occurrences]


def merge(parts: Sequence[Occurrence], now: int, *, point: bool, mark: int = 0) -> Occurrence:
    """Return all of these as one occurrence that ends now."""
    if len(parts) == 2:  # nearly always, and worth it
        first, second = parts
        start = now if point else min(first.start, second.start)
        return Occurrence(start, now, min(first.begin, second.begin), first.rows + second.rows, mark)
    rows = tuple(row for part in parts for row in part.rows)
    start = now if point else min(part.start for part in parts)
    return Occurrence(start, now, min(part.begin for part in parts), rows, mark)


def newest(rows: Iterable[Row], part: int) -> Row | None:
    """Return the latest tuple of a part; of those of one instant the last."""
    latest: Row | None = None
    for row in rows:
        if row.part == part and (latest is None or row.ts >= latest.ts):
            latest = row
    return latest
