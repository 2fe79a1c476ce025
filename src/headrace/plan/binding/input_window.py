"""Finds the window of an aggregate: the one that is written, or that a key of GROUP BY names."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headrace.errors import NotSupported, UnboundedStateFault
from headrace.language import other_systems
from headrace.model.expressions.expression import Expr
from headrace.model.window import Rows, While, Window
from headrace.plan.binding.changes import AGGREGATE_HINT
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.from_clause import Source
from headrace.plan.binding.implied_window import implied_window, window_ends
from headrace.plan.binding.span import place
from headrace.plan.binding.window import aggregate_window, joined_window

#: Windows that begin where date_trunc cuts.
_UNITS = {unit: f"1 {unit}" for unit in ("SECOND", "MINUTE", "HOUR", "DAY")} | {"WEEK": "7 DAYS OFFSET 4 DAYS"}


def written_or_implied_window(source: Source, keys: Mapping[str, Expr], env: Environment) -> Window:
    """Return the window that a key of GROUP BY names because the input has it as a column."""
    window = implied_window(source.node, keys, env)
    return written_window(source, env) if window is None else window


def written_window(source: Source, env: Environment) -> Window:
    """Return the window of an aggregate's input; raise a fault if none is written."""
    first = source.streams[0]
    if not source.clauses:
        raise _unbounded(source, env)
    if len(source.streams) > 1:
        return joined_window(source.clauses)
    clause = source.clauses[0]
    window = aggregate_window(clause, ExpressionBinder(Scope((first.relation(),)), env.catalog, "in a window"))
    if source.has_table and isinstance(window, Rows | While):
        raise NotSupported(
            "a ROWS or WHILE window cannot be combined with a stored table",
            span=clause.span,
            hint="join the table in a sub-query: FROM (SELECT ...) [ROWS 10] AS x",
        )
    return window


def _unbounded(source: Source, env: Environment) -> UnboundedStateFault:
    """Return the error for an aggregate without a window."""
    first, ends = source.streams[0], window_ends(source.node, env)
    is_windowed = not first.is_stream and len(source.streams) == 1 and bool(ends)
    return UnboundedStateFault(
        f"an aggregate over {first.names[0]} needs a window",
        span=first.span,
        hint=f"write {ends[-1]} in GROUP BY as well, or a window after it: [RANGE 1 HOUR]"
        if is_windowed
        else AGGREGATE_HINT,
    )


def refuse_buckets(select: exp.Select) -> None:
    """Refuse a function that stands for a window in GROUP BY, there or in another system."""
    group = select.args.get("group")
    for call in group.find_all(exp.Anonymous) if group is not None else ():
        name = call.name.lower()
        if name in other_systems.BUCKETS:
            raise NotSupported(
                f"function {call.name!r} is not supported", span=place(call), hint=other_systems.FUNCTIONS[name]
            )
        unit = call.expressions[0].name.upper() if name == "date_trunc" and call.expressions else ""
        if unit in _UNITS:
            raise UnboundedStateFault(
                f"without a window, groups by {name} never end",
                span=place(call),
                hint=f"write FROM stream [RANGE {_UNITS[unit]}], and window_start instead of {name}",
            )
