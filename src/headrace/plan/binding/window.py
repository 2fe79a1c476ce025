"""Window clauses to windows of aggregates, extents of joins and spans of DISTINCT."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import NotSupported, Span, UnboundedStateFault
from headrace.language.syntax.clauses import (
    CumulateClause,
    LandmarkClause,
    NowClause,
    RangeClause,
    RowsClause,
    SessionClause,
    UnboundedClause,
    WhileClause,
    WindowClause,
)
from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.limits import WINDOWS_PER_TUPLE
from headrace.model.schema import TS
from headrace.model.time import END, format_duration
from headrace.model.types import Type
from headrace.model.window import Cumulative, Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.plan.binding.expressions.expression import ExpressionBinder

_NO_SLIDE = "leave SLIDE out: a join gives its results with every tuple"
_SUBQUERY = "write the join in a sub-query: FROM (SELECT ...) [{}] AS x"


def aggregate_window(clause: WindowClause, binder: ExpressionBinder) -> Window:
    """Return the window over which an aggregate of one stream works."""
    match clause:
        case RangeClause(size=size, per_tuple=True):
            return Sliding(size)
        case RangeClause(size=size, slide=slide, span=span, offset=offset):
            return _range(size, slide or size, offset, span)
        case CumulateClause(size=size, step=step, span=span, offset=offset):
            _check_number(size, step, "STEP", span)
            return Cumulative(size, step, offset)
        case RowsClause(size=size, slide=slide, by=by):
            return Rows(size, slide or size, tuple(binder.bind(expression) for expression in by))
        case SessionClause(gap=gap, inclusive=inclusive):
            return Session(gap, inclusive)
        case LandmarkClause(start=start, slide=slide, span=span):
            if slide is None:
                raise UnboundedStateFault(
                    "a LANDMARK window needs SLIDE, which says when results come",
                    span=span,
                    hint="write for example SLIDE 1 MINUTE",
                )
            return Landmark(start, slide)
        case NowClause():
            return Range(1, 1)
        case UnboundedClause(slide=slide):
            return Sliding(None) if slide is None else Landmark(None, slide)
        case WhileClause(predicate=predicate, by=by):
            return While(binder.predicate(predicate), tuple(binder.bind(expression) for expression in by))


def joined_window(clauses: Sequence[WindowClause]) -> Window:
    """Return the window over which an aggregate of a join works: the largest RANGE, sliding if one of them slides."""
    ranges = [clause for clause in clauses if isinstance(clause, RangeClause)]
    if ranges:
        return _largest_range(ranges)
    for clause in clauses:
        if isinstance(clause, LandmarkClause | UnboundedClause) and clause.slide is not None:
            return Landmark(clause.start if isinstance(clause, LandmarkClause) else None, clause.slide)
    kinds = {type(clause) for clause in clauses}
    if kinds == {NowClause}:
        return Range(1, 1)
    if UnboundedClause in kinds and RowsClause not in kinds:
        return Sliding(None)
    raise NotSupported(
        "an aggregate over a join needs a RANGE window", span=clauses[0].span, hint=_SUBQUERY.format("RANGE 1 MINUTE")
    )


def _largest_range(ranges: Sequence[RangeClause]) -> Window:
    size = max(clause.size for clause in ranges)
    slides = [clause.slide for clause in ranges if clause.slide is not None]
    if not slides and any(clause.per_tuple for clause in ranges):
        return Sliding(size)
    slide = min(slides, default=size)
    offsets = {clause.offset % slide for clause in ranges}
    if len(offsets) > 1:
        raise NotSupported(
            "the windows of a join have different offsets",
            span=next(clause.span for clause in ranges if clause.offset),
            hint="write the same OFFSET after each stream",
        )
    return _range(size, slide, offsets.pop(), ranges[0].span)


def _range(size: int, slide: int, offset: int, span: Span) -> Range:
    _check_number(size, slide, "SLIDE", span)
    return Range(size, slide, offset)


def _refuse_offset(clause: RangeClause) -> None:
    """Refuse an offset where a window follows the tuples instead of the clock."""
    if clause.offset:
        raise NotSupported(
            "only the windows of aggregates have an OFFSET",
            span=clause.span,
            hint="leave it out here: a tuple is remembered from its own time on",
        )


def _check_number(size: int, slide: int, clause: str, span: Span) -> None:
    """Refuse windows of which a tuple would be in too many."""
    if size > slide * WINDOWS_PER_TUPLE:
        per_tuple = ", or SLIDE 1 TUPLE" if clause == "SLIDE" else ""
        raise NotSupported(
            f"each tuple would be in {-(-size // slide):,} windows; at most {WINDOWS_PER_TUPLE:,} are allowed",
            span=span,
            hint=f"write {clause} {format_duration(-(-size // WINDOWS_PER_TUPLE))} or longer{per_tuple}",
        )


def extent(clause: WindowClause, binder: ExpressionBinder, *, aggregated: bool) -> Extent:
    """Return how long a join keeps the tuples of one input."""
    match clause:
        case RangeClause(slide=slide, span=span) if slide is not None and not aggregated:
            raise NotSupported(
                "the window of a join without aggregates cannot have SLIDE",
                span=span,
                hint=_NO_SLIDE,
            )
        case RangeClause(size=size):
            if not aggregated:
                _refuse_offset(clause)
            return Extent(span=size)
        case RowsClause(slide=slide, span=span) if slide not in (None, 1):
            raise NotSupported(
                "a ROWS window of a join cannot have SLIDE",
                span=span,
                hint=_NO_SLIDE,
            )
        case RowsClause(size=size, by=by):
            return Extent(rows=size, by=tuple(binder.bind(expression) for expression in by))
        case NowClause():
            return Extent(span=0)
        case LandmarkClause(slide=slide, span=span) | UnboundedClause(slide=slide, span=span) if (
            slide is not None and not aggregated
        ):
            raise NotSupported(
                "the window of a join without aggregates cannot have SLIDE",
                span=span,
                hint=_NO_SLIDE,
            )
        case LandmarkClause() | UnboundedClause():
            return Extent()
        case CumulateClause(span=span):
            raise NotSupported(
                "a join cannot have cumulative windows",
                span=span,
                hint="write [RANGE ...], or join in a sub-query: FROM (SELECT ...) [RANGE 1 DAY STEP 1 HOUR] AS x",
            )
        case SessionClause(span=span):
            raise NotSupported(
                "a join cannot have SESSION windows",
                span=span,
                hint="write [RANGE ...], or aggregate the sessions in a sub-query",
            )
        case WhileClause(span=span):
            raise NotSupported(
                "a join cannot have WHILE windows",
                span=span,
                hint="write [RANGE ...], or aggregate the runs in a sub-query",
            )


def distinct_span(clause: WindowClause) -> int:
    """Return how long DISTINCT keeps a row."""
    match clause:
        case RangeClause(size=size):
            _refuse_offset(clause)
            return size
        case NowClause():
            return 0
        case UnboundedClause() | LandmarkClause():
            return END
        case CumulateClause(span=span) | RowsClause(span=span) | SessionClause(span=span) | WhileClause(span=span):
            raise NotSupported(
                "DISTINCT cannot have a cumulative, ROWS, SESSION or WHILE window",
                span=span,
                hint="write [RANGE ...], or GROUP BY the columns",
            )


def since(start: int) -> Expr:
    """Return the condition that a tuple is not earlier than `start`."""
    return Call(">=", (Column(TS, Type.BIGINT), Literal(start, Type.BIGINT)), Type.BOOLEAN)
