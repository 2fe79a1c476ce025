"""Expressions as SQL text, with as few parentheses as the meaning allows."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Lambda, Literal
from headrace.model.time import format_duration, format_instant
from headrace.model.types import DataType, DecimalType, Type

_OR, _AND, _NOT, _COMPARE, _CONCAT, _SUM, _PRODUCT, _SIGN, _ATOM = range(1, 10)

#: Infix operators: how tightly they bind and, where it is not their own name, how they are written.
_INFIX: dict[str, tuple[int, str]] = {
    "or": (_OR, "OR"), "and": (_AND, "AND"),
    "=": (_COMPARE, "="), "<>": (_COMPARE, "<>"), "<": (_COMPARE, "<"), "<=": (_COMPARE, "<="),
    ">": (_COMPARE, ">"), ">=": (_COMPARE, ">="),
    "<=>": (_COMPARE, "<=>"), "like": (_COMPARE, "LIKE"), "ilike": (_COMPARE, "ILIKE"), "rlike": (_COMPARE, "RLIKE"),
    "||": (_CONCAT, "||"), "+": (_SUM, "+"), "-": (_SUM, "-"), "*": (_PRODUCT, "*"), "/": (_PRODUCT, "/"),
    "%": (_PRODUCT, "%"), "div": (_PRODUCT, "DIV"),
}  # fmt: skip

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def format_expr(expr: Expr) -> str:
    """Write an expression as SQL."""
    return _write(expr)[0]


def format_name(name: str) -> str:
    """Write a column name, in backticks if it is no plain identifier."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def format_columns(columns: Iterable[tuple[str, Expr]]) -> str:
    """Write computed columns as in a SELECT list, with AS where the name is new."""
    return ", ".join(
        format_name(name)
        if isinstance(expr, Column) and expr.name == name
        else f"{format_expr(expr)} AS {format_name(name)}"
        for name, expr in columns
    )


def _write(expr: Expr) -> tuple[str, int]:
    """Return the text and how tightly its outermost operator binds."""
    match expr:
        case Column(name=name):
            return format_name(name.removeprefix("->")), _ATOM
        case Lambda(params=params, body=body):
            names = ", ".join(format_expr(param) for param in params)
            return f"{names if len(params) == 1 else f'({names})'} -> {format_expr(body)}", _OR
        case Literal():
            return _write_literal(expr)
        case Cast(arg=arg, type=type_):
            return f"CAST({format_expr(arg)} AS {type_.value})", _ATOM
        case Case(branches=branches, default=default):
            parts = [f"WHEN {format_expr(when)} THEN {format_expr(then)}" for when, then in branches]
            parts += [] if default is None else [f"ELSE {format_expr(default)}"]
            return f"CASE {' '.join(parts)} END", _ATOM
        case Call():
            return _write_call(expr)


def _write_call(call: Call) -> tuple[str, int]:
    match call:
        case Call(function="not", args=(Call(function="is_null", args=(arg,)),)):
            return f"{_at_least(arg, _CONCAT)} IS NOT NULL", _COMPARE
        case Call(function="not", args=(arg,)):
            return f"NOT {_at_least(arg, _NOT)}", _NOT
        case Call(function="is_null", args=(arg,)):
            return f"{_at_least(arg, _CONCAT)} IS NULL", _COMPARE
        case Call(function="in", args=(arg, *choices)):
            return f"{_at_least(arg, _CONCAT)} IN ({', '.join(map(format_expr, choices))})", _COMPARE
        case Call(function="neg", args=(arg,)):
            return f"-{_at_least(arg, _ATOM)}", _SIGN
        case Call(function=function, args=(first, *rest)) if function in _INFIX and rest:
            binding, symbol = _INFIX[function]
            # AND, OR and || mean the same however they are nested; a - (b - c) does not, and comparisons do not chain.
            after = binding if function in ("and", "or", "||") else binding + 1
            before = binding + 1 if binding == _COMPARE else binding
            return f" {symbol} ".join([_at_least(first, before), *(_at_least(arg, after) for arg in rest)]), binding
        case _:
            return f"{call.function.rpartition(':')[2]}({', '.join(map(format_expr, call.args))})", _ATOM


def _at_least(expr: Expr, binding: int) -> str:
    text, own = _write(expr)
    return text if own >= binding else f"({text})"


def _write_literal(literal: Literal) -> tuple[str, int]:
    value = literal.value
    match value:
        case None:
            return "NULL", _ATOM
        case bool():
            return str(value).upper(), _ATOM
        case str() if isinstance(literal.type, DecimalType):
            return value, _SIGN if value.startswith("-") else _ATOM
        case str():
            return "'" + value.replace("'", "''") + "'", _ATOM
        case int() if literal.type is Type.INTERVAL:
            return f"INTERVAL '{format_duration(value)}'", _ATOM
        case int() if literal.type in (Type.TIMESTAMP, Type.DATE):
            return _write_instant(value, literal.type), _ATOM
        case int() | float():
            # A negative number is a sign and a number: its opposite is -(-1), for two dashes begin a comment.
            return repr(value), _ATOM if value >= 0 else _SIGN


def _write_instant(value: int, type_: DataType) -> str:
    try:
        if type_ is Type.DATE:
            return f"DATE '{datetime.date(1970, 1, 1) + datetime.timedelta(days=value)}'"
        return f"TIMESTAMP '{format_instant(value)}'"
    except OverflowError:  # beyond the calendar of ISO text
        return f"CAST({value} AS {type_.value})"
