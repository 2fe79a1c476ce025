"""Windows that a function of Flink or Spark stands for: that they mean here what they mean there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlglot import exp

from headrace.catalog.definitions import Table
from headrace.errors import NotSupported, TypeFault
from headrace.language.syntax.clauses import RangeClause, WindowCall
from headrace.model.expressions.expression import Column, Expr
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope, unique
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import time_lags
from headrace.plan.binding.tumbling import ends_of
from headrace.plan.binding.whole_windows import BOUNDS, keys_of, one_by_one
from headrace.plan.binding.window import aggregate_window
from headrace.plan.nodes import Node, Project

#: What GROUP BY must name of a window, so that it names one.
_ENOUGH: dict[str, tuple[tuple[str, ...], ...]] = {
    "TUMBLE": (("window_start",), ("window_end",)),
    "HOP": (("window_start",), ("window_end",)),
    "CUMULATE": (("window_end",),),
    "SESSION": (BOUNDS,),
}
_GROUP_HINT = "write GROUP BY window_start, window_end, and the other columns"
_JOIN_HINT = "write a window after each stream: FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.id = b.id"


def lag_of(call: WindowCall, source: Node | Table, names: Sequence[str], env: Environment) -> int:
    """Return how long before the timestamp the time of a window is, as window_time is; refuse one that is no time."""
    if isinstance(source, Table):
        return 0  # the caller refuses a window over a table
    written, qualifier = call.time.name, call.time.table
    own = [field.name for field in source.schema if field.name.lower() == written.lower()]
    is_own = not qualifier or qualifier.lower() in [name.lower() for name in names]
    times = time_lags(source, env)
    if is_own and ((own and own[0] in times) or (not own and written.lower() == "rowtime")):
        taken = [field.name for field in source.schema if field.name.lower() in BOUNDS]
        if taken:
            raise NotSupported(
                f"{names[0]} has a column {taken[0]!r}, which is also the name of an end of the window",
                span=call.span,
                hint=f"rename it in a sub-query, or write the window after the stream: FROM {names[0]} [RANGE ...]",
            )
        return times[own[0]] if own else 0
    time = ", ".join(sorted(times)) or "rowtime"
    raise TypeFault(
        f"{call.time.sql()!r} is not the event time of {names[0]}",
        span=place(call.time),
        hint=f"write {time}; a stream declares its event time with TIMESTAMP BY or WATERMARK FOR",
    )


def check_grouping(call: WindowCall, select: exp.Select) -> None:
    """Refuse a GROUP BY over a table function that would not group by its windows."""
    if not call.is_table:
        return
    names = {_group_name(item, select) for item in _group_items(select)}
    if not any(set(enough) <= names for enough in _ENOUGH[call.function]):
        raise NotSupported(
            f"an aggregate over TABLE({call.function}(...)) must group by window_start and window_end",
            span=call.span,
            hint=_GROUP_HINT,
        )
    if call.function == "SESSION" and (where := select.args.get("where")) is not None:
        raise NotSupported(
            "WHERE cannot filter the tuples that sessions are made of",
            span=place(where),
            hint="filter in a view that SESSION reads, or write GROUP BY SESSION(at, INTERVAL '30' SECOND)",
        )


def check_session_keys(call: WindowCall, keys: Iterable[Expr], by: Iterable[Expr]) -> None:
    """Refuse sessions of other keys than those that GROUP BY names."""
    if call.is_table and call.function == "SESSION" and set(keys) != set(by):
        raise NotSupported(
            "GROUP BY and PARTITION BY of SESSION name different columns",
            span=call.span,
            hint="write TABLE(SESSION(TABLE s PARTITION BY id, ...)) with GROUP BY window_start, window_end, id",
        )


def check_single_stream(calls: Sequence[WindowCall]) -> None:
    """Refuse a window function over a join of streams, unless each item is a tumbling window of its own."""
    for call in calls:
        if not call.is_table:
            raise NotSupported(
                f"{call.function} in GROUP BY cannot be over a join of streams",
                span=call.span,
                hint="join in a sub-query that selects rowtime AS at, and write its window after it: "
                "FROM (SELECT ...) [RANGE 5 MINUTES] AS x",
            )


def check_joined_windows(calls: Sequence[WindowCall | None], are_compared: bool) -> None:
    """Refuse a join of table functions unless there are two and both ends of their windows are compared."""
    for call in calls:
        if call is not None and (None in calls or len(calls) > 2 or not are_compared):
            raise NotSupported(
                f"a join with TABLE({call.function}(...)) must be of two such windows, and compare both their ends",
                span=call.span,
                hint="write ON a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end",
            )


def with_bounds(source: Node, call: WindowCall, lag: int) -> Node:
    """Give each tuple the ends of the tumbling window that it is in."""
    if lag:
        raise _before_timestamps(call)
    assert isinstance(call.window, RangeClause)
    ends = ends_of(call.window.size, call.window.offset)
    columns = tuple((field.name, Column(field.name, field.type)) for field in source.schema)
    return Project(source, columns + tuple(ends.items()))


def is_tumbling(call: WindowCall) -> bool:
    """Return whether each tuple is in one window of a table function, which the tuple alone says."""
    return isinstance(call.window, RangeClause) and call.window.is_tumbling


def copied(source: Node, call: WindowCall, lag: int, keys: Collection[str], env: Environment) -> Node:
    """Return each tuple once for each window that it is in, when the window is complete, with the ends of the window.

    The tuples of a window are collected, by `keys` if there are any, and come out one by one at its end.
    """
    if lag:
        raise _before_timestamps(call)
    relation = Relation((), tuple((field.name, Column(field.name, field.type)) for field in source.schema))
    binder = ExpressionBinder(Scope((relation,)), env.catalog, "in PARTITION BY of SESSION")
    window = aggregate_window(call.window, binder)
    if call.function == "SESSION":  # sessions are of the keys that it names
        taken = {*source.schema.names, *BOUNDS}
        written = [binder.bind(expr) for expr in call.by]
        by = {expr.name if isinstance(expr, Column) else unique("key", taken): expr for expr in written}
    else:
        by = keys_of(source, keys)
    return one_by_one(source, window, by, {}, call.span)


def _before_timestamps(call: WindowCall) -> NotSupported:
    return NotSupported(
        f"a window over {call.time.name}, which is before the timestamp of a tuple, needs an aggregate",
        span=call.span,
        hint="write GROUP BY window_start, window_end, and the other columns; or the window over rowtime",
    )


def _group_items(select: exp.Select) -> list[exp.Expr]:
    group = select.args.get("group")
    return [] if group is None else list(group.expressions)


def _group_name(item: exp.Expr, select: exp.Select) -> str:
    if isinstance(item, exp.Literal) and item.name.isdigit() and 1 <= int(item.name) <= len(select.expressions):
        item = select.expressions[int(item.name) - 1].unalias()
    return item.name.lower() if isinstance(item, exp.Column) else ""
