"""Whether the end of some keys covers all tuples that match a pattern."""

from __future__ import annotations

from itertools import islice, product

from headrace.model.page import Completion
from headrace.model.patterns.match import Between, IsNull, Match, OneOf, Value, whole_range
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import TS
from headrace.model.time import LATEST

#: A pattern of more keys than these is not looked at.
_MOST_KEYS = 4096


def is_complete(condition: Pattern, completion: Completion) -> bool:
    """Return whether no later tuple can match, as all keys that match are complete; False if that is not known."""
    bound = _bound(condition.get(TS))
    choices = [_values(condition.get(key)) for key in completion.keys]
    if any(choice is None for choice in choices):
        return False
    keys = completion.rows.select(completion.keys)
    physical = [keys[name].to_physical().to_list() for name in keys.columns]
    times = dict(zip(zip(*physical, strict=True), completion.rows[TS].to_list(), strict=True))
    wanted = list(islice(product(*(choice for choice in choices if choice is not None)), _MOST_KEYS + 1))
    return 0 < len(wanted) <= _MOST_KEYS and all(times.get(key, bound - 1) >= bound for key in wanted)


def _bound(stamps: Match | None) -> int:
    """Return the time before which all tuples lie that match; that of the end if there is no such time."""
    match stamps:
        case Between() | OneOf(values=(_,)):
            span = whole_range(stamps)
            return LATEST if span is None or span[1] is None else span[1] + 1
        case None | OneOf() | IsNull():
            return LATEST


def _values(match: Match | None) -> list[Value | None] | None:
    """Return the values of a key that match; None if they cannot be listed."""
    match match:
        case OneOf(values=values):
            return list(values)
        case IsNull():
            return [None]
        case Between() | None:
            return None
