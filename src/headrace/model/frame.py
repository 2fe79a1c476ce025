"""Frames: the tuples of a partition, up to the current one, that an OVER clause aggregates."""

from __future__ import annotations

from msgspec import Struct

from headrace.model.time import format_duration


class RowsFrame(Struct, frozen=True, tag="rows"):
    """The current tuple and so many before it; None means all."""

    preceding: int | None

    def __str__(self) -> str:
        before = "UNBOUNDED" if self.preceding is None else str(self.preceding)
        return f"ROWS {before} PRECEDING"


class RangeFrame(Struct, frozen=True, tag="range"):
    """The tuples from so many microseconds before the current one up to its timestamp; None means all."""

    preceding: int | None

    def __str__(self) -> str:
        before = "UNBOUNDED" if self.preceding is None else f"INTERVAL {format_duration(self.preceding)}"
        return f"RANGE {before} PRECEDING"


Frame = RowsFrame | RangeFrame
