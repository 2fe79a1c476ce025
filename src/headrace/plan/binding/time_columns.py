"""The columns of a plan that are its tuples' timestamps."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.definitions import Stream
from headrace.language.dialect import parse_select, tokenize
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.expressions.expression import Call, Column
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
    match node:
        case nodes.Scan(name=name):
            stream = env.catalog.get(name)
            if stream is None:
                return _of_query(node, env)
            return frozenset(
                {stream.time_column} if isinstance(stream, Stream) and stream.time_column is not None else ()
            )
        case nodes.Project(input=below, columns=columns):
            known = time_columns(below, env)
            return frozenset(
                name for name, expr in columns if expr == ROWTIME or (isinstance(expr, Column) and expr.name in known)
            )
        case nodes.Filter(input=nodes.Join(kind="left") as join, predicate=predicate) if predicate == MISSING:
            return time_columns(join.left, env)  # a tuple without a partner has its own timestamp
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
            return time_columns(node.input, env)
        case nodes.Pace(late=True):
            return frozenset()  # it has the time at which it was found to be late
        case nodes.Union(inputs=parts) | nodes.Pace(inputs=parts):
            return frozenset.intersection(*(time_columns(part, env) for part in parts))
        case nodes.SequenceJoin(mode="consuming"):
            return frozenset()
        case nodes.SequenceJoin(right=right, right_names=names):
            known = time_columns(right, env)
            return frozenset(name for name, own in zip(names, right.schema.names, strict=True) if own in known)
        case nodes.Aggregate():
            return frozenset({"window_end"})
        case nodes.Join() | nodes.MultiJoin() | nodes.Detect() | nodes.Suppress() | nodes.Changes() | nodes.MatchRows():
            return frozenset()


def instant_columns(node: Node, env: Environment) -> frozenset[str]:
    """Return the columns that tell timestamps apart: also the starts of windows, which are all of one length."""
    match node:
        case nodes.Project(input=below, columns=columns):
            known = instant_columns(below, env)
            of_time = time_columns(node, env)
            return of_time | {name for name, expr in columns if isinstance(expr, Column) and expr.name in known}
        case nodes.Filter() | nodes.Over() | nodes.Rank() | nodes.WindowOver():
            return instant_columns(node.input, env)
        case nodes.Aggregate(window=Range()):
            return frozenset({"window_start", "window_end"})
        case _:
            return time_columns(node, env)


def _of_query(stand_in: nodes.Scan, env: Environment) -> frozenset[str]:
    """Return the time columns of the named query that a scan stands for."""
    for query in env.catalog.queries():
        if env.queries(query.name) == stand_in:
            if not isinstance(parse(query.text)[0], Select):  # an event
                return frozenset()
            whole = env.bind_query(
                parse_select(tokenize(query.text), query.text), replace(env, ctes={}, queries=lambda _: None)
            )
            return time_columns(whole, env)
    return frozenset()
