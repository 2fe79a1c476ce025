"""Interval joins: how long a join keeps tuples if its conditions bound the difference of their timestamps.

`a.at BETWEEN b.at - INTERVAL 5 MINUTES AND b.at + INTERVAL 1 MINUTE` bounds b.at - a.at by 5 minutes and a.at - b.at by
one. A tuple of a is then kept for 5 minutes, one of b for one minute; the condition itself is tested as any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.time import LONGEST
from headrace.model.types import Type
from headrace.plan.binding.tumbling import Bound

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class _Instant:
    """The timestamp of the tuple of one input, moved by `offset` microseconds."""

    input: int
    offset: int


def implied_spans(
    times: Sequence[Mapping[str, int]], terms: Iterable[Expr], windows: Sequence[Mapping[str, Bound]] = ()
) -> list[int] | None:
    """Return for each input how long after a tuple others can still join it; None if that is not bounded.

    `times` are the columns of each input that are so long before the timestamps of its tuples, `windows` those that are
    an end of the tumbling window of a tuple: tuples of one window are less than its size apart.
    """
    owners, ends = _owners(times, windows)
    count = len(times)
    latest = [[0.0 if i == j else math.inf for j in range(count)] for i in range(count)]
    for term in terms:
        for after, before, most in (*_bounds(term, owners), *_in_one_window(term, ends)):
            latest[after][before] = min(latest[after][before], most)
    for via in range(count):
        for i in range(count):
            for j in range(count):
                latest[i][j] = min(latest[i][j], latest[i][via] + latest[via][j])
    return _spans(latest)


def chained_spans(
    times: Sequence[Mapping[str, int]],
    conditions: Sequence[Iterable[Expr]],
    windows: Sequence[Mapping[str, Bound]],
) -> list[int] | None:
    """Return the same for inner and left joins one after the other; `conditions` are those that join each input.

    A tuple of a later input may be missing, and then its conditions bound nothing. So an input is bounded by the inputs
    that its own conditions compare it with, which are there whenever it is, and by what bounds these.
    """
    owners, ends = _owners(times, windows)
    count = len(times)
    latest = [[0.0 if i == j else math.inf for j in range(count)] for i in range(count)]
    for new, terms in enumerate(conditions):
        bounds = [bound for term in terms for bound in (*_bounds(term, owners), *_in_one_window(term, ends))]
        for old in range(new):
            after = [most + latest[other][old] for input, other, most in bounds if input == new]
            before = [most + latest[old][other] for other, input, most in bounds if input == new]
            latest[new][old], latest[old][new] = min(after, default=math.inf), min(before, default=math.inf)
    return _spans(latest)


def _owners(
    times: Sequence[Mapping[str, int]], windows: Sequence[Mapping[str, Bound]]
) -> tuple[dict[str, _Instant], dict[str, tuple[int, Bound]]]:
    """Return columns with the instant that they have, and those that are an end of a window, with their inputs."""
    owners = {name: _Instant(index, -lag) for index, lags in enumerate(times) for name, lag in lags.items()}
    return owners, {name: (index, bound) for index, names in enumerate(windows) for name, bound in names.items()}


def _spans(latest: Sequence[Sequence[float]]) -> list[int] | None:
    """Return for each input by how much another one can exceed it; None if that is not bounded.

    `latest[i][j]` is the most by which the timestamp of i can exceed that of j.
    """
    spans = [max(row[index] for row in latest) for index in range(len(latest))]
    return None if any(span > LONGEST for span in spans) else [max(0, int(span)) for span in spans]


def _in_one_window(term: Expr, ends: Mapping[str, tuple[int, Bound]]) -> list[tuple[int, int, int]]:
    """Return the bounds of t_i - t_j if a condition says that both tuples are in the same window."""
    match term:
        case Call(function="=", args=(Column(name=left), Column(name=right))) if left in ends and right in ends:
            (i, one), (j, other) = ends[left], ends[right]
            return [(i, j, one.size), (j, i, one.size)] if one == other and i != j else []
        case _:
            return []


def _bounds(term: Expr, owners: Mapping[str, _Instant]) -> list[tuple[int, int, int]]:
    """Return (i, j, most) for each bound t_i - t_j <= most that a condition implies."""
    if not isinstance(term, Call) or term.function not in _MIRRORED:
        return []
    left, right = _instant(term.args[0], owners), _instant(term.args[1], owners)
    if left is not None and right is not None:
        return _compared(left, term.function, right)
    for (difference, span), function in (
        (term.args, term.function),
        ((term.args[1], term.args[0]), _MIRRORED[term.function]),
    ):
        if isinstance(difference, Call) and difference.function == "-" and (offset := _span(span)) is not None:
            left, right = (_instant(arg, owners) for arg in difference.args)
            if left is not None and right is not None:
                return _compared(left, function, _Instant(right.input, right.offset + offset))
    return []


def _compared(left: _Instant, function: str, right: _Instant) -> list[tuple[int, int, int]]:
    """Return what `left function right` bounds; strictness does not matter, since the condition itself is tested."""
    below = (left.input, right.input, right.offset - left.offset)
    above = (right.input, left.input, left.offset - right.offset)
    match function:
        case "<" | "<=":
            return [below]
        case ">" | ">=":
            return [above]
        case _:
            return [below, above]


def _instant(expr: Expr, owners: Mapping[str, _Instant]) -> _Instant | None:
    match expr:
        case Column(name=name) if name in owners:
            return owners[name]
        case Call(function="+" | "-" as sign, args=(moved, by)):
            if sign == "+" and _span(by) is None:
                moved, by = by, moved
            start, span = _instant(moved, owners), _span(by)
            if start is None or span is None:
                return None
            return _Instant(start.input, start.offset + (span if sign == "+" else -span))
        case _:
            return None


def _span(expr: Expr) -> int | None:
    if isinstance(expr, Literal) and expr.type is Type.INTERVAL and isinstance(expr.value, int):
        return expr.value
    return None
