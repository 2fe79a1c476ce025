"""The value of an expression for one tuple, and of an aggregate for a list of tuples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

from headrace.errors import OperatorFault
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Literal
from headrace.model.python_target import PythonTarget, is_python_target
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.testing.oracle.functions import SCALARS
from headrace.testing.oracle.values import compare, convert, identity, lift, wrap


def value_of(expr: Expr, row: Mapping[str, Any]) -> Any:
    """Evaluate an expression; `row` holds the visible columns and `__ts`."""
    match expr:
        case Column(name=name):
            return row[name]
        case Literal(value=value):
            return value
        case Call(function=function, args=args, type=type_):
            return SCALARS[function]([value_of(arg, row) for arg in args], [arg.type for arg in args], type_)
        case Cast(arg=arg, type=type_):
            return convert(value_of(arg, row), arg.type, type_)
        case Case(branches=branches, default=default, type=type_):
            for when, then in branches:
                if value_of(when, row) is True:
                    return _widened(then, row, type_)
            return None if default is None else _widened(default, row, type_)


def aggregate_of(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Evaluate an aggregate over the rows of one group, which are in order."""
    if call.function == "shed_error":
        return 0.0  # nothing is shed here
    if call.arg is None:
        return len(rows)
    values = [value_of(call.arg, row) for row in rows]
    if call.function == "first":
        return values[0]
    if call.function == "last":
        return values[-1]
    present = [value for value in values if value is not None]
    if is_python_target(call.function):
        return _user_defined(call.function, present)
    if call.function in _COUNTS:
        return _COUNTS[call.function](present)
    return _SUMMARIES[call.function](present, call.arg.type) if present else None


def _widened(expr: Expr, row: Mapping[str, Any], want: Type) -> Any:
    value = value_of(expr, row)
    return None if value is None else lift(value, expr.type, want)


def _user_defined(function: str, values: Sequence[Any]) -> Any:
    aggregate = PythonTarget.parse_prefixed(function).load("the aggregate", error=OperatorFault)()
    state = aggregate.zero()
    for value in values:
        state = aggregate.add(state, [value])  # add takes any number of values
    return aggregate.finish(state)


def _sum(values: Sequence[Any], type_: Type) -> Any:
    return wrap(sum(values)) if type_.is_integer else _float_sum(values)


def _float_sum(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _avg(values: Sequence[Any], type_: Type) -> float:
    return _float_sum(values) / len(values)


def _variance(values: Sequence[Any], type_: Type) -> float | None:
    if len(values) < 2:
        return None
    mean = _float_sum(values) / len(values)
    return _float_sum([(value - mean) ** 2 for value in values]) / (len(values) - 1)


def _stddev(values: Sequence[Any], type_: Type) -> float | None:
    variance = _variance(values, type_)
    return None if variance is None else math.sqrt(variance)


def _sorted(values: Sequence[Any], type_: Type) -> list[Any]:
    return sorted(values, key=cmp_to_key(lambda x, y: compare(x, type_, y, type_)))


_COUNTS: dict[str, Callable[[Sequence[Any]], int]] = {
    "count": len,
    "count_distinct": lambda values: len({identity(value) for value in values}),
}
_SUMMARIES: dict[str, Callable[[Sequence[Any], Type], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda values, type_: _sorted(values, type_)[0],
    "max": lambda values, type_: _sorted(values, type_)[-1],
    "stddev": _stddev,
    "variance": _variance,
}
