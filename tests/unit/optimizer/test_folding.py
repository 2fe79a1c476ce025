"""Constants fold to what the engine would compute, or not at all."""

from __future__ import annotations

import itertools
import math

import pytest

from headrace.model.expressions.expression import FALSE, TRUE, Call, Case, Cast, Column, Expr, Literal
from headrace.model.expressions.functions import FUNCTIONS
from headrace.model.expressions.text import format_expr
from headrace.model.time import DAY, SECOND
from headrace.model.types import ArrayType, Type
from headrace.optimizer.folding import fold
from headrace.testing.oracle.expressions import value_of

X = Column("x", Type.BOOLEAN)
I = Column("i", Type.INT)  # noqa: E741
NULL = Literal(None, Type.BOOLEAN)


def logic(function: str, *args: Expr) -> Call:
    return Call(function, args, Type.BOOLEAN)


def big(value: int | None) -> Literal:
    return Literal(value, Type.BIGINT)


def real(value: float) -> Literal:
    return Literal(value, Type.DOUBLE)


def text(value: str) -> Literal:
    return Literal(value, Type.STRING)


@pytest.mark.parametrize(
    ("expr", "folded"),
    [
        (logic("and", TRUE, X), X),
        (logic("and", X, FALSE), FALSE),
        (logic("and", NULL, FALSE), FALSE),
        (logic("and", NULL, X), logic("and", NULL, X)),
        (logic("and", TRUE, Literal(None, Type.NULL)), NULL),
        (logic("or", X, TRUE), TRUE),
        (logic("or", FALSE, X), X),
        (logic("or", NULL, TRUE), TRUE),
        (logic("not", NULL), NULL),
        (logic("not", logic("not", X)), X),
        (logic("=", I, Literal(None, Type.NULL)), NULL),
        (logic("<=>", NULL, NULL), TRUE),
        (logic("<=>", big(1), big(None)), FALSE),
        (logic("is_null", NULL), TRUE),
        (logic("in", big(1), big(2), big(None)), NULL),
        (logic("in", big(1), big(None), big(1)), TRUE),
        (logic("in", big(1), big(2)), FALSE),
        (logic("<", big(1), real(1.5)), TRUE),
        (logic("=", Literal(1, Type.DATE), Literal(DAY, Type.TIMESTAMP)), TRUE),
        (Call("+", (big(2**63 - 1), big(1)), Type.BIGINT), big(-(2**63))),
        (Call("div", (big(-7), big(2)), Type.BIGINT), big(-3)),
        (Call("%", (big(-7), big(2)), Type.BIGINT), big(-1)),
        (Call("%", (big(7), big(0)), Type.BIGINT), big(None)),
        (Call("/", (big(1), big(4)), Type.DOUBLE), real(0.25)),
        (Call("/", (big(1), big(0)), Type.DOUBLE), Literal(None, Type.DOUBLE)),
        (
            Call("-", (Literal(1, Type.DATE), Literal(SECOND, Type.INTERVAL)), Type.TIMESTAMP),
            Literal(DAY - SECOND, Type.TIMESTAMP),
        ),
        (Call("||", (text("a"), text("b")), Type.STRING), text("ab")),
        (Call("length", (text("abc"),), Type.BIGINT), big(3)),
        (
            Call("coalesce", (Literal(None, Type.NULL), I, big(1), I), Type.BIGINT),
            Call("coalesce", (I, big(1)), Type.BIGINT),
        ),
        (Call("coalesce", (Literal(None, Type.NULL), I), Type.BIGINT), Cast(I, Type.BIGINT)),
        (
            Case(((FALSE, big(1)), (NULL, big(2)), (X, big(3)), (TRUE, big(4)), (X, big(5))), None, Type.BIGINT),
            Case(((X, big(3)),), big(4), Type.BIGINT),
        ),
        (Case(((TRUE, I),), big(4), Type.BIGINT), Cast(I, Type.BIGINT)),
        (Case(((FALSE, I),), None, Type.INT), Literal(None, Type.INT)),
        (Cast(Literal(7, Type.INT), Type.DOUBLE), real(7.0)),
        (Cast(I, Type.INT), I),
    ],
    ids=format_expr,
)
def test_an_expression_folds(expr: Expr, folded: Expr) -> None:
    assert fold(expr) == folded


@pytest.mark.parametrize(
    "expr",
    [
        logic("=", real(math.nan), real(math.nan)),
        logic("<", Literal(0.1, Type.FLOAT), real(0.1)),
        logic("=", big(2**53 + 1), real(2.0**53)),
        Call("*", (real(1e300), real(1e300)), Type.DOUBLE),
        Call("upper", (text("ß"),), Type.STRING),
        Call("+", (Literal(2**62 - 1, Type.TIMESTAMP), Literal(1, Type.INTERVAL)), Type.TIMESTAMP),
        Cast(big(2**31), Type.INT),
        Cast(text("12"), Type.INT),
        Call("sqrt", (real(4.0),), Type.DOUBLE),
    ],
    ids=format_expr,
)
def test_what_engines_may_compute_differently_is_left_to_the_operators(expr: Expr) -> None:
    assert format_expr(fold(expr)) == format_expr(expr)  # as text, for NaN is not equal to itself


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_call_of_constants_folds_to_what_the_function_gives(function: str) -> None:
    entry = FUNCTIONS[function]
    for count in {entry.least, min(entry.least + 1, entry.most or 2)} - {0}:
        for args in itertools.product(VALUES, repeat=min(count, 3)):
            nulls = [(*args[:i], Literal(None, arg.type), *args[i + 1 :]) for i, arg in enumerate(args)]
            for given in (args, *nulls):
                type_ = entry.typing([arg.type for arg in given])
                folded = None if type_ is None else fold(call := Call(function, given, type_))
                if isinstance(folded, Literal):
                    assert folded.value == value_of(call, {}), format_expr(call)


#: Values of arguments; the ARRAY is what an expression gives, since no constant is one.
VALUES: tuple[Expr, ...] = (
    Literal(1, Type.INT),
    real(1.5),
    Literal(-7, Type.INT),
    text("a"),
    text("aba"),
    TRUE,
    Literal(0, Type.TIMESTAMP),
    Call("array", (Literal(1, Type.INT),), ArrayType(Type.INT)),
)
