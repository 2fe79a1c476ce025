"""Blocks of JSON, nested or not, are read as each of their lines is."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from polars import selectors
from polars.testing import assert_frame_equal

from headrace.connectors.formats import text
from headrace.connectors.formats.text import Json, Lines, Parsed, lines_of, parse, parse_each, parse_json
from headrace.model.schema import Field, Schema
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type
from headrace.testing.strategies.json_texts import NAMES, damaged, types


@st.composite
def blocks(draw: DrawFn) -> tuple[Schema, list[bytes]]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    schema = Schema(tuple(Field(name, draw(types())) for name in names))
    record = StructType(tuple((field.name, field.type) for field in schema))
    return schema, draw(st.lists(damaged(record), max_size=6))


def singly(records: list[bytes], schema: Schema, form: Json) -> Parsed:
    return text._one_by_one(lines_of(records), schema, form)


def shown(parsed: Parsed) -> str:
    return repr(parsed.rows.with_columns(selectors.datetime().cast(pl.Int64)).to_dict(as_series=False))


def check_equal(parsed: Parsed, expected: Parsed) -> None:
    assert_frame_equal(parsed.rows, expected.rows, check_exact=True)
    assert shown(parsed) == shown(expected)  # 0.0 is not -0.0
    assert parsed.positions.tolist() == expected.positions.tolist()
    assert list(parsed.bad) == list(expected.bad)


@settings(max_examples=25)
@given(blocks(), st.sampled_from([1, 1000, 1_000_000]))
def test_a_block_gives_what_its_lines_give(block: tuple[Schema, list[bytes]], epoch: int) -> None:
    schema, records = block
    lines, expected = lines_of(records), singly(records, schema, Json(epoch))
    for read in (parse, parse_each):
        check_equal(read(lines, schema, Json(epoch)), expected)
    numbered = parse_json(records, schema, Json(epoch))
    check_equal(Parsed(numbered.rows, lines.starts[numbered.positions], numbered.bad), expected)


def test_records_are_decoded_some_at_a_time_and_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_TOGETHER", 9)
    schema = Schema((Field("n", Type.BIGINT),))
    records = [b'{"n": "x"}' if number % 7 == 0 else b'{"n": %d}' % number for number in range(200)]
    parsed = parse_json(records, schema, Json())
    assert parsed.positions.tolist() == parsed.rows["n"].to_list() == [n for n in range(200) if n % 7]
    assert [number for number, _ in parsed.bad] == [*range(0, 200, 7)]


NESTED = Schema(
    (
        Field("id", Type.BIGINT),
        Field("at", Type.TIMESTAMP),
        Field("buyer", StructType((("name", Type.STRING), ("at", Type.TIMESTAMP), ("born", Type.DATE)))),
        Field("lines", ArrayType(StructType((("n", Type.INT), ("price", DecimalType(8, 2)))))),
        Field("tags", MapType(Type.STRING, Type.STRING)),
        Field("spans", MapType(Type.INT, ArrayType(Type.INTERVAL))),
        Field("price", DecimalType(12, 2)),
    )
)
GOOD = (
    '{"id": %d, "at": "2026-01-01T00:00:01.5Z", "buyer": {"at": "2026-01-01 00:00:02", "name": "Ann \\u00fc", '
    '"born": "2000-02-29", "unknown": [{}]}, "lines": [{"n": 1, "price": 1.005}, null, {"price": "2e1"}], '
    '"tags": {"a": "b", "c": null}, "spans": {"1": [7, null], "2": null}, "price": 19.99}'
)


def test_records_with_nested_values_are_read_together_except_those_that_are_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [(GOOD % number).encode() for number in range(300)]
    records[7] = records[7].replace(b"2000-02-29", b"2001-02-29")
    records[299] = records[299][:-1]
    expected = singly(records, NESTED, Json())
    assert [line for line, _ in expected.bad] == [7, 299]
    counted: list[int] = []
    one_by_one = text._one_by_one

    def count(part: Lines, schema: Schema, form: Json) -> Parsed:
        counted.append(len(part.starts))
        return one_by_one(part, schema, form)

    monkeypatch.setattr(text, "_one_by_one", count)
    for read in (parse, parse_each):
        check_equal(read(lines_of(records), NESTED, Json()), expected)
        assert sum(counted) == 2
        counted.clear()


def test_columns_that_nobody_reads_are_checked_nevertheless() -> None:
    records = [b'{"a": 1}', b'{"a": "\xff"}', b"[]", b'{"a": nul}', b"{}"]
    for read in (parse, parse_each):
        parsed = read(lines_of(records), Schema(()), Json())
        assert [line for line, _ in parsed.bad] == [1, 2, 3]
        assert parsed.rows.height == len(parsed.positions) == 2


@pytest.mark.parametrize("type_", [Type.INT, ArrayType(Type.INT), DecimalType(5, 2)], ids=lambda type_: type_.value)
def test_a_record_that_is_nested_without_end_is_bad(type_: DataType) -> None:
    deep = b'{"a": null, "b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for read in (singly, lambda records, schema, form: parse_each(lines_of(records), schema, form)):
        parsed = read([b'{"a": null}', deep], Schema.of(a=type_), Json())
        assert parsed.bad == [(1, "the record is nested too deeply")]
        assert parsed.rows.height == 1


@pytest.mark.parametrize("written", [b"9223372036854775808", b'"300000000 days"'])
def test_a_nested_interval_that_does_not_fit_makes_the_record_bad(written: bytes) -> None:
    parsed = parse(lines_of([b'{"a": [%s]}' % written, b'{"a": [5]}']), Schema.of(a=ArrayType(Type.INTERVAL)), Json())
    assert parsed.rows.height == 1
    assert [line for line, _ in parsed.bad] == [0]


def test_the_smallest_integers_fit_where_they_are_nested() -> None:
    schema = Schema.of(a=ArrayType(Type.INT), b=ArrayType(Type.BIGINT))
    records = [b'{"a": [-2147483648], "b": [-9223372036854775808]}', b'{"a": [-2147483649]}']
    for parsed in (parse(lines_of(records), schema, Json()), singly(records, schema, Json())):
        assert parsed.rows.to_dicts() == [{"a": [-(2**31)], "b": [-(2**63)]}]
        assert [line for line, _ in parsed.bad] == [1]


def test_a_number_beyond_double_is_bad_whatever_stands_beside_it() -> None:
    records = [b'{"a": 1e999}', b'{"a": -0}', b'{"a": 1}']
    for chosen in (records, records[1:]):
        check_equal(
            parse(lines_of(chosen), Schema.of(a=Type.DOUBLE), Json()), singly(chosen, Schema.of(a=Type.DOUBLE), Json())
        )
    assert [line for line, _ in parse(lines_of(records), Schema.of(a=Type.DOUBLE), Json()).bad] == [0]


@pytest.mark.parametrize("type_", [Type.TIMESTAMP, ArrayType(Type.TIMESTAMP)], ids=lambda type_: type_.value)
def test_a_number_of_forty_digits_is_no_time(type_: DataType) -> None:
    written = b"9" * 40 if type_ is Type.TIMESTAMP else b"[null, %s]" % (b"9" * 40)
    records = [b'{"a": null}', b'{"a": %s}' % written]
    schema = Schema.of(a=type_)
    for parsed in (parse(lines_of(records), schema, Json()), parse_json(records, schema, Json())):
        assert parsed.rows.rows() == [(None,)]
        assert [line for line, _ in parsed.bad] == [1]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\tb"])
def test_names_with_an_escape_are_found(name: str) -> None:
    schema = Schema((Field(name, Type.INT), Field("x", StructType(((name, Type.INT),)))))
    key = json.dumps(name).encode()
    records = [b'{%s: 1, "x": {%s: 2}}' % (key, key), b'{"x": {"other": 3}}', b"{}", b'{%s: "x"}' % key]
    for read in (parse, parse_each):
        parsed = read(lines_of(records), schema, Json())
        assert parsed.rows.rows() == [(1, {name: 2}), (None, {name: None}), (None, None)]
        assert [line for line, _ in parsed.bad] == [3]


@pytest.mark.parametrize("type_", [DecimalType(8, 2), ArrayType(DecimalType(8, 2))], ids=lambda type_: type_.value)
def test_a_decimal_is_what_the_text_has(type_: DataType) -> None:
    written = [b"1.005", b'"2.5"', b"1e3", b"null", b'"1_000"', b"true", b'"x"', b"[1]", b"1e9"]
    bare = isinstance(type_, DecimalType)
    records = [b'{"p": %s}' % (value if bare else b"[%s]" % value) for value in written]
    parsed = parse(lines_of(records), Schema.of(p=type_), Json())
    assert [line for line, _ in parsed.bad] == [4, 5, 6, 7, 8]
    assert all("is not a DECIMAL(8,2)" in why or f"is not an {type_.value}" in why for _, why in parsed.bad)
    values = [Decimal("1.01"), Decimal("2.50"), Decimal("1000.00"), None]
    assert parsed.rows["p"].to_list() == (values if bare else [[value] for value in values])


def test_a_record_of_several_lines_is_read_as_one_of_one_line() -> None:
    records = [(GOOD % number).encode() for number in range(3)]
    several = [record.replace(b", ", b",\r\n  ") for record in [*records, records[0][:-1]]]
    parsed = parse_each(lines_of(several), NESTED, Json())
    assert_frame_equal(parsed.rows, parse(lines_of(records), NESTED, Json()).rows)
    assert [line for line, _ in parsed.bad] == [3]


@pytest.mark.slow
def test_reading_does_not_import_pandas() -> None:
    use = """
import sys
from headrace.connectors.formats.text import Json, lines_of, parse
from headrace.language.type_text import read_schema
from headrace.model.schema import Field, Schema
columns = "at TIMESTAMP, p DECIMAL(5, 2), x STRUCT<t: ARRAY<TIMESTAMP>, d: DATE, m: MAP<INT, INTERVAL>, b: BINARY>"
schema = Schema(tuple(Field(*field) for field in read_schema(columns).fields))
record = b'{"at": "2026-01-01", "p": 1, "x": {"t": ["2026-01-01"], "d": "2026-01-01", "m": {"1": 2}, "b": "AA=="}}'
parsed = parse(lines_of([record, b'{"x": {"t": [5]}}', b'{"x": null}']), schema, Json())
assert (parsed.rows.height, parsed.bad) == (3, [])
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
