"""The changelog of groups without a window, by looking at all tuples of a group at every instant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.model.expressions.expression import Expr
from headrace.plan.nodes import Changes
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.values import identity, sort_key
from headrace.testing.oracle.windows import grouped


def changes(node: Changes, rows: Iterable[Row]) -> list[Row]:
    """Return the changes of the rows of all groups."""
    found: list[Row] = []
    for group in grouped(ordered(rows), tuple(expr for _, expr in node.keys)):
        shown: dict[str, Any] | None = None
        life: list[Row] = []
        for ts in sorted({row.ts for row in group}):
            if life and ts - life[-1].ts > node.ttl:
                life, shown = [], None
            life += [row for row in group if row.ts == ts]
            new = _row(node, life)
            if shown is not None and new is None:
                found.append(Row(ts, {**shown, node.change: "delete"}))
            elif shown is None and new is not None:
                found.append(Row(ts, {**new, node.change: "insert"}))
            elif shown is not None and new is not None and _identity(shown) != _identity(new):
                found.append(Row(ts, {**shown, node.change: "update_before"}))
                found.append(Row(ts, {**new, node.change: "update_after"}))
            shown = new
    return found


def _row(node: Changes, life: list[Row]) -> dict[str, Any] | None:
    values = {name: value_of(expr, life[0].scope) for name, expr in node.keys}
    for call in node.calls:
        values[call.name] = aggregate_of(call, [row.scope for row in _in_order(call.arg, life)])
    if node.condition is not None and value_of(node.condition, values) is not True:
        return None
    return {name: value_of(expr, values) for name, expr in node.columns}


def _in_order(arg: Expr | None, life: list[Row]) -> list[Row]:
    """Order rows for `first` and `last`; ties in derived streams are broken by the value of the argument."""
    if arg is None or any(row.seq is not None for row in life):
        return life
    return sorted(life, key=lambda row: (row.ts, sort_key(value_of(arg, row.scope))))


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(identity(value) for value in row.values())
