"""Columns that tell the time: their distance to the timestamp is known, so a bound on the timestamp is one on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.model.types import Type
from headrace.model.window import Extent

_DAY = 86_400 * SECOND
#: The longest stretch that `date_trunc` cuts off, by unit.
_UNITS = {
    "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND, "day": _DAY, "week": 7 * _DAY,
    "month": 31 * _DAY, "quarter": 92 * _DAY, "year": 366 * _DAY,
}  # fmt: skip


class Clock(Struct, frozen=True):
    """A column that tells the time: column + least <= timestamp <= column + most.

    It may be `absent`, that is NULL: in the rows that an outer join pads.
    """

    name: str
    least: int
    most: int
    absent: bool = False

    def moved(self, least: int, most: int, name: str | None = None) -> Clock:
        """Return the same in tuples whose timestamps are so much later, at least and at most."""
        return Clock(name or self.name, self.least + least, self.most + most, self.absent)


def clock_of(name: str, expr: Expr, clocks: Iterable[Clock]) -> Clock | None:
    """Return a computed column as a clock if it is one or the timestamp, moved by a span or cut to a unit of time."""
    match expr:
        case Column(name=origin):
            if origin == TS:
                return Clock(name, 0, 0)
            return next((clock.moved(0, 0, name) for clock in clocks if clock.name == origin), None)
        case Call("timestamp_micros", (arg,)):
            return clock_of(name, arg, clocks)
        case Call("+", (arg, Literal(value=int(by), type=Type.INTERVAL))) | Call(
            "+", (Literal(value=int(by), type=Type.INTERVAL), arg)
        ):
            inner = clock_of(name, arg, clocks)
            return None if inner is None else inner.moved(-by, -by)
        case Call("-", (arg, Literal(value=int(by), type=Type.INTERVAL))):
            inner = clock_of(name, arg, clocks)
            return None if inner is None else inner.moved(by, by)
        case Call("date_trunc", (Literal(value=str(unit)), arg)) if unit.lower() in _UNITS:
            inner = clock_of(name, arg, clocks)
            return None if inner is None else inner.moved(0, _UNITS[unit.lower()] - 1)
        case _:
            return None


def clocks_of(
    columns: Iterable[tuple[str, Expr]], clocks: Sequence[Clock], *, least: int = 0, most: int = 0
) -> tuple[Clock, ...]:
    """Return the clocks among computed columns, in tuples whose timestamps are so much later."""
    candidates = (clock_of(name, expr, clocks) for name, expr in columns)
    return tuple(clock.moved(least, most) for clock in candidates if clock is not None)


def common_clocks(inputs: Sequence[Sequence[Clock]]) -> tuple[Clock, ...]:
    """Return what tells the time whichever of several inputs a tuple comes from."""
    common = []
    for first in inputs[0]:
        same = [clock for clocks in inputs for clock in clocks if clock.name == first.name]
        if len(same) == len(inputs):
            least, most = min(clock.least for clock in same), max(clock.most for clock in same)
            common.append(Clock(first.name, least, most, any(clock.absent for clock in same)))
    return tuple(common)


def joined_clocks(
    clocks: Sequence[Clock], names: dict[str, str], extent: Extent | None, *, padded: bool = False
) -> tuple[Clock, ...]:
    """Return the clocks of a join's side, in pairs that have the later timestamp of their two tuples.

    If the side is `padded`, its columns are NULL in rows of the other side that found no partner.
    """
    if extent is None or extent.rows is not None or extent.span is None:
        return ()
    moved = (clock.moved(0, extent.span, names[clock.name]) for clock in clocks if clock.name in names)
    return tuple(replace(clock, absent=clock.absent or padded) for clock in moved)
