"""The results that unit tests compare our functions with are those of Spark."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

PATH = Path(__file__).parents[1] / "unit/operators/expressions/spark_functions.json"
SCHEMA = "i INT, s STRING, t STRING, n INT, m BIGINT, x DOUBLE, y DOUBLE, at TIMESTAMP, d DATE, b BOOLEAN"


def test_the_expected_results_of_functions_are_those_of_spark(spark: SparkSession, update_golden: bool) -> None:
    stored = json.loads(PATH.read_text())
    rows = [(i, *map(read, row.items())) for i, row in enumerate(stored["rows"])]
    before = {name: str(spark.conf.get(name)) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        names = list(stored["results"])
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1).orderBy("i")
        computed = frame.selectExpr(*(f"{name} AS r{i}" for i, name in enumerate(names)))
        kinds = [field.dataType.typeName() for field in computed.schema]
        texts = [
            f"CAST(r{i} AS STRING) AS r{i}" if kind in ("date", "timestamp") else f"r{i}"
            for i, kind in enumerate(kinds)
        ]
        collected = computed.selectExpr(*texts).collect()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
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
