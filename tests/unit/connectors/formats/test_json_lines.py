"""Rows that are written as lines of JSON are read as the same rows."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from polars import selectors
from polars.testing import assert_frame_equal

from headrace.connectors.formats.json_lines import json_lines
from headrace.connectors.formats.text import Json, lines_of, parse
from headrace.model.schema import Field, Schema
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type
from headrace.testing.strategies.json_texts import NAMES, damaged, types


@st.composite
def rows(draw: DrawFn) -> tuple[Schema, pl.DataFrame]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    schema = Schema(tuple(Field(name, draw(types())) for name in names))
    record = StructType(tuple((field.name, field.type) for field in schema))
    texts = draw(st.lists(damaged(record), max_size=6))
    return schema, parse(lines_of(texts), schema, Json()).rows


@settings(max_examples=25)
@given(rows())
def test_rows_are_read_as_they_were_written(drawn: tuple[Schema, pl.DataFrame]) -> None:
    schema, frame = drawn
    assume("inf" not in repr(frame.select(~selectors.datetime()).to_dict(as_series=False)))  # JSON has no Infinity
    assume(all(is_within(frame[field.name]) for field in schema if field.type is Type.TIMESTAMP))
    lines = json_lines(frame).split(b"\n")
    assert lines.pop() == b""
    again = parse(lines_of(lines), schema, Json())
    assert list(again.bad) == []
    assert_frame_equal(again.rows, frame, check_exact=True)


def is_within(times: pl.Series) -> bool:
    return bool(times.is_between(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).all())  # noqa: DTZ001


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        (MapType(Type.BIGINT, Type.INT), {1: 2, -3: None}, '{"1":2,"-3":null}'),
        (MapType(Type.BOOLEAN, Type.INT), {True: 2}, '{"true":2}'),
        (MapType(Type.DATE, Type.INT), {dt.date(2026, 1, 31): 2}, '{"2026-01-31":2}'),
        (ArrayType(Type.BINARY), [b"\x00\xff", None], '["AP8=",null]'),
        (ArrayType(Type.INTERVAL), [dt.timedelta(seconds=1)], "[1000000]"),
        (ArrayType(DecimalType(5, 2)), [Decimal("1.50"), None], "[1.50,null]"),
        (DecimalType(38, 10), Decimal("0.0000000001"), "0.0000000001"),
        (Type.FLOAT, 0.1, "0.1"),
    ],
    ids=lambda value: value.value if isinstance(value, ArrayType | MapType | DecimalType | Type) else "",
)
@pytest.mark.parametrize("beside", [[], [Decimal("1.50")]], ids=["alone", "beside a DECIMAL"])
def test_a_value_is_written_whatever_stands_beside_it(
    type_: DataType, value: Any, written: str, beside: list[Decimal]
) -> None:
    others = [pl.Series("d", beside, dtype=pl.Decimal(5, 2))] if beside else []
    frame = pl.DataFrame([pl.Series('a "name"', [value], dtype=type_.polars), pl.Series("z", ["}\n{"]), *others])
    line = json_lines(frame).decode()
    end = ',"d":1.50}\n' if beside else "}\n"
    assert line == f'{{"a \\"name\\"":{written},"z":"}}\\n{{"{end}'
    assert json.loads(line)["z"] == "}\n{"


def test_times_are_written_alike_beside_a_decimal() -> None:
    at = pl.Series("at", [dt.datetime(2026, 1, 31, 12)], dtype=pl.Datetime("us"))  # noqa: DTZ001
    alone = json_lines(pl.DataFrame([at])).decode().removesuffix("}\n")
    assert json_lines(pl.DataFrame([at, pl.Series("d", [Decimal(1)])])).decode().startswith(alone)
