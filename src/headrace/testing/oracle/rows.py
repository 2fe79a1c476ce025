"""The oracle's tuples: what they hold, how they are ordered, compared and split into on time and late."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.schema import EXPIRY, SEQ, TS
from headrace.model.time import BEGIN
from headrace.testing.oracle.values import identity, plain_value, sort_key


@dataclass(frozen=True)
class Row:
    """One tuple: `seq` only below a base stream's filters and projections, `expiry` only between joins."""

    ts: int
    values: dict[str, Any]
    seq: int | None = None
    expiry: int | None = None

    @property
    def scope(self) -> dict[str, Any]:
        """Return the values that expressions may name."""
        return {**self.values, TS: self.ts}


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Sort by timestamp; ties by arrival for a base stream, else by content."""
    return sorted(rows, key=_order)


def split_late(rows: Sequence[Row], skew: int) -> tuple[list[Row], list[Row]]:
    """Divide a stream's tuples (in arrival order) into those on time and those more than `skew` behind the newest.

    Both keep the position of arrival in `seq`.
    """
    kept: list[Row] = []
    late: list[Row] = []
    newest = BEGIN
    for position, row in enumerate(rows):
        numbered = row if row.seq is not None else Row(row.ts, row.values, position, row.expiry)
        (late if row.ts < newest - skew else kept).append(numbered)
        newest = max(newest, row.ts)
    return kept, late


def rows_of(frame_rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Convert rows of a page (dicts with `__ts`, perhaps with datetimes) to the oracle's."""
    return [_row({name: plain_value(value) for name, value in row.items()}) for row in frame_rows]


def as_multiset(rows: Iterable[Row]) -> Counter[Any]:
    """Count timestamps and visible values; floats are rounded to 9 significant digits."""
    return Counter((row.ts, tuple((name, rounded(value)) for name, value in row.values.items())) for row in rows)


def rounded(value: Any) -> Any:
    """Return a hashable stand-in for a value, floats rounded to 9 significant digits."""
    if isinstance(value, float) and math.isfinite(value):
        return identity(float(f"{value:.9g}"))
    return identity(value)


def _order(row: Row) -> tuple[Any, ...]:
    return (row.ts, row.seq) if row.seq is not None else (row.ts, *map(sort_key, row.values.values()))


def _row(values: dict[str, Any]) -> Row:
    ts, seq, expiry = values.pop(TS), values.pop(SEQ, None), values.pop(EXPIRY, None)
    return Row(ts, values, seq, expiry)
