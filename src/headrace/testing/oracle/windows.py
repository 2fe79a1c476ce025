"""Which tuples each window holds, by looking at all tuples for every window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.model.expressions.expression import Expr
from headrace.model.window import AggregateCall, Cumulative, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.plan.nodes import Aggregate
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.values import identity, sort_key

#: The tuples of a window in order, window_start, window_end, the timestamp of its results.
Content = tuple[list[Row], int | None, int, int]


def aggregate(node: Aggregate, rows: Iterable[Row]) -> list[Row]:
    """Return one row per window and group; windows that know groups are made within each group."""
    keys = tuple(expr for _, expr in node.keys)
    results: list[Row] = []
    in_order = ordered(rows)
    if isinstance(node.window, Rows | While):
        for part in grouped(in_order, node.window.by):
            for content in contents(node.window, part):
                for group in grouped(content[0], keys):
                    results.append(_result(node, group, content))
    else:
        for group in grouped(in_order, keys):
            for content in contents(node.window, group):
                results.append(_result(node, content[0], content))
    return results


def grouped(rows: Iterable[Row], by: Sequence[Expr]) -> list[list[Row]]:
    """Divide rows by the values of expressions, NULL being equal to NULL; order stays."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(identity(value_of(expr, row.scope)) for expr in by), []).append(row)
    return list(groups.values())


def contents(window: Window, rows: list[Row]) -> list[Content]:
    """Return all windows over ordered rows that give a result."""
    match window:
        case Range():
            return _range(rows, window)
        case Sliding(size=size):
            return [_sliding(rows, position, size) for position in range(len(rows))]
        case Rows(size=size, slide=slide):
            starts = range(0, len(rows) - size + 1, slide)
            return [_run(rows[start : start + size]) for start in starts]
        case Session():
            return _session(rows, window)
        case Landmark(start=start, slide=slide):
            return _landmark(rows, start, slide)
        case Cumulative():
            return _cumulative(rows, window)
        case While(predicate=predicate):
            return _while(rows, predicate)


def _result(node: Aggregate, group: list[Row], content: Content) -> Row:
    _, start, end, stamp = content
    values = {name: value_of(expr, group[0].scope) for name, expr in node.keys}
    for call in node.calls:
        values[call.name] = aggregate_of(call, [row.scope for row in _in_order(node.window, call, group)])
    return Row(stamp, {**values, "window_start": start, "window_end": end})


def _in_order(window: Window, call: AggregateCall, group: list[Row]) -> list[Row]:
    """Order rows for `first` and `last`; ties in derived streams are broken by the value of the argument."""
    arg = call.arg
    if arg is None or isinstance(window, Rows | While | Sliding) or any(row.seq is not None for row in group):
        return group
    return sorted(group, key=lambda row: (row.ts, sort_key(value_of(arg, row.scope))))


def _range(rows: list[Row], window: Range) -> list[Content]:
    size, slide, offset = window.size, window.slide, window.offset
    starts = sorted(
        {
            offset + k * slide
            for row in rows
            for k in range((row.ts - offset - size) // slide, (row.ts - offset) // slide + 1)
            if offset + k * slide <= row.ts < offset + k * slide + size
        }
    )
    windows: list[Content] = []
    for start in starts:
        end = start + size
        windows.append(([row for row in rows if start <= row.ts < end], start, end, end))
    return windows


def _sliding(rows: list[Row], position: int, size: int | None) -> Content:
    ts = rows[position].ts
    held = [row for row in rows[: position + 1] if size is None or row.ts >= ts - size]
    start = rows[0].ts if size is None else max(ts - size, rows[0].ts)
    return held, start, ts, ts


def _run(rows: list[Row]) -> Content:
    return rows, rows[0].ts, rows[-1].ts, rows[-1].ts


def _session(rows: list[Row], window: Session) -> list[Content]:
    gap = window.gap
    sessions: list[list[Row]] = []
    for row in rows:
        distance = row.ts - sessions[-1][-1].ts if sessions else gap + 1
        if distance < gap or (window.inclusive and distance == gap):
            sessions[-1].append(row)
        else:
            sessions.append([row])
    return [(held, held[0].ts, held[-1].ts + gap, held[-1].ts + gap) for held in sessions]


def _landmark(rows: list[Row], start: int | None, slide: int) -> list[Content]:
    origin = 0 if start is None else start
    counted = [row for row in rows if start is None or row.ts >= start]
    ends = sorted({origin + ((row.ts - origin) // slide + 1) * slide for row in counted})
    return [([row for row in counted if row.ts < end], start, end, end) for end in ends]


def _cumulative(rows: list[Row], window: Cumulative) -> list[Content]:
    size, step, offset = window.size, window.step, window.offset
    windows: list[Content] = []
    for start in sorted({(row.ts - offset) // size * size + offset for row in rows}):
        for end in range(start + step, start + size + 1, step):
            held = [row for row in rows if start <= row.ts < end]
            if held:
                windows.append((held, start, end, end))
    return windows


def _while(rows: list[Row], predicate: Expr) -> list[Content]:
    windows: list[Content] = []
    run: list[Row] = []
    for row in rows:
        if value_of(predicate, row.scope) is True:
            run.append(row)
        elif run:
            windows.append((run, run[0].ts, row.ts, row.ts))
            run = []
    return windows  # a run that nothing ended has no result
