"""Records of JSON turned into columns: many at a time by a typed decoder, or one by one.

Both accept the same records and give the same values. The decoder refuses what is wrong, and some of what is unusual:
these records are read one by one, which also says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from headrace.connectors.formats.conversion import reason
from headrace.model.json_columns import (
    Positions,
    columns_of,
    decimal_texts,
    decode_all,
    is_knowable,
    kind_of,
    record_of,
    series_of,
    usual_instants,
)
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType, DecimalType, Type, is_nested

MOMENTS = (Type.TIMESTAMP, Type.INTERVAL)
#: So many characters of what is no DECIMAL are shown.
_SHOWN = 60
_INTEGER = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_PLAIN: dict[DataType, Any] = {
    Type.BOOLEAN: bool,
    Type.INT: int,
    Type.BIGINT: int,
    Type.FLOAT: float,
    Type.DOUBLE: float,
    Type.TIMESTAMP: int | str,
    Type.INTERVAL: int | str,
}


def read_records(texts: Sequence[bytes], schema: Schema, *, is_utf8: bool) -> tuple[pl.DataFrame, Positions]:
    """Return the columns of records, as `convert_all` takes them, and the records that must be read one by one."""
    kinds = tuple((field.name, _kind(field.type)) for field in schema)
    decode = _decoder(kinds).decode
    columns = [_Texts(field.type) if not is_nested(field.type) else columns_of(field.type) for field in schema]
    places = [(attrgetter(f"f{place}"), column) for place, column in enumerate(columns)]

    def take(records: list[msgspec.Struct]) -> None:
        for get, column in places:
            column.add(list(map(get, records)))

    def checked(text: bytes) -> Any:
        text.decode()  # also what the decoder passes over
        return decode(text)

    refused: set[int] = set(decode_all(texts, decode if is_utf8 else checked, take, record_of(kinds)()))
    raw: list[pl.Series] = []
    for field, column in zip(schema, columns, strict=True):
        if isinstance(column, _Texts):
            raw.append(column.finish().alias(field.name))
        else:
            series, wrong = series_of(column)
            raw.append(series.alias(field.name))
            refused.update(wrong.tolist())
    frame = pl.DataFrame(raw) if raw else pl.DataFrame(height=len(texts))
    return frame, np.array(sorted(refused), dtype=np.int64)


class _Texts:
    """The values of a column that is not nested."""

    def __init__(self, type_: DataType) -> None:
        self._type = type_
        self._values: list[Any] = []

    def add(self, values: list[Any]) -> None:
        self._values += values

    def finish(self) -> pl.Series:
        """Return numbers as numbers, times if all are as usual, and texts."""
        values = self._values
        if self._type is Type.TIMESTAMP:
            try:
                instants = usual_instants(pl.Series(values, dtype=pl.String).to_arrow())
            except (TypeError, OverflowError):
                instants = None  # some are numbers
            if instants is not None:
                return _from_arrow(instants)
        if isinstance(self._type, DecimalType):
            return decimal_texts(values)
        if self._type in MOMENTS:
            values = [None if value is None else str(value) for value in values]
        return pl.Series(values, dtype=raw_type(self._type))


def record_reader(schema: Schema) -> Callable[[bytes], tuple[Any, ...]]:
    """Return what reads one record; it raises ValueError or MsgspecError if the record is bad."""
    moments = [field.type in MOMENTS for field in schema]
    read = _values_reader(schema)

    def record(line: bytes) -> tuple[Any, ...]:
        line.decode()
        try:
            values = read(line)
        except RecursionError:
            raise ValueError("the record is nested too deeply") from None
        for value, field in zip(values, schema, strict=True):
            if field.type.is_integer and value is not None and not -(2**63) <= value < 2**63:
                raise ValueError(reason(value, field.name, field.type))
        return tuple(
            _raw_text(v, field) if isinstance(v, msgspec.Raw) else str(v) if is_moment and v is not None else v
            for v, field, is_moment in zip(values, schema, moments, strict=True)
        )

    return record


def _values_reader(schema: Schema) -> Callable[[bytes], tuple[Any, ...]]:
    """Return what reads the values of a record, those that are missing as None."""
    kinds = tuple((field.name, _loose_kind(field.type)) for field in schema)
    if all(is_knowable(name) for name, _ in kinds):
        decode = _decoder(kinds).decode
        return lambda line: msgspec.structs.astuple(decode(line))
    members = msgspec.json.Decoder(dict[str, msgspec.Raw])
    values = [(name, msgspec.json.Decoder(kind)) for name, kind in kinds]

    def read(line: bytes) -> tuple[Any, ...]:
        found = members.decode(line)
        return tuple(value.decode(found[name]) if name in found else None for name, value in values)

    return read


def raw_type(type_: DataType) -> pl.DataType:
    """Return how a column of single records holds the values of a type: numbers as such, all else as text."""
    if type_ is Type.BOOLEAN:
        return pl.Boolean()
    if not isinstance(type_, Type) or not type_.is_numeric:
        return pl.String()
    return pl.Int64() if type_.is_integer else pl.Float64()


def _kind(type_: DataType) -> Any:
    return kind_of(type_) if is_nested(type_) else (_INTEGER | None) if type_.is_integer else _loose_kind(type_)


def _loose_kind(type_: DataType) -> Any:
    """Return what a value is in JSON; a DECIMAL is a number, or a text so that its digits are safe."""
    return _PLAIN.get(type_, str) | None if isinstance(type_, Type) else msgspec.Raw


@lru_cache(maxsize=256)
def _decoder(kinds: tuple[tuple[str, Any], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(record_of(kinds))


def _raw_text(value: msgspec.Raw, field: Field) -> str | None:
    """Return the text of a nested value, or of a DECIMAL, which is read later; None for null and what is missing."""
    text = bytes(value).decode()
    if text in ("", "null"):
        return None
    if not isinstance(field.type, DecimalType) or text[0] in "-0123456789":
        return text
    if text[0] != '"':
        raise ValueError(reason(text[:_SHOWN], field.name, field.type))
    return msgspec.json.decode(text, type=str)


def _from_arrow(array: pa.Array) -> pl.Series:
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series
