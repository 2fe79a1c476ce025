"""Many texts of JSON give what each of them gives."""

from __future__ import annotations

import struct

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from polars.testing import assert_series_equal

from headrace.model.expressions.json_paths import steps_of
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type, is_nested
from headrace.operators.expressions.kernels import nested
from headrace.operators.expressions.kernels.conversion import _print_floats, print_float
from headrace.operators.expressions.kernels.json_text import _text_at, text_reader
from headrace.operators.expressions.kernels.nested import parse_all, parse_json
from headrace.testing.strategies.json_texts import damaged, types

PATHS = ["$.a", "$.b", "$.ü", "$['a b']", "$.a.a", "$.a.b.a", "$[0]", "$[1].a", "$.a[0]", "$.a[1].b", "$.a\\b.a", "$"]


@st.composite
def texts(draw: DrawFn) -> tuple[DataType, list[str | None]]:
    type_ = draw(types().filter(is_nested))
    written = damaged(type_).map(lambda line: line.decode(errors="replace"))
    return type_, draw(st.lists(st.none() | written, max_size=6))


@settings(max_examples=25)
@given(texts())
def test_from_json_gives_what_each_text_gives(drawn: tuple[DataType, list[str | None]]) -> None:
    type_, held = drawn
    expected = [None if text is None else parse_json(text, type_) for text in held]
    result = parse_all(pl.Series(held, dtype=pl.String), type_)
    assert result.dtype == type_.polars
    assert repr(result.to_list()) == repr(pl.Series(expected, dtype=type_.polars).to_list())


@settings(max_examples=50)
@given(texts(), st.sampled_from(PATHS))
def test_get_json_object_gives_what_the_whole_text_gives(drawn: tuple[DataType, list[str | None]], path: str) -> None:
    read = text_reader(steps_of(path))
    for text in drawn[1]:
        if text is not None:
            assert read(text) == _text_at(text, steps_of(path))


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('{"a": 1, "a": {"b": 2}}', "$.a.b", "2"),
        ('{"a": {"b": 2}, "a": {"c": 1}}', "$.a.b", None),
        ('{"a": "\\u00fc\\n"} and more', "$.a", "ü\n"),
        ('{"a": [1.0, -0, 12345678.5, "x\ty"]}', "$.a", '[1.0,0,1.23456785E7,"x\\ty"]'),
        ('{"a": [null, {"b": null}]}', "$.a[1].b", None),
        ('{"a": {"b": 00}}', "$.a", None),
        ('{"a\\"b": {"c\\\\d": 1}}', "$['a\"b']['c\\d']", "1"),
        ('{"a": {"c\\td": 1}}', "$.a['c\td']", "1"),
        ('{"a": -0}', "$.a", "0"),
    ],
)
def test_unusual_texts(text: str, path: str, value: str | None) -> None:
    assert text_reader(steps_of(path))(text) == value == _text_at(text, steps_of(path))


def test_texts_that_fit_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = StructType((("n", Type.INT), ("price", DecimalType(8, 2)), ("at", Type.TIMESTAMP)))
    type_ = StructType((("xs", ArrayType(inner)), ("m", MapType(Type.STRING, Type.DATE))))
    good = '{"xs": [{"n": 1, "price": 1.005, "at": "2026-01-01T00:00:00Z"}, null], "m": {"a": "2026-01-01"}, "x": [{}]}'
    held = [good, None, "null", good.replace("-01", "-13"), "{", good] * 800
    expected = pl.Series([None if text is None else parse_json(text, type_) for text in held], dtype=type_.polars)
    single: list[str] = []

    def count(text: str, type_: DataType) -> object:
        single.append(text)
        return parse_json(text, type_)

    monkeypatch.setattr(nested, "parse_json", count)
    assert_series_equal(parse_all(pl.Series(held), type_), expected)
    assert sorted(single) == sorted(text for text in held if text is not None and text != good)


def test_null_inside_a_text_is_null_not_a_struct_of_nulls() -> None:
    type_ = StructType((("a", StructType((("b", Type.INT),))),))
    held = ['{"a": null}', '{"a": 5}', '{"a": {"b": null}}', "{}", "5", "null", " "]
    nothing = {"a": None}
    expected = [nothing, nothing, {"a": {"b": None}}, nothing, nothing, nothing, None]
    assert parse_all(pl.Series(held), type_).to_list() == expected


def test_a_number_that_python_cannot_hold_is_null() -> None:
    type_ = StructType((("a", DecimalType(5, 2)), ("b", Type.INT)))
    assert parse_json('{"a": 1e99999999999999999999, "b": 1}', type_) == {"a": None, "b": 1}


@given(st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]) | st.floats())
@example(1e-3)
@example(1e7)
@example(-0.0)
def test_one_number_is_written_as_a_column_is(value: float) -> None:
    assert print_float(value) == _print_floats(pl.Series([value])).item()
