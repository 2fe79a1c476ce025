"""Aggregates with a condition behind them that a lost tuple may fulfill: `count(*) < 3`, `max(v) < 3`.

If tuples are lost, counts and maxima fall and minima rise. What is computed from them falls, rises, or changes in
either way. Sums, means and the like are estimates: a condition on them is judged by the estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.events.event import Primitive, primitives
from headrace.model.expressions import expression
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, children, columns
from headrace.model.schema import WEIGHT
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators import specs

#: How a value changes if tuples are lost; `either` if both may happen.
Trend: TypeAlias = Literal["falls", "rises", "either"]
#: A trend with the aggregates that it comes from.
Traced: TypeAlias = tuple[Trend, frozenset[VertexId]]
#: The trends of the columns of an output.
Trends: TypeAlias = dict[str, Traced]

_TRENDS: Mapping[str, Trend] = {
    "count": "falls",
    "count_distinct": "falls",
    "approx_count_distinct": "falls",
    "max": "falls",
    "min": "rises",
    "bool_or": "falls",
    "bool_and": "rises",
}
#: Aggregates that estimate the same of all tuples, more or less well.
_ESTIMATES = frozenset(
    {"sum", "avg", "sum_distinct", "avg_distinct", "stddev", "variance", "var_pop", "stddev_pop", "covar_samp",
     "covar_pop", "corr", "median", "percentile", "percentile_disc", "approx_percentile", "skewness", "kurtosis",
     "shed_error"}
)  # fmt: skip
_FLIPPED: Mapping[Trend, Trend] = {"falls": "rises", "rises": "falls", "either": "either"}
#: Functions that rise with each of their arguments, but for the second one of a difference.
_RISING = frozenset({"round", "floor", "ceil", "coalesce", "least", "greatest", "+", "-"})
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def judged_aggregates(graph: Graph) -> dict[VertexId, VertexId]:
    """Return the aggregates whose changes let tuples pass a condition, each with the vertex that has the condition."""
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
            renamed = _renamed(vertex.spec)
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


def _renamed(
    spec: specs.Join | specs.JoinChanges | specs.RowsJoin | specs.OrderedJoin | specs.SequenceJoin,
) -> dict[str, str]:
    return dict(zip(spec.right.names, spec.right_names, strict=False))


def _after(vertex: Vertex, before: list[Trends], known: Trends) -> Trends:
    """Return the trends of the columns of a vertex's output."""
    spec = vertex.spec
    match spec:
        case specs.Project(columns=projected):
            return _traced((name, _trend(expr, known)) for name, expr in projected)
        case specs.Scan() | specs.Detect():
            return {}
        case specs.PartialAggregate():
            return known  # for the aggregate behind it
        case (
            specs.PaneAggregate()
            | specs.RowsAggregate()
            | specs.SessionAggregate()
            | specs.SlidingAggregate()
            | specs.WhileAggregate()
        ):
            own = frozenset({vertex.id})
            # another tuple comes into such a window for the one that was lost
            shifts = isinstance(spec, specs.RowsAggregate | specs.WhileAggregate)
            calls = ((call.name, _trend_of(call, known)) for call in spec.calls)
            return {name: ("either" if shifts else trend, own) for name, trend in calls if trend is not None}
        case specs.Membership(name=name, keys=keys, compared=compared):
            found = _either(_trend(mine, known) for mine, _ in (*keys, *compared))
            return known | _traced([(name, found)])
        case specs.Union() | specs.OrderedUnion() | specs.Pace():
            return {name: trend for part in before for name, trend in part.items()}
        case _:
            return known


def _trend_of(call: AggregateCall, known: Trends) -> Trend | None:
    if call.function == "sum" and call.arg is not None and columns(call.arg) and _is_weight(call.arg):
        return "falls"  # a count of tuples that have weights
    if call.function in _ESTIMATES:
        return None
    if any(_trend(arg, known) is not None for arg in call.args):
        return "either"  # the values change as well
    return _TRENDS.get(call.function, "either")


def _is_weight(expr: Expr) -> bool:
    match expr:
        case Column(name=name):
            return name == WEIGHT
        case Case(branches=branches):
            return all(_is_weight(value) for _, value in branches)
        case _:
            return False


