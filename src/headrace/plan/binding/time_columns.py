"""The columns of a plan that are its tuples' timestamps, or follow them at a constant distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.catalog.definitions import Stream
from headrace.language.dialect import parse_select, tokenize
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.types import Type
from headrace.model.window import Range
from headrace.plan import nodes
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.scope import ROWTIME
from headrace.plan.nodes import Node

#: The column of a left join that says that a partner is there, and the condition that it is not.
FOUND = "is there"
MISSING = Call("is_null", (Column(FOUND, Type.BOOLEAN),), Type.BOOLEAN)


def time_columns(node: Node, env: Environment) -> frozenset[str]:
    """Return the columns that always equal the timestamp of their tuple."""
    return frozenset(name for name, lag in time_lags(node, env).items() if lag == 0)


def time_lags(node: Node, env: Environment) -> Mapping[str, int]:
    """Return the columns that are always the same time before the timestamp of their tuple, and that time.

    window_time is one of them, and so is the column `window` of Spark, whose time is the last instant of the window.
    """
    match node:
        case nodes.Scan(name=name):
            stream = env.catalog.get(name)
            if stream is None:
                return _of_query(node, env)
            return {stream.time_column: 0} if isinstance(stream, Stream) and stream.time_column is not None else {}
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
        case nodes.Aggregate(window=Range(size=size)):
            return {"window_end": 0, "window_start": size}
        case nodes.Aggregate():
            return {"window_end": 0}
        case nodes.Join() | nodes.MultiJoin() | nodes.Detect() | nodes.Suppress() | nodes.Changes() | nodes.MatchRows():
            return {}


def instant_columns(node: Node, env: Environment) -> frozenset[str]:
    """Return the columns that tell timestamps apart: also the starts of windows, which are all of one length."""
    match node:
        case nodes.Project(input=below, columns=columns):
            known = instant_columns(below, env)
            return frozenset(name for name, expr in columns if _lag(expr, dict.fromkeys(known, 0)) is not None)
        case nodes.Filter() | nodes.Over() | nodes.Rank() | nodes.WindowOver():
            return instant_columns(node.input, env)
        case nodes.Aggregate(window=Range()):
            return frozenset({"window_start", "window_end"})
        case _:
            return frozenset(time_lags(node, env))


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


def _of_query(stand_in: nodes.Scan, env: Environment) -> Mapping[str, int]:
    """Return the times of the named query that a scan stands for."""
    for query in env.catalog.queries():
        if env.queries(query.name) == stand_in:
            if not isinstance(parse(query.text)[0], Select):  # an event
                return {}
            whole = env.bind_query(
                parse_select(tokenize(query.text), query.text), replace(env, ctes={}, queries=lambda _: None)
            )
            return time_lags(whole, env)
    return {}
