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


class PlaceFrame(Struct, frozen=True, tag="places", omit_defaults=True):
    """Tuples of a complete window by their place in an order.

    From `start` to `end` places after the current one; None means the first and the last of all. With `peers`, both
    are None or 0, and 0 takes in all tuples that are equal in the order. `nth`: only that tuple of these, from 1.
    """

    start: int | None = None
    end: int | None = None
    peers: bool = False
    nth: int | None = None

    def __str__(self) -> str:
        first = "UNBOUNDED PRECEDING" if self.start is None else _place_text(self.start)
        last = "UNBOUNDED FOLLOWING" if self.end is None else _place_text(self.end)
        only = "" if self.nth is None else f", tuple {self.nth}"
        return f"{'RANGE' if self.peers else 'ROWS'} BETWEEN {first} AND {last}{only}"


def _place_text(places: int) -> str:
    return "CURRENT ROW" if places == 0 else f"{abs(places)} {'PRECEDING' if places < 0 else 'FOLLOWING'}"


Frame = RowsFrame | RangeFrame
