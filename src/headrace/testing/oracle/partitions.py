"""What a tuple means among the others of its key: duplicates, and the tuples before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.model.frame import Frame, RowsFrame
from headrace.model.window import AggregateCall
from headrace.plan.nodes import Deduplicate, Over
from headrace.testing.oracle.expressions import aggregate_of, folded, value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.windows import grouped


def deduplicate(node: Deduplicate, rows: Iterable[Row]) -> list[Row]:
    """Return the tuples without a duplicate shortly before, or after, them."""
    kept: list[Row] = []
    for group in grouped(ordered(rows), node.by):
        for position, row in enumerate(group):
            others = group[position + 1 : position + 2] if node.last else group[:position][-1:]
            if not any(abs(other.ts - row.ts) <= node.span for other in others):
                kept.append(Row(row.ts, row.values, None, row.expiry))
    return kept


def over(node: Over, rows: Iterable[Row]) -> list[Row]:
    """Return the tuples with the aggregates of their frames."""
    results: list[Row] = []
    for group in grouped(ordered(rows), node.by):
        running = {call.name: _running(call, group) for call in node.calls if _runs(node, call)}
        for position, row in enumerate(group):
            held = [other.scope for other in _held(node.frame, group, position)]
            values = {
                call.name: running[call.name][position] if call.name in running else aggregate_of(call, held)
                for call in node.calls
            }
            results.append(Row(row.ts, {**row.values, **values}, None, row.expiry))
    return results


def _runs(node: Over, call: AggregateCall) -> bool:
    return call.fold is not None and node.frame.preceding is None


def _running(call: AggregateCall, group: list[Row]) -> list[list[Any]]:
    """Return what each tuple of a group makes an aggregate in SQL return."""
    assert call.arg is not None
    counts = [value_of(call.arg, row.scope) is True for row in group]
    taken = [
        [value_of(expr, row.scope) for expr in call.more] for row, counted in zip(group, counts, strict=True) if counted
    ]
    returned = iter(folded(call, taken, ends=False))
    return [next(returned) if counted else [] for counted in counts]


def _held(frame: Frame, group: list[Row], position: int) -> list[Row]:
    if isinstance(frame, RowsFrame):
        first = 0 if frame.preceding is None else max(0, position - frame.preceding)
        return group[first : position + 1]
    now = group[position].ts
    return [row for row in group if row.ts <= now and (frame.preceding is None or row.ts >= now - frame.preceding)]
