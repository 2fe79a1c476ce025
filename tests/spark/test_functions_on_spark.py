"""The results that unit tests compare our functions with are those of Spark, also for values that are unusual."""

from __future__ import annotations

import datetime
import json
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.catalog.catalog import Catalog
from headrace.language.dialect import parse_expressions, tokenize
from headrace.model.schema import Field, Schema
from headrace.model.types import Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of

PATH = Path(__file__).parents[1] / "unit/operators/expressions/spark_functions.json"
SCHEMA = "i INT, s STRING, t STRING, n INT, m BIGINT, x DOUBLE, y DOUBLE, at TIMESTAMP, d DATE, b BOOLEAN"


def test_the_expected_results_of_functions_are_those_of_spark(spark: SparkSession, update_golden: bool) -> None:
    stored = json.loads(PATH.read_text())
    rows = [(i, *map(read, row.items())) for i, row in enumerate(stored["rows"])]
    with settings(spark):
        names = list(stored["results"])
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1).orderBy("i")
        computed = frame.selectExpr(*(f"{name} AS r{i}" for i, name in enumerate(names)))
        kinds = [field.dataType.typeName() for field in computed.schema]
        texts = [
            f"CAST(r{i} AS STRING) AS r{i}" if kind in ("date", "timestamp") else f"r{i}"
            for i, kind in enumerate(kinds)
        ]
        collected = computed.selectExpr(*texts).collect()
    results = {
        name: [written(row[i], kind) for row in collected]
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    if update_golden:
        data = [f" {json.dumps(row, ensure_ascii=False)}" for row in stored["rows"]]
        lines = [
            f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(values, ensure_ascii=False)}"
            for name, values in results.items()
        ]
        PATH.write_text('{"rows": [\n' + ",\n".join(data) + '\n], "results": {\n' + ",\n".join(lines) + "\n}}\n")
    else:
        assert results == stored["results"]


#: What a column holds besides NULL: ends of ranges, and values that programs often get wrong.
UNUSUAL: dict[str, tuple[Type, list[Any]]] = {
    "s": (Type.STRING, [
        "", " ", "\t", "a", "A b", "é", "e\u0301", "😀", "a😀b", "日本", "a,b,,c,", ",", "aaa", "%", "_", "\\", '"',
        "a\x00b", "http://u:p@h:80/a?k=1&l=#f", "%41", '{"a":[1,null,{"b":"x"}]}', "[]", "0", "-0", " 12 ", "1.5",
        "1e3", "12x", "NaN", "-Infinity", "2147483648", "9223372036854775807", "9223372036854775808", "1_0", "true",
        " T ", "off", "2024-02-29", "2026-02-30", "0001-01-01", "9999-12-31", "2026-1-5", "2026-01-31 24:00:00",
        "2026-01-31 23:59:60", "2026-01-31T12:34:56.123456789Z", "2026-01-31 12:34:56 +05:30", "2026-01-31 12",
        "2026-01-31 1:2", "ff", "YWI=",
    ]),
    "t": (Type.STRING, ["", " ", "a", "b", "é", "\u0301", "😀", ",", "aa", "%", "null", "12", "2026-01-31"]),
    "n": (Type.INT, [0, 1, -1, 2, 3, 5, 12, 31, 32, 59, 60, -7, 100, 2024]),
    "m": (Type.BIGINT, [0, 1, -1, 7, -7, 2**31, 2**53 + 1, -(2**53) - 1, 2**62, 1_767_225_600, -86_401]),
    "x": (Type.DOUBLE, [
        0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1 / 3, 1e-3, 9.99e-4, 1e7, 9999999.0, 1e15, 1e-5, 1.005, 2.675,
        math.nan, 710.0, 1e300, 2.0**53,
    ]),
    "y": (Type.DOUBLE, [0.0, 0.5, -0.5, 1.0, -1.0, 0.25, -0.999, 2.0, 3.0, math.nan, 1e-20]),
    "at": (Type.TIMESTAMP, [
        0, -1, 1, 999_999, -62_135_596_800_000_000, 253_402_300_799_999_999, -12_219_292_800_000_000,
        -12_219_379_200_000_001, 1_709_208_000_000_000, 1_774_747_800_000_000, 1_774_749_599_999_999,
        1_483_228_799_999_999, 1_792_893_600_000_000,
    ]),
    "d": (Type.DATE, [0, -1, -719_162, 2_932_896, -141_428, -141_427, 19_782, 20_484, 20_819, 16_801, -25_508, 12_784]),
    "b": (Type.BOOLEAN, [True, False]),
}  # fmt: skip
_FITS = "a number that does not fit gives NULL"
_YEARS = "the years 1 to 9999"
#: Where unusual values show differences that are meant (docs/reference/functions.md).
MEANT = {
    "CAST(x AS BIGINT)": _FITS,
    "int(x)": _FITS,
    "ceil(x)": _FITS,
    "ceiling(y)": _FITS,
    "floor(x)": _FITS,
    "add_months(d, -1)": _YEARS,
    "add_months(d, 1)": _YEARS,
    "add_months(d, 12)": _YEARS,
    "add_months(d, n % 100)": _YEARS,
    "get_json_object(s, '$.a[1]')": "null in an array is NULL, not text",
    "parse_url(s, 'PATH')": "a text with a colon is a path",
    "pow(x, y)": "1 to the power of NaN is 1",
    "size(split(s, ','))": "the size of NULL is NULL",
    "to_json(named_struct('at', at, 'd', d, 'x', x, 'b', b))": "how times and numbers are written",
    "to_json(split(s, '[ ,]*'))": "Spark splits a character beyond 16 bits",
}


