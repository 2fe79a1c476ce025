"""Assumptions that end: what of them an operator may use whose output reaches beyond the timestamps of its input."""

from __future__ import annotations

from headrace.model.patterns.match import Between, Match
from headrace.model.patterns.pattern import STAMP, Pattern, Term
from headrace.model.schema import TS
from headrace.model.time import END


def shortened(pattern: Pattern, span: int) -> Pattern | None:
    """Return the part of a pattern that lies more than `span` before its end, which no later result uses."""
    match = pattern.get(TS)
    if match is None:
        return pattern
    earlier = ending_before(match, span)
    return (
        None
        if earlier is None
        else Pattern(tuple(term if term.column.name != TS else Term(STAMP, earlier) for term in pattern.terms))
    )


def ending_before(match: Match, span: int | None) -> Match | None:
    """Return a range of timestamps without its last `span` (None: endless); None if nothing is known to be left."""
    if not isinstance(match, Between) or match.but:
        return None
    if match.high is None or span == 0:
        return match
    if span is None or span >= END:
        return None
    assert isinstance(match.high, int)
    return Between(match.low, match.high - span, match.open_low, match.open_high)
