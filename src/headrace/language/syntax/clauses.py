"""The parts of a SELECT that SQL does not have, as the parser reads them: windows, manners of a join, PACE, IMPUTE.

They hang on sqlglot's nodes, in `meta`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

from headrace.errors import Span


@dataclass(frozen=True, slots=True)
class RangeClause:
    """[RANGE size], [RANGE size SLIDE slide], [RANGE size SLIDE TUPLE], [RANGE size OFFSET offset], in microseconds."""

    size: int
    slide: int | None
    per_tuple: bool
    span: Span
    offset: int = 0  # from 0 to before the slide

    @property
    def is_tumbling(self) -> bool:
        """Return whether each tuple is in one window."""
        return not self.per_tuple and self.slide in (None, self.size)


@dataclass(frozen=True, slots=True)
class CumulateClause:
    """[RANGE size STEP step], [RANGE size STEP step OFFSET offset]; `size` is a multiple of `step`."""

    size: int
    step: int
    span: Span
    offset: int = 0  # from 0 to before the size


@dataclass(frozen=True, slots=True)
class RowsClause:
    """[ROWS size], [PARTITION BY by ROWS size SLIDE slide]; SLIDE TUPLE is a slide of 1."""

    size: int
    slide: int | None
    by: tuple[exp.Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SessionClause:
    """[SESSION gap], [SESSION gap INCLUSIVE]."""

    gap: int
    span: Span
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class LandmarkClause:
    """[LANDMARK FROM start SLIDE slide]."""

    start: int
    slide: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class NowClause:
    """[NOW]."""

    span: Span


@dataclass(frozen=True, slots=True)
class UnboundedClause:
    """[UNBOUNDED], [UNBOUNDED SLIDE slide]."""

    slide: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class WhileClause:
    """[WHILE predicate], [PARTITION BY by WHILE predicate]."""

    predicate: exp.Expr
    by: tuple[exp.Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TemporalClause:
    """FOR SYSTEM_TIME AS OF time."""

    time: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class FollowingClause:
    """FOLLOWING RECENT | CHRONICLE [INCLUSIVE], or CONSUMING, after the condition of a JOIN."""

    mode: Literal["recent", "chronicle", "consuming"]
    inclusive: bool
    span: Span


@dataclass(frozen=True, slots=True)
class MannerClause:
    """THRIFTY or IMPATIENT before JOIN: which feedback the join sends to its inputs."""

    manner: Literal["thrifty", "impatient"]
    span: Span


@dataclass(frozen=True, slots=True)
class PaceClause:
    """WITH PACE ON MAX(a.at, b.at) | rowtime tolerance [CUT share] [SERVICE duration] after a UNION.

    `columns` is empty for rowtime alone.
    """

    columns: tuple[exp.Column, ...]
    tolerance: int
    share: float | None
    service: int
    span: Span


@dataclass(frozen=True, slots=True)
class ImputeClause:
    """IMPUTE(value USING table[.column] [ON conditions] [DEFAULT default]).

    Or USING 'python:module:function' ON keys.
    """

    value: exp.Expr
    table: exp.Table | None
    column: str | None
    target: str | None
    on: tuple[exp.Expr, ...]
    default: exp.Expr | None
    span: Span
    archive: Span


WindowClause: TypeAlias = (
    RangeClause
    | CumulateClause
    | RowsClause
    | SessionClause
    | LandmarkClause
    | NowClause
    | UnboundedClause
    | WhileClause
)


@dataclass(frozen=True, slots=True)
class EmitClause:
    """EMIT CHANGES [STATE TTL '1 day'], or EMIT FINAL or EMIT ON WINDOW CLOSE, at the end of a query."""

    changes: bool
    span: Span
    ttl: int | None = None


def emit_of(query: exp.Expr) -> EmitClause | None:
    """Return the EMIT clause at the end of a query."""
    clause: EmitClause | None = query.meta.get("emit")
    return clause


WindowFunction: TypeAlias = Literal["TUMBLE", "HOP", "CUMULATE", "SESSION", "WINDOW", "SESSION_WINDOW"]


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function of Flink or Spark, and the window that it stands for.

    In GROUP BY: TUMBLE(at, size), window(at, size, slide). In FROM (`is_table`): TABLE(TUMBLE(TABLE s, DESCRIPTOR(at),
    size)), where SESSION may have PARTITION BY.
    """

    function: WindowFunction
    window: RangeClause | CumulateClause | SessionClause
    time: exp.Column
    is_table: bool
    by: tuple[exp.Expr, ...] = ()

    @property
    def span(self) -> Span:
        return self.window.span


def window_call_of(item: exp.Expr) -> WindowCall | None:
    """Return the window function that gives a FROM item its window, or that an expression calls."""
    call: WindowCall | None = item.meta.get("window_call")
    return call


def window_of(item: exp.Expr) -> WindowClause | None:
    """Return the window written after a table or sub-query of FROM."""
    clause: WindowClause | None = item.meta.get("window")
    return clause


def temporal_of(item: exp.Expr) -> TemporalClause | None:
    """Return FOR SYSTEM_TIME AS OF after a table of FROM."""
    clause: TemporalClause | None = item.meta.get("as_of")
    return clause


def following_of(join: exp.Expr) -> FollowingClause | None:
    """Return the FOLLOWING or CONSUMING clause after the condition of a JOIN."""
    clause: FollowingClause | None = join.meta.get("following")
    return clause


def impute_of(call: exp.Expr) -> ImputeClause | None:
    """Return the clause of a call of IMPUTE."""
    clause: ImputeClause | None = call.meta.get("impute")
    return clause


def manner_of(join: exp.Expr) -> MannerClause | None:
    """Return THRIFTY or IMPATIENT before a JOIN."""
    clause: MannerClause | None = join.meta.get("manner")
    return clause


def pace_of(union: exp.Expr) -> PaceClause | None:
    """Return the pace of a UNION, written after its last part; of a union in FROM it hangs on the first item."""
    clause: PaceClause | None = union.meta.get("pace")
    return clause


def unions_of(item: exp.Expr) -> tuple[exp.Expr, ...]:
    """Return the further items of `FROM item UNION b UNION c`."""
    further: tuple[exp.Expr, ...] = item.meta.get("unions", ())
    return further
