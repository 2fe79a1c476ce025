"""The place of each tuple in its window, by counting the tuples before it, and aggregates of its frame."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key, partial
from typing import Any

from headrace.model.frame import PlaceFrame
from headrace.model.rank import RankOrder
from headrace.model.schema import TS
from headrace.plan.nodes import Rank, WindowOver
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.values import compare, identity


def rank(node: Rank, rows: Iterable[Row]) -> list[Row]:
    """Return the tuples with their places."""
    return [
        Row(row.ts, {**row.values, node.name: _place(node, group, position)}, None, row.expiry)
        for group in _groups(node, rows)
        for position, row in enumerate(group)
    ]


def window_over(node: WindowOver, rows: Iterable[Row]) -> list[Row]:
    """Return the tuples with the aggregates of their frames."""
    results: list[Row] = []
    for group in _groups(node, rows):
        by_place = sorted(group, key=cmp_to_key(partial(_compare, node.order)))
        for position, row in enumerate(by_place):
            held = [{**by_place[place].scope, TS: place} for place in _frame(node, by_place, position)]
            values = {call.name: aggregate_of(call, held) for call in node.calls}
            results.append(Row(row.ts, {**row.values, **values}, None, row.expiry))
    return results


def _groups(node: Rank | WindowOver, rows: Iterable[Row]) -> list[list[Row]]:
    """Return the tuples of each window and key, in the order that decides ties."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in ordered(rows):
        key = (row.ts // node.size, *(identity(value_of(expr, row.scope)) for expr in node.by))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _frame(node: WindowOver, group: list[Row], position: int) -> list[int]:
    """Return the places that are in the frame of one."""
    frame: PlaceFrame = node.frame

    def distance(place: int) -> int:
        if frame.peers:
            return _compare(node.order, group[place], group[position])
        return place - position

    low, high = frame.start, frame.end
    held = [
        place
        for place in range(len(group))
        if (low is None or distance(place) >= low) and (high is None or distance(place) <= high)
    ]
    return held if frame.nth is None else held[frame.nth - 1 : frame.nth]


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
