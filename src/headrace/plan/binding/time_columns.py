"""The columns of a plan that are its tuples' timestamps, or follow them at a constant distance."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.catalog.definitions import Stream
from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.types import Type
from headrace.model.window import Range
from headrace.plan import nodes
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.scope import ROWTIME
from headrace.plan.binding.stand_in import plan_of
from headrace.plan.binding.tumbling import tumbling_columns
from headrace.plan.nodes import Node

#: The column of a left join that says that a partner is there, and the condition that it is not.
FOUND = "is there"
MISSING = Call("is_null", (Column(FOUND, Type.BOOLEAN),), Type.BOOLEAN)


def time_columns(node: Node, env: Environment) -> frozenset[str]:
    """Return the columns that always equal the timestamp of their tuple."""
    return frozenset(name for name, lag in time_lags(node, env).items() if lag == 0)


def arrival_columns(node: Node, env: Environment) -> frozenset[str]:
    """Return the columns that have the time at which a record of a stream was read, as PROCTIME() gives it."""
    match node:
        case nodes.Scan(name=name):
            stream = env.catalog.get(name)
            return stream.arrivals if isinstance(stream, Stream) else frozenset()
        case nodes.Project(input=below, columns=columns):
            known = arrival_columns(below, env)
            return frozenset(name for name, expr in columns if isinstance(expr, Column) and expr.name in known)
        case nodes.Filter(input=below):
            return arrival_columns(below, env)
        case _:
            return frozenset()


def time_lags(node: Node, env: Environment) -> Mapping[str, int]:
    """Return the columns that are always the same time before the timestamp of their tuple, and that time.

    window_time is one of them, and so is the column `window` of Spark, whose time is the last instant of the window.
    """
    match node:
        case nodes.Scan(name=name):
            stream = env.catalog.get(name)
            if stream is None:
                whole = plan_of(node, env)
                return {} if whole is None else time_lags(whole, env)
            return dict.fromkeys(stream.times, 0) if isinstance(stream, Stream) else {}
        case nodes.Project(input=below, columns=columns):
            known = time_lags(below, env)
            return {name: lag for name, expr in columns if (lag := _lag(expr, known)) is not None}
        case nodes.Filter(input=nodes.Join(kind="left") as join, predicate=predicate) if predicate == MISSING:
            return time_lags(join.left, env)  # a tuple without a partner has its own timestamp
        case (
            nodes.Filter()
            | nodes.Condense()
            | nodes.Unnest()
            | nodes.Impute()
            | nodes.TableJoin()
            | nodes.Membership()
            | nodes.Distinct()
            | nodes.Deduplicate()
            | nodes.Over()
            | nodes.Rank()
            | nodes.WindowOver()
            | nodes.Order()
            | nodes.Limit()
            | nodes.Punctuate()
        ):
            return time_lags(node.input, env)
        case nodes.Pace(late=True):
            return {}  # it has the time at which it was found to be late
        case nodes.Union(inputs=parts) | nodes.Pace(inputs=parts):
            shared = set.intersection(*(set(time_lags(part, env).items()) for part in parts))
            return dict(shared)
        case nodes.SequenceJoin(mode="consuming"):
            return {}
        case nodes.SequenceJoin(right=right, right_names=names):
            known = time_lags(right, env)
            return {name: known[own] for name, own in zip(names, right.schema.names, strict=True) if own in known}
        case nodes.Aggregate(window=Range(size=size) as window):
            return {"window_end": 0, "window_start": size, **_of_keys(node, window, env)}
        case nodes.Aggregate():
            return {"window_end": 0}
        case nodes.Join() | nodes.MultiJoin() | nodes.Detect() | nodes.Suppress() | nodes.Changes() | nodes.MatchRows():
            return {}


def instant_columns(node: Node, env: Environment) -> frozenset[str]:
    """Return the columns that tell timestamps apart."""
    return frozenset(time_lags(node, env))


def _of_keys(node: nodes.Aggregate, window: Range, env: Environment) -> Mapping[str, int]:
    """Return the keys that are the same time before the timestamp of each result, which is the end of the window."""
    columns = {name: expr.name for name, expr in node.keys if isinstance(expr, Column)}
    if window.size == window.slide == 1:  # [NOW]: the timestamp of its tuples is one microsecond before the end
        known = {name: lag + 1 for name, lag in time_lags(node.input, env).items()}
    else:
        ends = tumbling_columns(node.input, env).items()
        known = {name: 0 if end.which == "window_end" else end.size for name, end in ends if end.window == window}
    return {key: known[name] for key, name in columns.items() if name in known}


def _lag(expr: Expr, known: Mapping[str, int]) -> int | None:
    """Return how long before the timestamp an expression is; None if that is not constant."""
    match expr:
        case Column(name=name) if name in known:
            return known[name]
        case Call(function="-", args=(time, Literal(value=int(distance), type=Type.INTERVAL))) if distance >= 0:
            lag = _lag(time, known)
            return None if lag is None else lag + distance
        case Call(function="named_struct", args=(Literal(value="start"), _, Literal(value="end"), end)):
            lag = _lag(end, known)
            return None if lag is None else lag + 1
        case _:
            return 0 if expr == ROWTIME else None
