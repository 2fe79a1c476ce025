"""Functions give what Spark gives, for edge values; a test on Spark checks that the stored results are its own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.catalog import Catalog
from headrace.language.dialect import parse_expressions, tokenize
from headrace.model.expressions.expression import Call, Expr, walk
from headrace.model.expressions.functions import FUNCTIONS
from headrace.model.schema import Field, Schema
from headrace.model.types import Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.operators.expressions.kernels.conversion import convert
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of

STORED = json.loads((Path(__file__).parent / "spark_functions.json").read_text())
TYPES = {
    "s": Type.STRING, "t": Type.STRING, "n": Type.INT, "m": Type.BIGINT, "x": Type.DOUBLE, "y": Type.DOUBLE,
    "at": Type.TIMESTAMP, "d": Type.DATE, "b": Type.BOOLEAN,
}  # fmt: skip
SCHEMA = Schema(tuple(Field(name, type_) for name, type_ in TYPES.items()))
#: Where we differ on purpose, and why.
DIFFERENT = {
    "n * 2": "integer arithmetic gives BIGINT",
    "abs(n)": "integer arithmetic gives BIGINT",
    "negative(n)": "integer arithmetic gives BIGINT",
    "size(split(s, ','))": "the size of NULL is NULL, as in Spark with ANSI mode, not -1",
    "to_json(named_struct('at', at, 'd', d, 'x', x, 'b', b))": "a timestamp keeps its microseconds, and has no zone",
    "int(x)": "a number that does not fit into the type of a CAST gives NULL, not the largest one",
}


def bound(text: str) -> Expr:
    binder = ExpressionBinder(Scope((relation_of(("r",), SCHEMA),)), Catalog())
    (tree,) = parse_expressions(tokenize(text), text)
    return binder.bind(tree)


def test_every_function_is_compared_with_spark() -> None:
    called = {part.function for text in STORED["results"] for part in walk(bound(text)) if isinstance(part, Call)}
    assert set(FUNCTIONS) == called & set(FUNCTIONS)


def frame() -> pl.DataFrame:
    texts = pl.DataFrame(STORED["rows"], infer_schema_length=None)
    columns = []
    for name, type_ in TYPES.items():
        column = texts[name]
        if type_ in (Type.TIMESTAMP, Type.DATE):
            column = texts.select(convert(pl.col(name), Type.STRING, type_))[name]
        columns.append(column.cast(type_.polars).alias(name))
    return pl.DataFrame(columns)


@pytest.mark.parametrize("text", [name for name in STORED["results"] if name not in DIFFERENT])
def test_a_function_gives_what_spark_gives(text: str) -> None:
    expr = bound(text)
    (column,) = evaluate(frame(), [expr])
    if expr.type in (Type.TIMESTAMP, Type.DATE):
        column = pl.select(convert(pl.lit(column), expr.type, Type.STRING)).to_series()
    expected = [next(iter(value.values())) if isinstance(value, dict) else value for value in STORED["results"][text]]
    pairs = list(zip(column.to_list(), expected, strict=True))
    assert [pair for pair in pairs if not same(*pair)] == []


def same(ours: Any, spark: Any) -> bool:
    if isinstance(ours, float) and spark is not None:
        other = float(spark)
        return math.isnan(ours) if math.isnan(other) else math.isclose(ours, other, rel_tol=1e-14, abs_tol=1e-300)
    return bool(ours == spark)
