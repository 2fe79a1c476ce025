"""Expressions print as SQL that means the same."""

from __future__ import annotations

import pytest

from headrace.model.expressions.expression import TRUE, Call, Case, Cast, Column, Expr, Literal
from headrace.model.expressions.text import format_expr
from headrace.model.types import DataType, Type

A, B, C = (Column(name, Type.BIGINT) for name in "abc")
S = Column("s", Type.STRING)


def num(value: int | float) -> Literal:
    return Literal(value, Type.BIGINT if isinstance(value, int) else Type.DOUBLE)


def text(value: str) -> Literal:
    return Literal(value, Type.STRING)


def call(function: str, *args: Expr, type_: DataType = Type.BIGINT) -> Call:
    return Call(function, args, type_)


@pytest.mark.parametrize(
    ("expr", "sql"),
    [
        (call("+", A, call("*", B, C)), "a + b * c"),
        (call("*", call("+", A, B), C), "(a + b) * c"),
        (call("-", call("-", A, B), C), "a - b - c"),
        (call("-", A, call("-", B, C)), "a - (b - c)"),
        (call("-", A, num(-1)), "a - -1"),
        (call("neg", num(-1)), "-(-1)"),
        (call("neg", call("+", A, B)), "-(a + b)"),
        (call("and", call("or", TRUE, TRUE), call("and", TRUE, TRUE)), "(TRUE OR TRUE) AND TRUE AND TRUE"),
        (call("or", call("and", TRUE, TRUE), TRUE), "TRUE AND TRUE OR TRUE"),
        (call("not", call("=", A, B)), "NOT a = b"),
        (call("not", call("and", TRUE, TRUE)), "NOT (TRUE AND TRUE)"),
        (call("=", call("not", TRUE), call("<", A, B)), "(NOT TRUE) = (a < b)"),
        (call("is_null", call("=", A, B)), "(a = b) IS NULL"),
        (call("not", call("is_null", A)), "a IS NOT NULL"),
        (call("in", call("+", A, B), num(1), num(2)), "a + b IN (1, 2)"),
        (call("like", S, text("it's%")), "s LIKE 'it''s%'"),
        (call("||", S, text("x"), S), "s || 'x' || s"),
        (call("substring", S, num(1), num(2)), "substring(s, 1, 2)"),
        (Cast(call("/", A, num(0.5)), Type.INT), "CAST(a / 0.5 AS INT)"),
        (Case(((call("<", A, B), num(1)),), None, Type.BIGINT), "CASE WHEN a < b THEN 1 END"),
        (Case(((TRUE, num(1)),), num(2), Type.BIGINT), "CASE WHEN TRUE THEN 1 ELSE 2 END"),
        (Literal(None, Type.INT), "NULL"),
        (Literal(90_000_000, Type.INTERVAL), "INTERVAL '90 s'"),
        (Literal(0, Type.TIMESTAMP), "TIMESTAMP '1970-01-01 00:00:00'"),
        (Literal(365, Type.DATE), "DATE '1971-01-01'"),
        (Literal(10**9, Type.DATE), "CAST(1000000000 AS DATE)"),
        (Column("a.b `c`", Type.INT), "`a.b ``c```"),
    ],
)
def test_an_expression_prints_as_sql_with_few_parentheses(expr: Expr, sql: str) -> None:
    assert format_expr(expr) == sql