def test_functions_give_what_spark_gives_for_unusual_values(spark: SparkSession, tmp_path: Path) -> None:
    schema = Schema(tuple(Field(name, type_) for name, (type_, _) in UNUSUAL.items()))
    chance = random.Random(4)
    drawn = {
        name: pl.Series([chance.choice([None, *values]) for _ in range(400)]) for name, (_, values) in UNUSUAL.items()
    }
    frame = pl.DataFrame({name: drawn[name].cast(type_.polars) for name, (type_, _) in UNUSUAL.items()})
    frame.with_columns(pl.col("at").dt.replace_time_zone("UTC")).write_parquet(tmp_path / "rows.parquet")
    texts = [text for text in json.loads(PATH.read_text())["results"] if text not in MEANT]
    binder = ExpressionBinder(Scope((relation_of(("r",), schema),)), Catalog())
    bound = [binder.bind(parse_expressions(tokenize(text), text)[0]) for text in texts]
    with settings(spark):
        rows = spark.read.parquet(str(tmp_path / "rows.parquet")).coalesce(1)
        theirs = rows.selectExpr(*(f"{text} AS r{i}" for i, text in enumerate(texts))).toArrow()
    wrong: dict[str, list[Any]] = {}
    for i, (text, _expr, ours) in enumerate(zip(texts, bound, evaluate(frame, bound), strict=True)):
        pairs = zip(numbers(ours.to_arrow()), numbers(theirs.column(i)), strict=True)
        for row, (mine, other) in enumerate(pairs):
            if not same(mine, other):
                wrong.setdefault(text, []).append((frame.row(row, named=True), mine, other))
    assert {text: found[0] for text, found in wrong.items()} == {}, "with rows, our result and that of Spark"


def numbers(column: Any) -> list[Any]:
    """Return values with integers in place of times."""
    return list(column.cast(timeless(column.type)).to_pylist())


def timeless(type_: Any) -> Any:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(timeless(type_.value_type))
    if pa.types.is_temporal(type_):
        return pa.int32() if pa.types.is_date(type_) else pa.int64()
    return type_


def same(ours: Any, other: Any) -> bool:
    if isinstance(ours, list) and isinstance(other, list):
        return len(ours) == len(other) and all(map(same, ours, other))
    if isinstance(ours, float) and other is not None:
        return (math.isnan(ours) and math.isnan(other)) or math.isclose(ours, other, rel_tol=1e-13, abs_tol=1e-300)
    return bool(ours == other)


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Set Spark to what our functions follow; afterwards set it back."""
    wanted = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    }
    before = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def read(item: tuple[str, Any]) -> Any:
    name, value = item
    if value is None or name not in ("at", "d"):
        return value
    if name == "d":
        return datetime.date.fromisoformat(value)
    return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)


def written(value: Any, kind: str) -> Any:
    """Return a value as JSON can hold it: a date, an instant or a DOUBLE as text under its type."""
    return value if value is None or kind not in ("date", "timestamp", "double") else {kind: str(value)}
