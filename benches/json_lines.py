"""How fast is JSON parsed, flat and with nested values?

Headrace turns the lines of a file into columns as its ingest does, in one process. Plain Spark reads the same file with
the same columns. A rate is the lines of a run divided by the processor time of the process, or of the JVM, the best of
several runs in turns after some that do not count. Both must give the same number of rows and the same sum of prices.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from benches.parts.processes import all_processes, spent
from pyspark.sql import SparkSession

from headrace.connectors.formats.text import Json, blocks, parse
from headrace.hosts.spark.starting.context import session_for
from headrace.language.type_text import read_schema
from headrace.model.schema import Field, Schema
from headrace.model.types import StructType

#: The columns of each file, as both write them, and the least ratio of the rates.
FILES = {
    "flat": (
        "id BIGINT, name STRING, price DOUBLE, n INT, active BOOLEAN, city STRING, note STRING, code BIGINT, "
        "at TIMESTAMP, ratio DOUBLE",
        1.0,
    ),
    "nested": (
        "id BIGINT, buyer STRUCT<name: STRING, at: TIMESTAMP, place: STRUCT<city: STRING, zip: INT>>, "
        "items ARRAY<STRUCT<item: STRING, n: INT>>, tags MAP<STRING, STRING>, price DECIMAL(12, 2)",
        1.0,
    ),
}
#: Runs that do not count: the JVM is still compiling.
WARM = 4


def main(quick: bool) -> dict[str, Any]:
    """Read each file several times in turns."""
    lines, rounds = (250_000, WARM + 2) if quick else (500_000, WARM + 5)
    spark = session_for()
    figures: dict[str, Any] = {"bench": "json_lines", "title": f"{lines:,} lines of JSON", "rows": [], "notes": []}
    with tempfile.TemporaryDirectory(prefix="json-") as folder:
        for name, (columns, target) in FILES.items():
            path = Path(folder) / f"{name}.json"
            write(path, name, lines)
            runs = [(ours(path, columns), theirs(spark, path, columns)) for _ in range(rounds)]
            if len({(rows, round(total, 2)) for run in runs for _, rows, total in run}) > 1:
                raise SystemExit(f"{name}: both gave different rows")
            mine, other = (min(run[side][0] for run in runs[WARM:]) for side in range(2))
            figures["rows"].append(
                {
                    "case": f"{name}, {path.stat().st_size // lines} bytes",
                    "ours": lines / mine,
                    "peers": {"spark": lines / other},
                    "unit": "lines/CPU s",
                    "ratio": other / mine,
                    "target": target,
                    "verdict": "met" if other >= target * mine else "missed",
                }
            )
            figures["notes"].append(f"{name}: {1e6 * mine / lines:.2f} us a line, Spark {1e6 * other / lines:.2f} us")
    return figures


def write(path: Path, name: str, lines: int) -> None:
    """Write records of about 260 bytes."""
    draw = random.Random(1)
    with path.open("w") as file:
        file.writelines(json.dumps(_flat(i, draw) if name == "flat" else _nested(i, draw)) + "\n" for i in range(lines))


def ours(path: Path, columns: str) -> tuple[float, int, float]:
    """Return the processor time of our reader, the number of rows and the sum of prices."""
    type_ = read_schema(columns)
    assert isinstance(type_, StructType)
    schema = Schema(tuple(Field(name, part) for name, part in type_.fields))
    rows, total, began = 0, Decimal(0), time.process_time()
    with path.open("rb") as file:
        for part in blocks(file, 0, path.stat().st_size, size=path.stat().st_size):
            parsed = parse(part, schema, Json()).rows
            rows, total = rows + parsed.height, total + Decimal(str(parsed["price"].cast(pl.Float64).sum()))
    return time.process_time() - began, rows, float(total)


def theirs(spark: SparkSession, path: Path, columns: str) -> tuple[float, int, float]:
    """Return the same of Spark, which makes all columns and throws them away; the sum comes from another run."""
    frame = spark.read.schema(columns).json(str(path))
    before = list(all_processes())
    frame.write.format("noop").mode("overwrite").save()
    seconds = spent(os.getpid(), before, all_processes())["JVM"] / os.sysconf("SC_CLK_TCK")
    row = frame.selectExpr("count(1)", "CAST(sum(price) AS DOUBLE)").collect()[0]
    return seconds, row[0], row[1]


def _flat(i: int, draw: random.Random) -> dict[str, Any]:
    return {
        "id": i,
        "name": f"customer-{draw.randrange(10**6):06}",
        "price": draw.randrange(10**6) / 100,
        "n": draw.randrange(100),
        "active": draw.random() < 0.5,
        "city": draw.choice(_CITIES),
        "note": "x" * 60,
        "code": draw.randrange(10**9),
        "at": _time(draw),
        "ratio": draw.random(),
    }


def _nested(i: int, draw: random.Random) -> dict[str, Any]:
    place = {"city": draw.choice(_CITIES), "zip": draw.randrange(10**5)}
    return {
        "id": i,
        "buyer": {"name": f"customer-{draw.randrange(10**4):04}", "at": _time(draw), "place": place},
        "items": [{"item": f"i{draw.randrange(1000)}", "n": draw.randrange(9)} for _ in range(draw.randint(1, 3))],
        "tags": {f"k{key}": f"v{draw.randrange(100)}" for key in draw.sample(range(20), 3)},
        "price": draw.randrange(10**7) / 100,
    }


def _time(draw: random.Random) -> str:
    return (
        f"2026-01-31T{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}.{draw.randrange(1000):03}"
    )


_CITIES = ("Oldenburg", "Berlin", "Hamburg")
