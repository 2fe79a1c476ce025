"""Blocks of JSON, nested or not, are read as each of their lines is."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from polars import selectors
from polars.testing import assert_frame_equal

from headrace.connectors.formats import text
from headrace.connectors.formats.text import Json, Lines, Parsed, lines_of, parse, parse_each
from headrace.model.schema import Field, Schema
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type

PLAIN = [type_ for type_ in Type if type_ is not Type.NULL]
NAMES = ["a", "b", "ü", "a b", "A"]
NUMBERS = [
    "0", "-0", "1", "-1", "7", "2147483647", "-2147483648", "2147483648", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890",
    "1.0", "-0.0", "1.5", "0.005", "2.675", "1e3", "1E-3", "12345678.125", "0.1000000000000000055511151231257827",
    "1e308", "1e309", "-1e400", "1e-400", "3.4e39", "9" * 40, "0." + "9" * 40, "1" * 400, "1767225601000",
    "1767225601000000", "253402300800000000", "-62135596800000001",
]  # fmt: skip
TIMES = [
    "2026-01-31", "2026-01-31 23:59:59", "2026-01-31T23:59:59.123456", "2026-01-31T23:59:59.123456789",
    "2026-01-31T23:59:59Z", "2026-01-31T23:59:59.5+01:00", "20260131T235959", "2026-W05-6", "0000-01-01 00:00:00",
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2026-02-30 00:00:00", "2026-01-31 23:59:60",
    "2026-01-31 24:00:00", "soon", "2026-01-31T23:59:59ZZ", "2026-01-31 23:59:59 ",
]  # fmt: skip
TEXTS = [
    "", "x", "true", "NaN", "Infinity", " 2.5", "2.50", "1_0", "1e2", "-7", "01", "500 ms", "1 h 30 min", "AAEC", "A",
    "AA==", "ü", "null", "\u2028", "😀", "line\nend", "back\\slash", '"quoted"',
]  # fmt: skip
#: Values as they must not be written, and values of other kinds.
ODD = [
    "", "NaN", "-Infinity", "nul", "tru", "01", "1.", ".5", "+1", "-", "1e", "[1,]", '{"a":1,}', "'x'", '"\\ud800"',
    '"\\udc00x"', '"\\ud83d\\ude00"', '"\\x"', '"\\u00zz"', '"\t"', "[", "{", '"', "[]", "{}", "[null]", '{"a":null}',
    '{"":1}', "[" * 50 + "]" * 50, "0x1", "\ufeff1", "1 2", "/**/1", '"\\u0000"', '"\\/"', '"\x7f"',
]  # fmt: skip


@st.composite
def types(draw: DrawFn, depth: int = 3) -> DataType:
    kind = draw(st.integers(0, 8 if depth else 5))
    if kind <= 4:
        return draw(st.sampled_from(PLAIN))
    if kind == 5:
        precision = draw(st.sampled_from([1, 5, 12, 38]))
        return DecimalType(precision, draw(st.sampled_from([0, min(2, precision), precision])))
    if kind == 6:
        return ArrayType(draw(types(depth - 1)))
    if kind == 7:
        key = draw(st.sampled_from([Type.STRING, Type.STRING, Type.INT, Type.BIGINT, Type.DATE, Type.DOUBLE]))
        return MapType(key, draw(types(depth - 1)))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return StructType(tuple((name, draw(types(depth - 1))) for name in names))


def fitting(type_: DataType) -> SearchStrategy[str]:
    """Return texts of JSON most of which fit a type."""
    match type_:
        case ArrayType(element=element):
            return st.lists(values(element), max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
        case StructType(fields=fields):
            return st.tuples(*(values(part) for _, part in fields)).flatmap(
                lambda parts: objects([(name, part) for (name, _), part in zip(fields, parts, strict=True)])
            )
        case MapType(key=key, of=of):
            keys = ["1", "2", "01", " 2", "-3", "x", "1.5"] if key.is_numeric or key is Type.DOUBLE else ["k", "ü", ""]
            names = st.sampled_from(TIMES if key is Type.DATE else keys)
            return st.lists(st.tuples(names, values(of)), max_size=3).flatmap(objects)
        case DecimalType():
            return st.sampled_from([*NUMBERS, '"2.50"', '"-7"', '" 1e2"', '"x"'])
        case Type.BOOLEAN:
            return st.sampled_from(["true", "false"])
        case Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE:
            return st.sampled_from(NUMBERS)
        case Type.TIMESTAMP | Type.DATE:
            return st.sampled_from([*map(json.dumps, TIMES), *NUMBERS[:9], *NUMBERS[-4:]])
        case Type.INTERVAL:
            return st.sampled_from(['"500 ms"', '"1 h 30 min"', '"7"', '"soon"', *NUMBERS[:13]])
        case _:
            return st.sampled_from(TEXTS).map(json.dumps)


def objects(parts: list[tuple[str, str]]) -> SearchStrategy[str]:
    """Return objects with some members, of which one may be missing, twice or in another place, beside others."""

    def written(parts: list[tuple[str, str]], change: int) -> str:
        match change:
            case 0:
                parts = parts[1:]
            case 1:
                parts = [*parts, *parts[:1]]
            case 2:
                parts = [("unknown", '{"x": [1, "y"]}'), *parts]
            case 3:
                parts = [*parts, ("unknown", "1e999")]
        blank = " " if change % 2 else ""
        return "{" + f",{blank}".join(f"{json.dumps(name)}:{blank}{part}" for name, part in parts) + "}"

    return st.tuples(st.permutations(parts), st.integers(0, 30)).map(lambda drawn: written(*drawn))


def values(type_: DataType) -> SearchStrategy[str]:
    """Return values: nearly all of a type, some NULL, few of other kinds or malformed."""
    odd = st.sampled_from([*ODD, *map(json.dumps, TEXTS + TIMES), *NUMBERS, "true"])
    return st.integers(0, 60).flatmap(lambda n: odd if n == 0 else st.just("null") if n <= 4 else fitting(type_))


@st.composite
def lines(draw: DrawFn, schema: Schema) -> bytes:
    record = StructType(tuple((field.name, field.type) for field in schema))
    line = draw(fitting(record)).encode("utf-8", "surrogatepass")
    change = draw(st.integers(0, 60))
    at = draw(st.integers(0, len(line)))
    match change:
        case 0:
            line += draw(st.sampled_from([b"x", b"{}", b" ", b"\r", b",", b"\x00", b"\xff"]))
        case 1:
            line = line[:at]
        case 2:
            line = line[:at] + draw(st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\x01", b'"', b"\\", b"}"])) + line[at:]
        case 3:
            line = draw(st.sampled_from([b"", b"[]", b"null", b"5", b"{}", b"\xef\xbb\xbf{}", b'{"": 1}']))
    return line.replace(b"\n", b" ")


@st.composite
def blocks(draw: DrawFn) -> tuple[Schema, list[bytes]]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    schema = Schema(tuple(Field(name, draw(types())) for name in names))
    return schema, draw(st.lists(lines(schema), max_size=6))


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
    for read in (parse, parse_each):
        check_equal(read(lines_of(records), schema, Json(epoch)), singly(records, schema, Json(epoch)))


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
