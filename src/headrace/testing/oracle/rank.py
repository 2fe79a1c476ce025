"""The place of each tuple in its window, by counting the tuples before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.model.rank import RankOrder
from headrace.plan.nodes import Rank
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.values import compare, identity


def rank(node: Rank, rows: Iterable[Row]) -> list[Row]:
    """Return the tuples with their places."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in ordered(rows):
        key = (row.ts // node.size, *(identity(value_of(expr, row.scope)) for expr in node.by))
        groups.setdefault(key, []).append(row)
    return [
        Row(row.ts, {**row.values, node.name: _place(node, group, position)}, None, row.expiry)
        for group in groups.values()
        for position, row in enumerate(group)
    ]


def _place(node: Rank, group: list[Row], position: int) -> int:
    own = group[position]
    before = [other for other in group if _compare(node.order, other, own) < 0]
    match node.function:
        case "row_number":  # the group is in the order that decides ties
            return 1 + len(before) + sum(_compare(node.order, other, own) == 0 for other in group[:position])
        case "rank":
            return 1 + len(before)
        case "dense_rank":
            return 1 + len({tuple(identity(value_of(term.expr, row.scope)) for term in node.order) for row in before})


def _compare(order: tuple[RankOrder, ...], left: Row, right: Row) -> int:
    for term in order:
        values = value_of(term.expr, left.scope), value_of(term.expr, right.scope)
        if None in values:
            result = 0 if values == (None, None) else (-1 if values[0] is None else 1) * (1 if term.nulls_first else -1)
        else:
            result = compare(values[0], term.expr.type, values[1], term.expr.type) * (-1 if term.descending else 1)
        if result:
            return result
    return 0
