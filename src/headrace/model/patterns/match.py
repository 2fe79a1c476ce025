"""Matches: which values of one attribute are meant.

The three kinds are closed under intersection: a range without some values, a set of values, NULL. A comparison never
matches NULL.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import NotSupported
from headrace.model.types import DataType, Type

Value: TypeAlias = bool | int | float | str

_DISCRETE = frozenset({Type.BOOLEAN, Type.INT, Type.BIGINT, Type.DATE, Type.TIMESTAMP, Type.INTERVAL})
#: A range of so many whole numbers is looked through one by one where nothing else decides.
_MAX_LISTED = 4096
_LARGEST_FLOAT = float(struct.unpack("<f", b"\xff\xff\x7f\x7f")[0])


class Between(Struct, frozen=True, tag="between"):
    """Values from `low` to `high`, except those of `but`; None is no limit.

    The ends belong to the range unless they are open. Without limits: all values but NULL.
    """

    low: Value | None = None
    high: Value | None = None
    open_low: bool = False
    open_high: bool = False
    but: tuple[Value, ...] = ()


class OneOf(Struct, frozen=True, tag="one_of"):
    """One of these values; of none, nothing matches."""

    values: tuple[Value, ...]


class IsNull(Struct, frozen=True, tag="is_null"):
    """No value."""


Match: TypeAlias = Between | OneOf | IsNull

NO_VALUE = OneOf(())
NOT_NULL = Between()


def less(value: Value) -> Match:
    """Match the values below this one."""
    return Between(high=value, open_high=True)


def at_most(value: Value) -> Match:
    """Match the values up to this one."""
    return Between(high=value)


def more(value: Value) -> Match:
    """Match the values above this one."""
    return Between(low=value, open_low=True)


def at_least(value: Value) -> Match:
    """Match the values from this one on."""
    return Between(low=value)


def equal(value: Value) -> Match:
    """Match this value."""
    return OneOf((value,))


def unequal(*values: Value) -> Match:
    """Match all values but NULL and these."""
    return Between(but=values)


def contains(matcher: Match, value: Value, type_: DataType) -> bool:
    """Return whether a value, which is not NULL, matches."""
    match matcher:
        case IsNull():
            return False
        case OneOf(values=values):
            return any(value == other for other in values)
        case Between(but=but):
            low, high = _ends(matcher, type_)
            at = (value, 0)
            return (low is None or low <= at) and (high is None or at <= high) and all(value != other for other in but)


def covers_match(e: Match, f: Match, type_: DataType) -> bool:
    """Return whether every value that matches `f` matches `e`."""
    if is_empty_match(f, type_):
        return True
    match e, f:
        case IsNull(), IsNull():
            return True
        case _, OneOf(values=values):
            return all(contains(e, value, type_) for value in values)
        case OneOf(), Between():
            listed = _listed(f, type_)
            return listed is not None and all(contains(e, value, type_) for value in listed)
        case Between(but=but), Between():
            (low, high), (inner_low, inner_high) = _ends(e, type_), _ends(f, type_)
            if low is not None and (inner_low is None or inner_low < low):
                return _listed_within(e, f, type_)
            if high is not None and (inner_high is None or inner_high > high):
                return _listed_within(e, f, type_)
            return not any(contains(f, value, type_) for value in but)
        case _:
            return False


def intersect_matches(e: Match, f: Match, type_: DataType) -> Match:
    """Return the values that match both."""
    match e, f:
        case IsNull(), IsNull():
            return e
        case IsNull(), _:
            return NO_VALUE
        case _, IsNull():
            return NO_VALUE
        case OneOf(values=values), _:
            return OneOf(tuple(value for value in values if contains(f, value, type_)))
        case _, OneOf(values=values):
            return OneOf(tuple(value for value in values if contains(e, value, type_)))
        case Between(), Between():
            return _narrowest(e, f, type_)


def others(matcher: Match) -> tuple[Match, ...]:
    """Return matches for the values that do not match."""
    match matcher:
        case IsNull():
            return (NOT_NULL,)
        case OneOf(values=values):
            return Between(but=values), IsNull()
        case Between(low=low, high=high, open_low=open_low, open_high=open_high, but=but):
            below = () if low is None else (Between(high=low, open_high=not open_low),)
            above = () if high is None else (Between(low=high, open_low=not open_high),)
            return (*below, *above, *((OneOf(but),) if but else ()), IsNull())


def is_empty_match(matcher: Match, type_: DataType) -> bool:
    """Return whether no value, nor NULL, matches."""
    match matcher:
        case IsNull():
            return False
        case OneOf(values=values):
            return not values
        case Between():
            low, high = _ends(matcher, type_)
            if low is None or high is None:
                return False
            if low > high:
                return True
            if type_ in _DISCRETE:
                listed = _listed(matcher, type_)
                return listed is not None and not listed
            return low == high and not contains(matcher, _point(matcher), type_)


def as_held(matcher: Match, type_: DataType) -> Match:
    """Round the values to those that a column of this type can hold: whole numbers, or floats of 32 bits."""
    if any(isinstance(value, float) and not math.isfinite(value) for value in _values(matcher)):
        raise NotSupported("a condition of feedback cannot compare with NaN or infinity")
    match matcher:
        case IsNull():
            return matcher
        case OneOf(values=values):
            return OneOf(tuple(dict.fromkeys(value for written in values for value in _exact(written, type_))))
        case Between(low, high, open_low, open_high, but):
            low, open_low = _rounded(low, open_low, type_, math.ceil)
            high, open_high = _rounded(high, open_high, type_, math.floor)
            return Between(
                low,
                high,
                open_low,
                open_high,
                tuple(dict.fromkeys(value for written in but for value in _exact(written, type_))),
            )


def shifted(matcher: Match, by: int) -> Match:
    """Return the match for x + by of all numbers x that match."""
    match matcher:
        case IsNull():
            return matcher
        case OneOf(values=values):
            return OneOf(tuple(_number(value) + by for value in values))
        case Between(low, high, open_low, open_high, but):
            low = None if low is None else _number(low) + by
            high = None if high is None else _number(high) + by
            return Between(low, high, open_low, open_high, tuple(_number(value) + by for value in but))


def turned(matcher: Match, around: int) -> Match:
    """Return the match for around - x of all numbers x that match."""
    match matcher:
        case IsNull():
            return matcher
        case OneOf(values=values):
            return OneOf(tuple(around - _number(value) for value in values))
        case Between(low, high, open_low, open_high, but):
            new_low = None if high is None else around - _number(high)
            new_high = None if low is None else around - _number(low)
            return Between(new_low, new_high, open_high, open_low, tuple(around - _number(value) for value in but))


def whole_range(matcher: Match) -> tuple[int | None, int | None] | None:
    """Return the first and last whole number that match, None for no limit; None alone if the match has holes."""
    match matcher:
        case Between(low, high, open_low, open_high, ()):
            first = None if low is None else int(low) + open_low
            last = None if high is None else int(high) - open_high
            return first, last
        case OneOf(values=(value,)):
            return int(value), int(value)
        case _:
            return None


#: An end of a range: the value, and 1 or -1 if it lies a little further in.
_End: TypeAlias = tuple[float | str, int]


def _ends(matcher: Between, type_: DataType) -> tuple[_End | None, _End | None]:
    """Return both ends: of whole numbers the first and last that match; for others an open end lies further in."""
    low, high = matcher.low, matcher.high
    if type_ is Type.BOOLEAN:
        low, high = (False if low is None else low), (True if high is None else high)
    if type_ not in _DISCRETE:
        lower = None if low is None else (low, int(matcher.open_low or low in matcher.but))
        return lower, None if high is None else (high, -int(matcher.open_high or high in matcher.but))
    first = None if low is None else int(low) + (matcher.open_low and matcher.low is not None)
    last = None if high is None else int(high) - (matcher.open_high and matcher.high is not None)
    while first is not None and first in matcher.but:
        first += 1
    while last is not None and last in matcher.but:
        last -= 1
    return None if first is None else (first, 0), None if last is None else (last, 0)


def _listed(matcher: Between, type_: DataType) -> Sequence[Value] | None:
    """Return the values that match, if they can be listed: few whole numbers, or a single value."""
    low, high = _ends(matcher, type_)
    if low is None or high is None:
        return None
    if type_ not in _DISCRETE:
        assert matcher.low is not None
        return [matcher.low] if low == high and contains(matcher, matcher.low, type_) else None
    first, last = low[0], high[0]
    assert isinstance(first, int)
    assert isinstance(last, int)
    if last - first >= _MAX_LISTED:
        return None
    return [value for value in range(first, last + 1) if value not in matcher.but]


def _listed_within(e: Match, f: Between, type_: DataType) -> bool:
    """Return whether all values of `f` match `e`, one by one; values at the ends may be excluded."""
    values = _listed(f, type_)
    return values is not None and all(contains(e, value, type_) for value in values)


def _narrowest(e: Between, f: Between, type_: DataType) -> Match:
    (e_low, e_high), (f_low, f_high) = _ends(e, type_), _ends(f, type_)
    f_starts_later = f.low is not None and f_low is not None and e_low is not None and f_low > e_low
    f_ends_earlier = f.high is not None and f_high is not None and e_high is not None and f_high < e_high
    lower = f if e.low is None or f_starts_later else e
    upper = f if e.high is None or f_ends_earlier else e
    both = Between(lower.low, upper.high, lower.open_low, upper.open_high)
    holes = dict.fromkeys((*e.but, *f.but))
    both = replace(both, but=tuple(value for value in holes if contains(both, value, type_)))
    return NO_VALUE if is_empty_match(both, type_) else both


def _point(matcher: Between) -> Value:
    assert matcher.low is not None
    return matcher.low


def _values(matcher: Match) -> tuple[Value | None, ...]:
    match matcher:
        case IsNull():
            return ()
        case OneOf(values=values):
            return values
        case Between(low=low, high=high, but=but):
            return (low, high, *but)


def _exact(value: Value, type_: DataType) -> Iterator[Value]:
    """Return the value, if a column of the type can hold it."""
    if type_ in _DISCRETE and isinstance(value, float):
        if value.is_integer():
            yield int(value)
    elif type_ is Type.FLOAT and not isinstance(value, str):
        if _single(value) == value:
            yield value
    else:
        yield value


def _rounded(
    end: Value | None, is_open: bool, type_: DataType, whole: Callable[[float], int]
) -> tuple[Value | None, bool]:
    if type_ in _DISCRETE and isinstance(end, float):
        value = whole(end)
        return value, is_open and value == end
    if type_ is Type.FLOAT and isinstance(end, int | float):
        near = _single(end)
        if near == end:
            return near, is_open
        inside = near > end if whole is math.ceil else near < end
        return near, not inside  # the nearest float belongs to the range if it lies on the inner side of the limit
    return end, is_open


def _single(value: Value) -> float:
    assert not isinstance(value, str)
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return _LARGEST_FLOAT if value > 0 else -_LARGEST_FLOAT


def _number(value: Value) -> int | float:
    assert not isinstance(value, str)
    return value
