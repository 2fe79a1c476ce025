"""Which of many alike tuples are let through, group by group, looking at whole histories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.model.suppression import Repeats, Standing
from headrace.plan.nodes import Suppress
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.windows import grouped


def suppress(node: Suppress, rows: Iterable[Row]) -> list[Row]:
    """Return the results: the newest tuple's values, then the oldest's."""
    results: list[Row] = []
    for group in grouped(ordered(rows), node.by):
        let = _repeated(node.rule, group) if isinstance(node.rule, Repeats) else _standing(node.rule, group)
        for stamp, newest, oldest in let:
            older: list[Any] = [*oldest.values.values(), oldest.ts]
            results.append(Row(stamp, {**newest.values, **dict(zip(node.old_names, older, strict=True))}))
    return results


def _repeated(rule: Repeats, group: list[Row]) -> Iterator[tuple[int, Row, Row]]:
    window: list[Row] = []
    for row in group:
        window = [earlier for earlier in (*window, row) if rule.span is None or earlier.ts >= row.ts - rule.span]
        if len(window) > rule.limit:
            yield row.ts, row, window[0]
            window = []


def _standing(rule: Standing, group: list[Row]) -> Iterator[tuple[int, Row, Row]]:
    """Return each alarm as its versions: its beginning, then its updates.

    A version stands until the next one, until the alarm ends, or for the span.
    """
    versions: list[Row] = []
    for row in group:
        action = value_of(rule.action, row.scope)
        if versions and row.ts > versions[-1].ts + rule.span:
            yield from _fires(rule, versions, None)
            versions = []
        if action == "clean":
            yield from _fires(rule, versions, row.ts)
            versions = []
        elif action == "update" and versions:
            yield from _fires(rule, versions, row.ts)
            versions = [versions[0], row]
        elif not versions:
            versions = [row]
    yield from _fires(rule, versions, None)


def _fires(rule: Standing, versions: list[Row], end: int | None) -> Iterator[tuple[int, Row, Row]]:
    """Return when the last version is let through, strictly before its end."""
    if not versions:
        return
    newest = versions[-1]
    for turn in range(1, rule.span // rule.time + 1):
        instant = newest.ts + turn * rule.time
        if end is None or instant < end:
            yield instant, newest, versions[0]
