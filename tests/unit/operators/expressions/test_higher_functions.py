"""Functions that take functions give on columns what they give value by value."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.language.dialect import parse_expressions, tokenize
from headrace.model.expressions.expression import Column, columns
from headrace.model.expressions.functions import HIGHER
from headrace.model.expressions.text import format_expr
from headrace.model.types import ArrayType, DataType, MapType, Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.values import plain_value

_TYPES: dict[str, DataType] = {
    "xs": ArrayType(Type.BIGINT),
    "ys": ArrayType(Type.BIGINT),
    "ws": ArrayType(ArrayType(Type.BIGINT)),
    "m": MapType(Type.STRING, Type.BIGINT),
    "n": Type.BIGINT,
}
_SCOPE = Scope((Relation(("s",), tuple((name, Column(name, type_)) for name, type_ in _TYPES.items())),))
_NUMBER = st.none() | st.integers(-3, 3)
_NUMBERS = st.none() | st.lists(_NUMBER, max_size=4)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "xs": _NUMBERS,
            "ys": _NUMBERS,
            "ws": st.none() | st.lists(_NUMBERS, max_size=3),
            "m": st.none() | st.dictionaries(st.sampled_from("abc"), _NUMBER),
            "n": _NUMBER,
        }
    ),
    max_size=6,
)
_CALLS = [
    "transform(xs, x -> x + 1)",
    "transform(xs, (x, i) -> x * i + n)",
    "transform(ws, w -> size(filter(w, x -> x > n)))",
    "transform(ws, x -> transform(x, x -> x - 1))",
    "transform(xs, x -> 'k')",
    "filter(xs, x -> x > n)",
    "filter(xs, (x, i) -> i % 2 = 0)",
    "exists(xs, x -> x > n)",
    "forall(xs, x -> x > n)",
    "aggregate(xs, 0, (acc, x) -> acc + coalesce(x, n))",
    "aggregate(xs, CAST(n AS DOUBLE), (acc, x) -> acc + x, acc -> acc / 2)",
    "reduce(ws, 0, (acc, w) -> acc + coalesce(size(w), 0))",
    "zip_with(xs, ys, (x, y) -> coalesce(x, 0) - y)",
    "map_filter(m, (k, v) -> v > n OR k = 'a')",
    "transform_values(m, (k, v) -> v + n)",
    "transform_keys(m, (k, v) -> upper(k) || 'x')",
    "transform(array(1, 2, 3), x -> x + n)",
    "transform(array(1, 2, 3), x -> x * 2)",
]


def test_every_function_is_compared() -> None:
    assert {call.partition("(")[0] for call in _CALLS} >= set(HIGHER) - {"reduce"}


@pytest.mark.parametrize("call", _CALLS)
@settings(deadline=None, max_examples=20, derandomize=True, database=None)
@given(rows=_ROWS)
def test_columns_and_values_agree(call: str, rows: list[dict[str, Any]]) -> None:
    (tree,) = parse_expressions(tokenize(call), call)
    expr = ExpressionBinder(_SCOPE, Catalog()).bind(tree)
    frame = pl.DataFrame(
        {name: [row[name] for row in rows] for name in _TYPES}, schema={k: t.polars for k, t in _TYPES.items()}
    )
    (found,) = evaluate(frame, [expr])
    assert found.dtype == expr.type.polars
    assert [plain_value(value) for value in found.to_list()] == [value_of(expr, row) for row in rows]


def test_parameters_are_no_columns_and_are_shown_as_they_are_written() -> None:
    call = "aggregate(xs, n, (acc, x) -> acc + x)"
    (tree,) = parse_expressions(tokenize(call), call)
    expr = ExpressionBinder(_SCOPE, Catalog()).bind(tree)
    assert columns(expr) == {"xs", "n"}
    assert format_expr(expr) == call
