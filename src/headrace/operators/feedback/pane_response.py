"""What aggregates need not take in.

Groups are independent of each other, and so are windows that do not overlap. A tuple of overlapping windows is not
needed only if all its windows are assumed. A value says little about tuples to come, except where it only ever moves
toward what is assumed, or away from what is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.expressions.expression import Column, Expr
from headrace.model.patterns.match import (
    NO_VALUE,
    Between,
    IsNull,
    Match,
    at_least,
    covers_match,
    intersect_matches,
    shifted,
    whole_range,
)
from headrace.model.patterns.pattern import STAMP, Pattern, Term, pattern
from headrace.model.schema import TS
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Cumulative, Landmark, Panes, Range
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.preimage import preimage, through
from headrace.operators.specs import PaneAggregate, PartialAggregate
from headrace.operators.windows.aggregates import Aggregates, split
from headrace.operators.windows.pane_times import PANE, pane_length


def group_input(assumed: Pattern, keys: Mapping[str, Expr]) -> Pattern | None:
    """Return the tuples of whole groups; None if the pattern is about anything but keys."""
    return through(assumed.terms, dict(keys))


def pane_input(spec: PaneAggregate, assumed: Pattern, invariants: Invariants) -> Pattern | None:
    """Return the partials of which all results are assumed."""
    groups, ends, values = _sorted_out(spec, assumed)
    panes = () if ends is None else _panes(spec.window, ends)
    extremes = _extremes(spec, values, invariants)
    if panes is None or extremes is None:
        return None
    return pattern(*((term.column, term.match) for term in groups), *panes, *extremes)


def partial_input(spec: PartialAggregate, assumed: Pattern, invariants: Invariants) -> Pattern | None:
    """Return the tuples that go into assumed partials only."""
    keys, parts = dict(spec.keys), {part.name: part for part in Aggregates(spec.keys, spec.calls).parts}
    terms: list[tuple[Column, Match]] = []
    for term in assumed.terms:
        name, input_terms = term.column.name, None
        if name in keys:
            input_terms = preimage(keys[name], term.match)
        elif name == PANE:
            input_terms = _times(spec.window, term.match)
        elif len(parts) == 1 and name in parts and parts[name].kind in ("min", "max"):
            arg = spec.calls[0].arg
            if (
                isinstance(arg, Column)
                and _is_present(invariants.holds.get(arg.name))
                and _is_far(parts[name].kind or "", term.match)
            ):
                input_terms = ((arg, term.match),)
        if input_terms is None:
            return None
        terms += input_terms
    return pattern(*terms)


def watches(spec: PaneAggregate, assumed: Pattern, invariants: Invariants) -> bool:
    """Return whether a group whose result matches now will match when its window closes, whatever else comes."""
    if not isinstance(spec.window, Range) or spec.window.slide < spec.window.size:
        return False
    _, _, values = _sorted_out(spec, assumed)
    calls = {call.name: call for call in spec.calls}
    return bool(values) and all(
        _only_gets_there(spec, calls[term.column.name], term.match, invariants) for term in values
    )


def _sorted_out(spec: PaneAggregate, assumed: Pattern) -> tuple[list[Term], Match | None, list[Term]]:
    """Return what a pattern says of keys, of the end of windows, and of values."""
    names = {name for name, _ in spec.keys}
    groups: list[Term] = []
    values: list[Term] = []
    ends: Match | None = None
    for term in assumed.terms:
        name = term.column.name
        match: Match | None = None
        if name in names:
            groups.append(term)
        elif name in (TS, "window_end"):
            match = term.match
        elif name == "window_start" and isinstance(spec.window, Range):
            match = shifted(term.match, spec.window.size)
        elif name == "window_start":
            match = NO_VALUE  # the same for all windows, or NULL: nothing follows
        else:
            values.append(term)
        if match is not None:
            ends = match if ends is None else intersect_matches(ends, match, Type.BIGINT)
    return groups, ends, values


def _panes(window: Panes, ends: Match) -> tuple[tuple[Column, Match], ...] | None:
    """Return the panes that lie in no window but those that end then."""
    limits = whole_range(ends)
    if limits is None:
        return None
    low, high = limits
    match window:
        case Range(size=size, slide=slide, offset=offset):
            # windows p..q: the timestamps from (p - 1) * slide + size to before (q + 1) * slide are in no other
            first = None if low is None else (-((size + offset - low) // slide) - 1) * slide + size + offset
            stop = None if high is None else ((high - size - offset) // slide + 1) * slide + offset
            if first is not None and stop is not None and first >= stop:
                return None
            return ((Column(PANE, Type.BIGINT), Between(first, None if stop is None else stop - pane_length(window))),)
        case Landmark(slide=slide):
            # a pane is in all windows that end after it
            return None if high is not None or low is None else ((Column(PANE, Type.BIGINT), at_least(low - slide)),)
        case Cumulative(size=size, step=step, offset=offset):
            # a pane is in the windows that end after it, up to the last of its period
            last = None if high is None else (high - offset) // size * size + offset - step
            first = None if low is None else low - step
            if first is not None and last is not None and first > last:
                return None
            return ((Column(PANE, Type.BIGINT), Between(first, last)),)


def _times(window: Range | Landmark, match: Match) -> tuple[tuple[Column, Match], ...] | None:
    """Return the timestamps of the tuples in these panes."""
    limits = whole_range(match)
    if limits is None:
        return None
    low, high = limits
    length, origin = pane_length(window), (window.start or 0) if isinstance(window, Landmark) else window.offset
    first = None if low is None else -((origin - low) // length) * length + origin
    stop = None if high is None else ((high - origin) // length + 1) * length + origin
    return ((STAMP, Between(first, stop, open_high=stop is not None)),)


def _extremes(
    spec: PaneAggregate, values: list[Term], invariants: Invariants
) -> tuple[tuple[Column, Match], ...] | None:
    """Return the partials that cannot decide a greatest (least) value, if they count for nothing else."""
    if not values:
        return ()
    kinds = {(call.function, call.args) for call in spec.calls}
    call = spec.calls[0]
    if len(kinds) > 1 or call.function not in ("min", "max") or call.arg is None or not isinstance(spec.window, Range):
        return None
    column = Column(split(call, "__a0").parts[0].name, call.arg.type)
    # a group of NULL and of dropped values would come out as NULL, which it is not
    if not _is_present(invariants.holds.get(column.name)) or not all(
        _is_far(call.function, term.match) for term in values
    ):
        return None
    return tuple((column, term.match) for term in values)


def _is_present(match: Match | None) -> bool:
    return match is not None and not isinstance(match, IsNull)


def _is_far(function: str, match: Match) -> bool:
    """Return whether values that match are those that a maximum (minimum) overrides."""
    if not isinstance(match, Between) or match.but:
        return False
    return (
        match.low is None and match.high is not None
        if function == "max"
        else match.high is None and match.low is not None
    )


def _only_gets_there(spec: PaneAggregate, call: AggregateCall, match: Match, invariants: Invariants) -> bool:
    """Return whether a value that matches can only move further into the match."""
    if not isinstance(match, Between) or match.but:
        return False
    match call.function:
        case "count" | "count_distinct" | "max":
            return match.high is None
        case "min":
            return match.low is None
        case "sum":
            args = list(dict.fromkeys(sibling.arg for sibling in spec.calls if sibling.arg is not None))
            total = split(call, f"__a{args.index(call.arg)}").parts[1].name if call.arg is not None else ""
            known = invariants.holds.get(total)
            return match.high is None and known is not None and covers_match(at_least(0), known, Type.DOUBLE)
        case _:
            return False
