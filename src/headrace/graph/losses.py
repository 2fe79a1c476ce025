"""Where a lost tuple creates results: arcs on which nothing may be shed.

Most operators only lose results with their input. Some report the absence of a tuple: a negated event, the padding of
an outer join, the end of a session. Others let a tuple take the place of the lost one: LIMIT, a window of rows. Above
them, each arc that leads to such an input is barred, for all queries that read it.

Aggregates are apart: a loss changes their values, which is what an error allows. But counts and maxima only fall and
minima only rise, so a condition such as `count(*) < 3` lets results through because tuples are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from headrace.graph.graph import Arc, Graph, Vertex, VertexId
from headrace.model.events.event import (
    Absent,
    Alias,
    And,
    AnyOf,
    Aperiodic,
    AperiodicStar,
    Event,
    Mode,
    Not,
    Or,
    Periodic,
    PeriodicStar,
    Plus,
    Primitive,
    Repetition,
    Sequence,
    Times,
    Within,
    primitives,
)
from headrace.model.expressions import expression
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, columns
from headrace.model.schema import WEIGHT
from headrace.model.window import AggregateCall
from headrace.operators import specs

#: How a value changes if tuples are lost.
Trend: TypeAlias = Literal["falls", "rises"]
#: The trends of the columns of an output, each with the aggregates that it comes from.
Trends: TypeAlias = dict[str, tuple[Trend, frozenset[VertexId]]]

_TRENDS: Mapping[str, Trend] = {"count": "falls", "count_distinct": "falls", "max": "falls", "min": "rises"}
_FLIPPED: Mapping[Trend, Trend] = {"falls": "rises", "rises": "falls"}
#: Functions that rise with each of their arguments, but for the second one of a difference.
_RISING = frozenset({"round", "floor", "ceil", "coalesce", "least", "greatest", "+", "-"})
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def creating_arcs(graph: Graph) -> dict[Arc, VertexId]:
    """Return the arcs on which the loss of a tuple may create results, each with the vertex at which they appear."""
    creators: dict[VertexId, VertexId] = {}  # vertices behind which a loss creates results
    judged = _judged_aggregates(graph)
    arcs: dict[Arc, VertexId] = {}
    for vertex in reversed(graph.vertices):
        for port, origin in enumerate(vertex.inputs):
            creator = creators.get(vertex.id) or judged.get(vertex.id)
            if creator is None and creates_by_loss(vertex.spec, port):
                creator = vertex.id
            if creator is not None:
                arcs[vertex.id, port] = creator
                creators.setdefault(origin, creator)
    return arcs


def creates_by_loss(spec: specs.Spec, port: int) -> bool:
    """Return whether an operator may give tuples without a tuple of this port that it would not give with it."""
    match spec:
        case specs.Join() | specs.JoinChanges() | specs.RowsJoin() | specs.OrderedJoin():
            extent = spec.extent(port)
            return spec.preserves(1 - port) or (extent is not None and extent.rows is not None)
        case specs.SequenceJoin(mode=mode):
            return mode != "recent" or port == 0  # another left tuple, or another right one, takes its place
        case specs.Detect():
            return port not in _harmless_ports(spec)
        case specs.Distinct(span=span):
            return span > 0  # the next equal tuple has none before it
        case (
            specs.Suppress()
            | specs.Leading()
            | specs.Limit()
            | specs.Rank()
            | specs.SessionAggregate()
            | specs.Over()
            | specs.WindowOver()
            | specs.Changes()
            | specs.MatchRows()
        ):
            return True
        case specs.Deduplicate() | specs.Punctuate():
            return True  # without a mark, what came too late is there
        case (
            specs.Exchange()
            | specs.Filter()
            | specs.Hold()
            | specs.Impute()
            | specs.MultiJoin()
            | specs.OrderedUnion()
            | specs.Output()
            | specs.Pace()
            | specs.PaneAggregate()
            | specs.PartialAggregate()
            | specs.Project()
            | specs.Receive()
            | specs.Reorder()
            | specs.RowsAggregate()
            | specs.Scan()
            | specs.SlidingAggregate()
            | specs.TableJoin()
            | specs.Membership()
            | specs.Union()
            | specs.Condense()
            | specs.Unnest()
            | specs.WhileAggregate()
        ):
            return False


def _harmless_ports(spec: specs.Detect) -> frozenset[int]:
    """Return the ports of a detection at which a lost tuple only takes detections away."""
    if any(retention.keep is not None for retention in spec.context.retentions):
        return frozenset()  # an older tuple is kept in its place
    match spec.context.mode:
        case Mode.UNRESTRICTED:
            harmless = list(_needed(spec.event))
        case Mode.RECENT:
            harmless = list(_last(spec.event))
        case Mode.CHRONICLE | Mode.CONTINUOUS | Mode.CUMULATIVE | Mode.PROXIMAL:
            return frozenset()  # what the lost tuple would have used up is there for others
    harmful = [part for part in primitives(spec.event) if part not in harmless]
    return frozenset(part.port for part in harmless) - {part.port for part in harmful}


def _needed(event: Event) -> Iterator[Primitive]:
    """Return the primitive events without which there are only fewer occurrences, if all are combined with all."""
    match event:
        case Primitive():
            yield event
        case And(left=left, right=right) | Or(left=left, right=right) | Sequence(left=left, right=right):
            yield from _needed(left)
            yield from _needed(right)
        case Not(start=start, end=end):
            yield from _needed(start)
            yield from _needed(end)
        case Absent(start=start) | Periodic(start=start):
            yield from _needed(start)
        case Aperiodic(start=start, middle=middle):
            yield from _needed(start)
            yield from _needed(middle)
        case AnyOf(events=events):
            for part in events:
                yield from _needed(part)
        case Plus(event=inner) | Within(event=inner) | Alias(event=inner):
            yield from _needed(inner)
        case Times() | AperiodicStar() | Repetition() | PeriodicStar():
            return  # they combine what is left in another way


def _last(event: Event) -> Iterator[Primitive]:
    """Return the primitive events that only end occurrences: no later one is combined with them."""
    match event:
        case Primitive():
            yield event
        case Sequence(right=right):
            yield from _last(right)
        case Or(left=left, right=right):
            yield from _last(left)
            yield from _last(right)
        case Within(event=inner) | Plus(event=inner) | Alias(event=inner):
            yield from _last(inner)
        case Not() | Absent() | And() | AnyOf() | Times() | Aperiodic() | AperiodicStar() | Periodic() | PeriodicStar():
            return
        case Repetition():
            return


def _judged_aggregates(graph: Graph) -> dict[VertexId, VertexId]:
    """Return the aggregates whose lower counts or maxima, or higher minima, let tuples pass a condition behind them.

    Each with the vertex that has the condition.
    """
    trends: dict[VertexId, Trends] = {}
    judged: dict[VertexId, VertexId] = {}
    for vertex in graph:
        before = [trends[origin] for origin in vertex.inputs]
        known = _read(vertex, before)
        for condition in _conditions(vertex.spec):
            for aggregate in _passing(condition, known):
                judged.setdefault(aggregate, vertex.id)
        trends[vertex.id] = _after(vertex, before, known)
    return judged


def _read(vertex: Vertex, before: list[Trends]) -> Trends:
    """Return the trends of the columns by the names that the conditions of a vertex use."""
    match vertex.spec:
        case specs.Join() | specs.JoinChanges() | specs.RowsJoin() | specs.OrderedJoin() | specs.SequenceJoin():
            renamed = dict(zip(vertex.spec.right.names, vertex.spec.right_names, strict=False))
            return before[0] | {renamed.get(name, name): trend for name, trend in before[1].items()}
        case specs.MultiJoin(inputs=inputs, names=names):
            return {
                new: known[old]
                for schema, own, known in zip(inputs, names, before, strict=True)
                for old, new in zip(schema.names, own, strict=True)
                if old in known
            }
        case specs.Detect(event=event):
            return {
                f"{part.name}.{name}": trend for part in primitives(event) for name, trend in before[part.port].items()
            }
        case _:
            return {name: trend for known in before for name, trend in known.items()}


def _after(vertex: Vertex, before: list[Trends], known: Trends) -> Trends:
    """Return the trends of the columns of a vertex's output."""
    spec = vertex.spec
    match spec:
        case specs.Project(columns=projected):
            traced = ((name, _trend(expr, known)) for name, expr in projected)
            return {name: trend for name, trend in traced if trend is not None}
        case specs.Scan() | specs.Detect() | specs.PartialAggregate():
            return {}
        case (
            specs.PaneAggregate()
            | specs.RowsAggregate()
            | specs.SessionAggregate()
            | specs.SlidingAggregate()
            | specs.WhileAggregate()
        ):
            calls = ((call.name, _trend_of(call)) for call in spec.calls)
            return {name: (trend, frozenset({vertex.id})) for name, trend in calls if trend is not None}
        case specs.Union() | specs.OrderedUnion() | specs.Pace():
            return {name: trend for part in before for name, trend in part.items()}
        case _:
            return known


