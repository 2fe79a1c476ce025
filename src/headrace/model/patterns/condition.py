"""Conditions as patterns, where they are plain: comparisons of columns with constants, joined by AND."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.expressions.expression import TRUE, Call, Column, Expr, Literal, conjuncts
from headrace.model.patterns.match import (
    NOT_NULL,
    Between,
    IsNull,
    Match,
    OneOf,
    Value,
    at_least,
    at_most,
    equal,
    less,
    more,
    unequal,
)
from headrace.model.patterns.pattern import STAMP, Pattern, pattern
from headrace.model.types import Type

_MATCHES: dict[str, Callable[[Value], Match]] = {
    "=": equal,
    "<>": unequal,
    "<": less,
    "<=": at_most,
    ">": more,
    ">=": at_least,
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def pattern_of(condition: Expr) -> Pattern | Expr:
    """Return the pattern of the tuples for which a condition is true, or the part that no pattern can express."""
    terms: list[tuple[Column, Match]] = []
    for part in conjuncts(condition):
        if part == TRUE:
            continue
        term = term_of(part)
        if term is None:
            return part
        terms.append(term)
    return pattern(*terms)


def term_of(part: Expr) -> tuple[Column, Match] | None:
    """Return the column of a comparison and the values for which it is true."""
    match part:
        case Call(op, (left, Literal() as right)) if op in _TURNED:
            return _compared(op, left, right)
        case Call(op, (Literal() as left, right)) if op in _TURNED:
            return _compared(_TURNED[op], right, left)
        case Call("in", (first, *choices)):
            return _among(first, choices)
        case Call("not", (Call("in", (first, *choices)),)):
            values = _among(first, choices)
            return (
                None
                if values is None or not isinstance(values[1], OneOf)
                else (values[0], Between(but=values[1].values))
            )
        case Call("not", (Call("=", args),)):
            return term_of(Call("<>", args, Type.BOOLEAN))
        case Call("is_null", (first,)) if (column := _column(first)) is not None:
            return column, IsNull()
        case Call("not", (Call("is_null", (first,)),)) if (column := _column(first)) is not None:
            return column, NOT_NULL
        case Call("or", (left, right)):
            return _either(term_of(left), term_of(right))
        case Column(type=Type.BOOLEAN):
            return part, equal(True)
        case Call("not", (Column(type=Type.BOOLEAN) as column,)):
            return column, equal(False)
        case _:
            return None


def _compared(op: str, expr: Expr, literal: Literal) -> tuple[Column, Match] | None:
    column, value = _column(expr), literal.value
    if (
        column is None
        or not isinstance(value, bool | int | float | str)
        or literal.type != expr.type
        or not isinstance(expr.type, Type)
    ):
        return None
    return column, _MATCHES[op](value)


def _among(expr: Expr, choices: list[Expr]) -> tuple[Column, Match] | None:
    column = _column(expr)
    values: list[Value] = []
    for choice in choices:
        if (
            not isinstance(choice, Literal)
            or not isinstance(choice.value, bool | int | float | str)
            or choice.type != expr.type
            or not isinstance(expr.type, Type)
        ):
            return None
        values.append(choice.value)
    return None if column is None else (column, OneOf(tuple(values)))


def _either(left: tuple[Column, Match] | None, right: tuple[Column, Match] | None) -> tuple[Column, Match] | None:
    """Return the match for one of several values of a column."""
    if (
        left is None
        or right is None
        or left[0] != right[0]
        or not isinstance(left[1], OneOf)
        or not isinstance(right[1], OneOf)
    ):
        return None
    return left[0], OneOf((*left[1].values, *right[1].values))


def _column(expr: Expr) -> Column | None:
    """Return a column, or the timestamp as SQL sees it."""
    match expr:
        case Column():
            return expr
        case Call("timestamp_micros", (Column() as column,)) if column == STAMP:
            return column
        case _:
            return None
