"""Sequences, time zones, printed numbers, bytes and casts of arrays give on columns what they give value by value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from headrace.catalog.catalog import Catalog
from headrace.language.dialect import parse_expressions, tokenize
from headrace.model.expressions.expression import Column, Expr
from headrace.model.time import parse_instant
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.values import plain_value

_TYPES: dict[str, DataType] = {
    "n": Type.BIGINT,
    "x": Type.DOUBLE,
    "price": DecimalType(10, 3),
    "at": Type.TIMESTAMP,
    "s": Type.STRING,
    "texts": ArrayType(Type.STRING),
    "m": MapType(Type.STRING, Type.BIGINT),
}
_SCOPE = Scope((Relation(("r",), tuple((name, Column(name, type_)) for name, type_ in _TYPES.items())),))
#: A clock of New York leaves out the second of these times, and shows the third twice.
_ROWS: list[dict[str, Any]] = [
    {"n": 3, "x": 2.675, "price": Decimal("1234.565"), "at": parse_instant("2026-01-31 13:04:05.678901"), "s": "a1b22"},
    {"n": -2, "x": -0.0, "price": Decimal("-0.005"), "at": parse_instant("2026-03-08 02:30:00"), "s": ""},
    {"n": 0, "x": 1e23, "price": Decimal(0), "at": parse_instant("2026-11-01 01:30:00"), "s": "b"},
    {"n": 2**62, "x": float("inf"), "price": None, "at": parse_instant("1850-01-01"), "s": "33"},
    {"n": None, "x": None, "price": None, "at": None, "s": None},
    {"n": 7, "x": float("nan"), "price": Decimal(9999999), "at": 0, "s": "4c"},
]
_NESTED: list[dict[str, Any]] = [
    {"texts": ["1", "x", None], "m": {"a": 1}},
    {"texts": [], "m": {}},
    {"texts": None, "m": None},
    {"texts": ["9", "2.7"], "m": {"b": None, "c": 5}},
    {"texts": [None], "m": {"a": 2}},
    {"texts": ["2026-01-31"], "m": {"a": 1}},
]
_CALLS = [
    "sequence(1, n)",
    "sequence(n, 5, 2)",
    "sequence(n, -5, -3)",
    "sequence(n, n, 0)",
    "sequence(at, at + INTERVAL 1 DAY, INTERVAL 5 HOURS)",
    "sequence(at, TIMESTAMP '2026-03-01')",
    "sequence(to_date(at), DATE '2026-03-01', INTERVAL 1 WEEK)",
    "sequence(to_date(at), DATE '2026-03-01', INTERVAL 1 HOUR)",
    "regexp_extract_all(s, '([a-z])?([0-9])', 1)",
    "regexp_extract_all(s, '[0-9]', 0)",
    "map_concat(m, map('a', n))",
    "map_concat(m)",
    "format_number(x, 2)",
    "format_number(x, 0)",
    "format_number(x, 400)",
    "format_number(n, -1)",
    "format_number(n, 3)",
    "format_number(price, 2)",
    "from_utc_timestamp(at, 'America/New_York')",
    "to_utc_timestamp(at, 'America/New_York')",
    "to_utc_timestamp(to_date(at), 'Asia/Kolkata')",
    "to_utc_timestamp(from_utc_timestamp(at, 'UTC'), 'UTC')",
    "X'1F2'",
    "CAST(texts AS ARRAY<INT>)",
    "CAST(texts AS ARRAY<DATE>)",
    "CAST(CAST(texts AS ARRAY<DOUBLE>) AS ARRAY<STRING>)",
    "CAST(array(texts) AS ARRAY<ARRAY<DECIMAL(10, 1)>>)",
    "array_contains(array(1.5, x), x)",
    "array_position(array(1.5, x), x)",
    "size(array_remove(array(x, 1.5), x))",
    "size(array_distinct(array(x, 1.5, x, NULL, NULL)))",
    "size(array_union(array(x), array(x, 1.5)))",
    "size(array_intersect(array(x), array(1.5, x)))",
    "size(array_except(array(x), array(1.5, x)))",
    "arrays_overlap(array(x), array(1.5, x))",
    "array_contains(array(array(x)), array(x))",
    "isnan(array_max(array(x, 1.5, NULL)))",
    "isnan(array_min(array(x, 1.5, NULL)))",
    "map_contains_key(map(at, to_date(at)), at)",
    "map_values(map_concat(map(at, 1), map(TIMESTAMP '2026-01-01', 2), map(at, 3)))",
    "element_at(map(at, to_date(at)), at)",
    "map_keys(map(to_date(at), at))",
]


def bound(call: str) -> Expr:
    (tree,) = parse_expressions(tokenize(call), call)
    return ExpressionBinder(_SCOPE, Catalog()).bind(tree)


def computed(expr: Expr) -> list[Any]:
    rows = [{**row, **nested} for row, nested in zip(_ROWS, _NESTED, strict=True)]
    columns = [
        pl.Series(name, [row[name] for row in rows], dtype=pl.Int64 if type_ is Type.TIMESTAMP else type_.polars)
        for name, type_ in _TYPES.items()
    ]
    frame = pl.DataFrame(columns).with_columns(pl.col("at").cast(Type.TIMESTAMP.polars))
    (found,) = evaluate(frame, [expr])
    assert found.dtype == expr.type.polars
    return [plain_value(value) for value in found.to_list()]


@pytest.mark.parametrize("call", _CALLS)
def test_columns_and_values_agree(call: str) -> None:
    expr = bound(call)
    rows = [{**row, **nested} for row, nested in zip(_ROWS, _NESTED, strict=True)]
    assert computed(expr) == [value_of(expr, row) for row in rows]


def test_a_time_that_the_clock_leaves_out_counts_from_before_and_the_earlier_of_two_is_meant() -> None:
    found = computed(bound("to_utc_timestamp(at, 'America/New_York')"))
    assert found[1:3] == [parse_instant("2026-03-08 07:30:00"), parse_instant("2026-11-01 05:30:00")]


def test_numbers_are_printed_as_java_does() -> None:
    assert computed(bound("format_number(x, 2)"))[:4] == ["2.67", "-0.00", "100,000,000,000,000,000,000,000.00", "∞"]
    assert computed(bound("format_number(price, 2)"))[:2] == ["1,234.56", "-0.00"]


def test_times_beyond_the_calendar_of_python_are_elements_of_arrays() -> None:
    days = pl.DataFrame({"n": [2_932_897, -719_529, 0]})
    late = "date_from_unix_date(n)"
    for text, expected in {
        f"array_contains(array({late}, DATE '2026-01-01'), {late})": [True] * 3,
        f"unix_date(array_distinct(array({late}, {late}))[0])": [2_932_897, -719_529, 0],
        f"to_json(array({late}))": ["[null]", "[null]", '["1970-01-01"]'],
        f"to_json(named_struct('d', {late}, 'at', CAST({late} AS TIMESTAMP)))": [
            "{}",
            "{}",
            '{"d":"1970-01-01","at":"1970-01-01T00:00:00"}',
        ],
    }.items():
        assert evaluate(days, [bound(text)])[0].to_list() == expected


def test_a_struct_that_json_does_not_have_is_null() -> None:
    for text, expected in {"{}": True, '{"a": 1}': True, '{"a": {}}': False, "x": True}.items():
        rows = pl.DataFrame({"s": [text]})
        assert evaluate(rows, [bound("from_json(s, 'a STRUCT<b: STRING>').a IS NULL")])[0].to_list() == [expected]
        assert evaluate(rows, [bound("from_json(s, 'a STRUCT<b: STRING>') IS NULL")])[0].to_list() == [False]


def test_a_sequence_that_never_arrives_or_is_too_long_is_null() -> None:
    assert computed(bound("sequence(n, 5, -1)")) == [None, None, None, None, None, [7, 6, 5]]
    assert computed(bound("sequence(1, n)"))[3] is None