def _trend_of(call: AggregateCall) -> Trend | None:
    if call.function == "sum" and call.arg is not None and columns(call.arg) and _is_weight(call.arg):
        return "falls"  # a count of tuples that have weights
    return _TRENDS.get(call.function)


def _is_weight(expr: Expr) -> bool:
    match expr:
        case Column(name=name):
            return name == WEIGHT
        case Case(branches=branches):
            return all(_is_weight(value) for _, value in branches)
        case _:
            return False


def _conditions(spec: specs.Spec) -> Iterator[Expr]:
    match spec:
        case specs.Filter(predicate=predicate):
            yield predicate
        case (
            specs.Join()
            | specs.JoinChanges()
            | specs.RowsJoin()
            | specs.OrderedJoin()
            | specs.SequenceJoin()
            | specs.TableJoin()
        ):
            if spec.residual is not None:
                yield spec.residual
        case specs.MultiJoin(terms=terms):
            yield from terms
        case specs.Detect(event=event, conditions=conditions):
            yield from conditions
            yield from (_qualified(part) for part in primitives(event) if part.mask is not None)
        case _:
            return


def _qualified(part: Primitive) -> Expr:
    """Return the mask of a part with its columns as `part.column`."""
    assert part.mask is not None
    return expression.transform(
        part.mask,
        lambda each: (
            Column(f"{part.name}.{each.name}", each.type) if isinstance(each, Column) and "." not in each.name else each
        ),
    )


