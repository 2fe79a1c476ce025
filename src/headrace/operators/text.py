"""Phrases that specs share when they describe themselves."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.expressions.expression import Column, Expr
from headrace.model.expressions.text import format_expr, format_name
from headrace.model.time import format_duration, format_instant
from headrace.model.value_order import format_arguments
from headrace.model.window import AggregateCall, Cumulative, Landmark, Range, Rows, Session, Sliding, While, Window


def with_inputs(word: str, inputs: Sequence[str], between: str) -> str:
    """Write a word and, if they are known, the inputs behind it."""
    return f"{word} {between.join(inputs)}" if inputs else word


def equalities(keys: Sequence[tuple[Expr, Expr | str]], residual: Expr | None) -> str:
    """Write on what a join compares its two sides, beginning with a space; empty if it compares nothing."""
    pairs = ", ".join(_equality(left, right) for left, right in keys)
    return (f" on {pairs}" if pairs else "") + (f" if {format_expr(residual)}" if residual is not None else "")


def aggregation(window: Window, keys: Sequence[tuple[str, Expr]], calls: Sequence[AggregateCall]) -> str:
    """Write what is computed of which group over which window, such as 'count, max(price) per item, 10 s'."""
    computed = calls_text(calls) or "groups"
    per = f" per {', '.join(format_name(name) for name, _ in keys)}" if keys else ""
    return f"{computed}{per}, {extent_of(window)}"


def calls_text(calls: Sequence[AggregateCall]) -> str:
    """Write what is computed, such as 'count, max(price)'."""
    return ", ".join(map(_call, calls))


def extent_of(window: Window) -> str:
    """Write how far a window reaches and how often it gives results."""
    match window:
        case Range(size=1, slide=1):
            return "now"
        case Range(size=size, slide=slide, offset=offset):
            every = "" if size == slide else f" every {format_duration(slide)}"
            return f"{format_duration(size)}{every}{_offset(offset)}"
        case Cumulative(size=size, step=step, offset=offset):
            return f"up to {format_duration(size)} in steps of {format_duration(step)}{_offset(offset)}"
        case Sliding(size=span):
            return "all so far" if span is None else f"last {format_duration(span)}"
        case Rows(size=size, slide=slide, by=by):
            return f"{size} rows{'' if size == slide else f' every {slide}'}{_partition(by)}"
        case Session(gap=gap, inclusive=inclusive):
            return f"sessions with gap {format_duration(gap)}{' inclusive' if inclusive else ''}"
        case Landmark(start=start, slide=slide):
            since = "all so far" if start is None else f"since {format_instant(start)}"
            return f"{since} every {format_duration(slide)}"
        case While(predicate=predicate, by=by):
            return f"while {format_expr(predicate)}{_partition(by)}"


def _offset(offset: int) -> str:
    return f" from {format_duration(offset)}" if offset else ""


def listed(exprs: Sequence[Expr]) -> str:
    """Write expressions with commas between them."""
    return ", ".join(map(format_expr, exprs))


def _equality(left: Expr, right: Expr | str) -> str:
    other = format_name(right) if isinstance(right, str) else format_expr(right)
    same = isinstance(left, Column) and format_name(left.name) == other
    return other if same else f"{format_expr(left)} = {other}"


def _call(call: AggregateCall) -> str:
    if call.fold is not None:
        return f"{call.fold.name}({listed(call.more)})"
    function = call.function.rpartition(":")[2]  # of 'python:module:Class'
    return f"{function}({format_arguments(call)})" if call.args else function


def _partition(by: Sequence[Expr]) -> str:
    return f" of each {listed(by)}" if by else ""