def _conditions(spec: specs.Spec) -> Iterator[Expr]:
    """Yield conditions, and keys that must agree with others, by the names of `_read`."""
    match spec:
        case specs.Filter(predicate=predicate):
            yield predicate
        case specs.Join() | specs.JoinChanges() | specs.RowsJoin() | specs.OrderedJoin() | specs.SequenceJoin():
            renamed = _renamed(spec)
            for left, right in spec.keys:
                yield left
                yield _with_names(right, renamed)
            if spec.residual is not None:
                yield spec.residual
        case specs.TableJoin():
            yield from (key for key, _ in spec.keys)
            if spec.residual is not None:
                yield spec.residual
        case specs.MultiJoin(classes=classes, terms=terms):
            for members in classes:
                yield from (spec.output(port, expr) for port, expr in enumerate(members) if expr is not None)
            yield from terms
        case specs.Detect(event=event, keys=keys, conditions=conditions):
            yield from conditions
            for part in primitives(event):
                yield from (_qualified(part, expr) for expr in (*keys[part.port], part.mask) if expr is not None)
        case _:
            return


def _with_names(expr: Expr, renamed: Mapping[str, str]) -> Expr:
    return expression.substitute(
        expr,
        {
            part.name: Column(renamed.get(part.name, part.name), part.type)
            for part in expression.walk(expr)
            if isinstance(part, Column)
        },
    )


def _qualified(part: Primitive, expr: Expr) -> Expr:
    """Return an expression over a part with its columns as `part.column`."""
    return expression.transform(
        expr,
        lambda each: (
            Column(f"{part.name}.{each.name}", each.type) if isinstance(each, Column) and "." not in each.name else each
        ),
    )


def _passing(condition: Expr, known: Trends, *, holds: bool = True) -> Iterator[VertexId]:
    """Return the aggregates by whose changes the condition may come to hold (or not to hold)."""
    match condition:
        case Call(function="and" | "or", args=terms):
            for term in terms:
                yield from _passing(term, known, holds=holds)
        case Call(function="not", args=(negated,)):
            yield from _passing(negated, known, holds=not holds)
        case Call(function="<" | "<=" | ">" | ">=" as function, args=args):
            compared = function if holds else _OPPOSITE[function]
            helpful: tuple[Trend, Trend] = ("falls", "rises") if compared in ("<", "<=") else ("rises", "falls")
            for side, trend in zip(args, helpful, strict=True):
                traced = _trend(side, known)
                if traced is not None and traced[0] in (trend, "either"):
                    yield from traced[1]
        case _:
            traced = _trend(condition, known)
            if traced is not None:
                yield from traced[1]


def _trend(expr: Expr, known: Trends) -> Traced | None:
    """Return how an expression changes with the columns that it reads; None if it does not, or is an estimate."""
    match expr:
        case Column(name=name):
            return known.get(name)
        case Cast(arg=arg, type=type_) if type_ not in (Type.STRING, Type.BOOLEAN):
            return _trend(arg, known)
        case Call(function=name, args=args) if name in _RISING:
            signs = [_trend(argument, known) for argument in args]
            if name == "-" and len(signs) == 2 and signs[1] is not None:
                signs[1] = (_FLIPPED[signs[1][0]], signs[1][1])
            certain = {sign[0] for sign in signs if sign is not None}
            both = _either(signs)
            estimated = any(
                sign is None and not columns(argument).isdisjoint(known)
                for sign, argument in zip(signs, args, strict=True)
            )
            return both if both is None or estimated or len(certain) > 1 else (certain.pop(), both[1])
        case Call(function="neg", args=(arg,)):
            return _scaled(_trend(arg, known), -1.0)
        case (
            Call(function="*" | "/", args=(arg, expression.Literal(value=int() | float() | str() as factor)))
            | Call(function="*", args=(expression.Literal(value=int() | float() | str() as factor), arg))
        ):
            return _scaled(_trend(arg, known), float(factor))
        case Call(function="/", args=(dividend, divisor)) if columns(dividend) and _trend(divisor, known) is not None:
            return None  # a mean or a share
        case _:
            return _either(_trend(part, known) for part in children(expr))


def _scaled(traced: Traced | None, factor: float) -> Traced | None:
    if traced is None:
        return None
    return traced if factor > 0 else (_FLIPPED[traced[0]], traced[1])


def _either(traced: Iterable[Traced | None]) -> Traced | None:
    """Return what may change in any way as these do; None if none of them does."""
    origins = [each[1] for each in traced if each is not None]
    return ("either", frozenset().union(*origins)) if origins else None


def _traced(columns_of: Iterable[tuple[str, Traced | None]]) -> Trends:
    return {name: trend for name, trend in columns_of if trend is not None}