def _passing(condition: Expr, known: Trends, *, holds: bool = True) -> Iterator[VertexId]:
    """Return the aggregates by whose changes the condition may come to hold (or not to hold)."""
    if not isinstance(condition, Call):
        return
    match condition.function:
        case "and" | "or":
            for term in condition.args:
                yield from _passing(term, known, holds=holds)
        case "not":
            yield from _passing(condition.args[0], known, holds=not holds)
        case "<" | "<=" | ">" | ">=" as function:
            compared = function if holds else _OPPOSITE[function]
            helpful: tuple[Trend, Trend] = ("falls", "rises") if compared in ("<", "<=") else ("rises", "falls")
            for side, trend in zip(condition.args, helpful, strict=True):
                traced = _trend(side, known)
                if traced is not None and traced[0] == trend:
                    yield from traced[1]
        case _:
            for argument in condition.args:
                traced = _trend(argument, known)
                if traced is not None:
                    yield from traced[1]


def _trend(expr: Expr, known: Trends) -> tuple[Trend, frozenset[VertexId]] | None:
    """Return how an expression changes with the columns that it reads; None if that is not certain."""
    match expr:
        case Column(name=name):
            return known.get(name)
        case Cast(arg=arg):
            return _trend(arg, known)
        case Call(
            function="round" | "floor" | "ceil" | "coalesce" | "+" | "-" | "least" | "greatest" as name, args=args
        ):
            signs = [_trend(argument, known) for argument in args]
            if name == "-" and len(signs) == 2 and signs[1] is not None:
                signs[1] = (_FLIPPED[signs[1][0]], signs[1][1])
            certain = [sign for sign in signs if sign is not None]
            unsure = any(
                sign is None and not columns(argument).isdisjoint(known)
                for sign, argument in zip(signs, args, strict=True)
            )
            if not certain or unsure or len({trend for trend, _ in certain}) > 1:
                return None
            return certain[0][0], frozenset().union(*(origins for _, origins in certain))
        case Call(function="*" | "/", args=(first, expression.Literal(value=int() | float() as factor))) if factor > 0:
            return _trend(first, known)
        case _:
            return None
