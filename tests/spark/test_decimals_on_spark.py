"""DECIMALs: types and values are those of Spark, and state that holds them survives a restart."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

from headrace.catalog.catalog import Catalog
from headrace.language.dialect import parse_expressions, tokenize
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType, DecimalType, Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of
from headrace.session import Session

TYPES: dict[str, DataType] = {
    "p": DecimalType(10, 2), "q": DecimalType(12, 4), "w": DecimalType(38, 10), "l": DecimalType(38, 0),
    "z": DecimalType(20, 20), "n": Type.INT, "m": Type.BIGINT, "x": Type.DOUBLE, "s": Type.STRING,
}  # fmt: skip
_PAIRS = [(a, b) for a in "pqwlz" for b in "pqwlz"] + [("p", "n"), ("m", "p"), ("p", "2"), ("w", "1.5"), ("p", "x")]
#: Spark fails if the quotient has more than 38 digits.
_DIVISIBLE = [pair for pair in _PAIRS if pair not in {("l", b) for b in "pqwz"} | {("w", "z")}]
#: All digits of both fit into 38. Of others Spark drops digits behind the point; here what is too large becomes NULL.
_COMPARABLE = [pair for pair in _PAIRS if set(pair) not in ({"l", "p"}, {"l", "q"}, {"l", "w"}, {"l", "z"}, {"w", "z"})]
EXPRESSIONS = [
    *(f"{a} {operator} {b}" for operator in "+-*/" for a, b in _PAIRS),
    *(f"{a} % {b}" for a, b in _DIVISIBLE),
    *(f"{a} {operator} {b}" for operator in "<=" for a, b in _COMPARABLE),
    *(f"{function}({a})" for function in ("ceil", "floor", "round", "xxhash64") for a in "pqwlz"),
    *(f"{function}({a})" for function in ("abs", "-") for a in "pqz"),  # Spark keeps 34 digits only
    *(f"round({a}, {digits})" for a in "pqwz" for digits in (0, 1, 3)),
    *(f"bround({a}, {digits})" for a in "pqwz" for digits in (0, 1, 3)),
    *(f"coalesce({a}, {b})" for a, b in _COMPARABLE if b != "2"),  # Spark takes ten digits for an INT
    *(f"CAST({a} AS DECIMAL({d}))" for a in "pqwlznmxs" for d in ("5,2", "38,18", "10,0", "38,0")),
    *(f"CAST({a} AS DOUBLE)" for a in "pqwlz"),
]


def test_types_and_values_are_those_of_spark(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows = [{name: _value(chance, type_) for name, type_ in TYPES.items()} for _ in range(60)]
    declared = ", ".join(f"{name} {type_.value.lower()}" for name, type_ in {"i": Type.INT, **TYPES}.items())
    ansi = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = spark.createDataFrame([(i, *row.values()) for i, row in enumerate(rows)], declared).coalesce(1)
        computed = frame.orderBy("i").selectExpr(*(f"{text} AS r{i}" for i, text in enumerate(EXPRESSIONS)))
        kinds = [field.dataType.simpleString() for field in computed.schema]
        theirs = computed.collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
    schema = Schema(tuple(Field(name, type_) for name, type_ in TYPES.items()))
    binder = ExpressionBinder(Scope((relation_of(("r",), schema),)), Catalog())
    bound = [binder.bind(parse_expressions(tokenize(text), text)[0]) for text in EXPRESSIONS]
    own = pl.DataFrame({name: pl.Series([row[name] for row in rows], dtype=t.polars) for name, t in TYPES.items()})
    wrong = []
    for i, (text, expr, column) in enumerate(zip(EXPRESSIONS, bound, evaluate(own, bound), strict=True)):
        if isinstance(expr.type, DecimalType) and expr.type.value.lower() != kinds[i]:
            wrong.append(f"{text}: {expr.type.value} instead of {kinds[i]}")
        for ours, row, values in zip(column.to_list(), theirs, rows, strict=True):
            if ours != row[i] and not (ours != ours and row[i] != row[i]):
                wrong.append(f"{text}: {ours} instead of {row[i]} for {values}")
                break
    assert wrong == []


def _value(chance: random.Random, type_: DataType) -> Any:
    if chance.random() < 0.1:
        return None
    match type_:
        case DecimalType(precision=precision, scale=scale):
            digits = chance.choice([1, 3, precision // 2, precision])
            sign = "-" if chance.random() < 0.4 else ""
            return Decimal(f"{sign}{chance.randrange(10**digits)}E-{scale}")
        case Type.INT:
            return chance.choice([0, 1, -3, 2**31 - 1])
        case Type.BIGINT:
            return chance.choice([0, 7, -(2**63), 10**12])
        case Type.DOUBLE:
            return chance.choice([0.0, 1.005, -2.675, 1e20, 0.1])
        case _:
            return chance.choice(["1.005", " -0.125 ", "1e3", "x", "", "99999999999"])


def test_state_of_decimals_survives_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        "CREATE STREAM s (at TIMESTAMP, shop DECIMAL(4, 1), price DECIMAL(10, 2), w DECIMAL(38, 10)) "
        "TIMESTAMP BY at FROM MEMORY; CREATE QUERY q AS SELECT shop, sum(price) AS total, avg(price) AS mean, "
        "sum(w) AS wide, max(price) AS most FROM s [RANGE 10 SECONDS] GROUP BY shop INTO MEMORY"
    )
    wide = Decimal("1234567890123456789012345678.0000000001")
    tripled = Decimal("3703703670370370367037037034.0000000003")
    row = {"shop": "1.5", "w": wide}
    with Session(tmp_path, buckets=2) as session:
        session.execute(text)
        session.push("s", [{"at": "2026-01-01 00:00:01", "price": "0.10", **row}])
        session.push("s", [{"at": "2026-01-01 00:00:02", "price": "0.20", **row}])
    with Session(tmp_path) as session:
        session.start()
        session.push("s", [{"at": "2026-01-01 00:00:03", "price": "-19.99", **row}])
        session.push("s", [{"at": "2026-01-01 00:00:30", "price": "1", **row}])
        session.drain(120)
        results = session.results("q")
    assert {"shop": Decimal("1.5"), "total": Decimal("-19.69"), "mean": Decimal("-6.563333"), "wide": tripled,
            "most": Decimal("0.20")} in results  # fmt: skip
