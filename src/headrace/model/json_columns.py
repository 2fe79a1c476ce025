"""Columns from values of JSON: each level of nesting becomes arrays, without a dict for each value.

A typed decoder reads a text once. It takes only what `shaped` takes (`kind_of`). `Columns` collects the values of each
field, all elements, all keys, and makes one array of each. The few values that the decoder cannot judge, such as texts
of times, are judged there. A text that is refused must be read by other means: it is wrong, or unusual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute

from headrace.model.digits import from_text
from headrace.model.nested_values import key_of, shaped
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type

Positions: TypeAlias = npt.NDArray[np.int64]

#: So many texts are decoded before their values are collected: few enough for the caches of a processor, and for
#: Python's search for cycles.
_PIECE = 256
_NONE: Positions = np.empty(0, dtype=np.int64)
_PLAIN: dict[Type, Any] = {
    Type.BOOLEAN: bool,
    Type.INT: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    Type.BIGINT: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    Type.FLOAT: float,
    Type.DOUBLE: float,
    Type.TIMESTAMP: int | str,
    Type.INTERVAL: int | str,
}
#: What no value of JSON is.
_NEVER: Any = Annotated[int, msgspec.Meta(ge=1, le=0)]
#: The length of a time with seconds: 2026-01-31 23:59:59.
_SHORTEST_INSTANT = 19
_FIRST_INSTANT, _LAST_INSTANT, _FIRST_DAY = -62_135_596_800_000_000, 253_402_300_799_999_999, -719_162
#: Spans beyond are left to `shaped`.
_LONGEST_SPAN = 2**62


def kind_of(type_: DataType) -> Any:
    """Return what a value of JSON must be, as the decoder understands it; null is always possible."""
    match type_:
        case ArrayType(element=element):
            return list[kind_of(element)] | None  # type: ignore[misc]
        case MapType(of=of):
            return dict[str, kind_of(of)] | None  # type: ignore[misc]
        case StructType(fields=fields):
            return record_of(tuple((name, kind_of(part)) for name, part in fields)) | None
        case DecimalType():
            return msgspec.Raw  # a decoder would take "1_000"
        case Type():
            return _PLAIN.get(type_, str) | None


@lru_cache(maxsize=256)
def record_of(kinds: tuple[tuple[str, Any], ...]) -> type[msgspec.Struct]:
    """Return a class of records with the attributes f0, f1, ... for names; what is missing is None.

    If the decoder cannot know a name, it refuses all records but those without any value.
    """
    if not all(is_knowable(name) for name, _ in kinds):
        nothing = [(f"f{place}", _NEVER, None) for place in range(len(kinds))]
        return msgspec.defstruct("Record", nothing, forbid_unknown_fields=True, eq=False, gc=False)
    fields = [(f"f{place}", kind, None) for place, (_, kind) in enumerate(kinds)]
    names = {f"f{place}": name for place, (name, _) in enumerate(kinds)}
    return msgspec.defstruct("Record", fields, rename=names, eq=False, gc=False)


def is_knowable(name: str) -> bool:
    """Return whether the decoder can look for a name: it takes none with an escape."""
    return not any(letter in '"\\' or letter < " " for letter in name)


def decode_all(
    texts: Sequence[bytes | str], decode: Callable[[Any], Any], take: Callable[[list[Any]], None], instead: Any
) -> list[int]:
    """Give the values of all texts to `take`, some at a time; return the places of those that were refused.

    A refused one has the value `instead`.
    """
    refused: list[int] = []
    for start in range(0, len(texts), _PIECE):
        piece = texts[start : start + _PIECE]
        try:
            values = list(map(decode, piece))
        except (ValueError, msgspec.MsgspecError, RecursionError):
            values = []
            for place, text in enumerate(piece, start):
                try:
                    values.append(decode(text))
                except (ValueError, msgspec.MsgspecError, RecursionError):
                    values.append(instead)
                    refused.append(place)
        take(values)
    return refused


class Columns(Protocol):
    """The values of one type that were collected."""

    def add(self, values: list[Any]) -> None:
        """Collect decoded values."""

    def finish(self) -> tuple[pa.Array, Positions]:
        """Return all values, and where they do not fit; there the array holds anything."""


def columns_of(type_: DataType) -> Columns:
    """Return where values of a type are collected."""
    match type_:
        case StructType():
            return _Structs(type_)
        case ArrayType():
            return _Lists(type_)
        case MapType():
            return _Maps(type_)
        case Type() | DecimalType():
            return _Plain(type_)


def series_of(columns: Columns) -> tuple[pl.Series, Positions]:
    """Return what was collected as a column, and where it does not fit."""
    array, wrong = columns.finish()
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series, wrong


class _Plain:
    def __init__(self, type_: Type | DecimalType) -> None:
        self._type = type_
        self._values: list[Any] = []

    def add(self, values: list[Any]) -> None:
        self._values += values

    def finish(self) -> tuple[pa.Array, Positions]:
        return _array(self._values, self._type)


class _Structs:
    def __init__(self, type_: StructType) -> None:
        self._names = [name for name, _ in type_.fields]
        self._fields = [(attrgetter(f"f{place}"), columns_of(part)) for place, (_, part) in enumerate(type_.fields)]
        self._empty = record_of(tuple((name, kind_of(part)) for name, part in type_.fields))()
        self._missing = _Missing()

    def add(self, values: list[Any]) -> None:
        values = self._missing.replaced(values, self._empty)
        for get, columns in self._fields:
            columns.add(list(map(get, values)))

    def finish(self) -> tuple[pa.Array, Positions]:
        parts = [columns.finish() for _, columns in self._fields]
        fields = [pa.field(name, array.type) for name, (array, _) in zip(self._names, parts, strict=True)]
        arrays = [array for array, _ in parts]
        array = pa.StructArray.from_arrays(arrays, fields=fields, mask=self._missing.mask())
        return array, _joined([wrong for _, wrong in parts])


class _Lists:
    def __init__(self, type_: ArrayType) -> None:
        self._lengths: list[int] = []
        self._items = columns_of(type_.element)
        self._missing = _Missing()

    def add(self, values: list[Any]) -> None:
        values = self._missing.replaced(values, [])
        self._lengths += map(len, values)
        self._items.add(list(chain.from_iterable(values)))

    def finish(self) -> tuple[pa.Array, Positions]:
        offsets = _offsets(self._lengths)
        items, wrong = self._items.finish()
        array = pa.LargeListArray.from_arrays(pl.Series(offsets).to_arrow(), items, mask=self._missing.mask())
        return array, _owners(wrong, offsets)


class _Maps:
    def __init__(self, type_: MapType) -> None:
        self._type = type_
        self._lengths: list[int] = []
        self._keys: list[str] = []
        self._items = columns_of(type_.of)
        self._missing = _Missing()

    def add(self, values: list[Any]) -> None:
        values = self._missing.replaced(values, {})
        self._lengths += map(len, values)
        self._keys += chain.from_iterable(values)
        self._items.add(list(chain.from_iterable(map(dict.values, values))))

    def finish(self) -> tuple[pa.Array, Positions]:
        offsets = _offsets(self._lengths)
        keys, unfit = _keys(self._keys, self._type.key)
        items, wrong = self._items.finish()
        if keys is None:
            count = len(self._lengths)
            return pl.Series([None] * count, dtype=self._type.polars).to_arrow(), np.arange(count)
        array = pa.MapArray.from_arrays(
            pl.Series(offsets.astype(np.int32)).to_arrow(), keys, items, mask=self._missing.mask()
        )
        return array, _owners(_joined([unfit, wrong]), offsets)


class _Missing:
    """Where values are NULL."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._count = 0

    def replaced(self, values: list[Any], instead: Any) -> list[Any]:
        """Return values with something empty for NULL."""
        if None in values:
            self._places += [place for place, value in enumerate(values, self._count) if value is None]
            values = [instead if value is None else value for value in values]
        self._count += len(values)
        return values

    def mask(self) -> pa.Array | None:
        if not self._places:
            return None
        flags = np.zeros(self._count, dtype=bool)
        flags[self._places] = True
        return pl.Series(flags).to_arrow()


def _array(values: list[Any], type_: Type | DecimalType) -> tuple[pa.Array, Positions]:
    match type_:
        case DecimalType():
            return _decimals(values, type_)
        case Type.FLOAT:
            return pl.Series(values, dtype=pl.Float64).cast(pl.Float32).to_arrow(), _NONE
        case Type.BOOLEAN | Type.INT | Type.BIGINT | Type.DOUBLE:
            return pl.Series(values, dtype=type_.polars).to_arrow(), _NONE
        case Type.STRING:
            return _texts(values), _NONE
        case Type.TIMESTAMP | Type.DATE | Type.INTERVAL:
            array = _READERS[type_](values)
            return _each(values, type_) if array is None else (array, _NONE)
        case Type.BINARY | Type.NULL:
            return _each(values, type_)


def _keys(texts: list[str], type_: DataType) -> tuple[pa.Array | None, Positions]:
    """Return keys of a type; texts that stand for the same key, or for none, do not fit. None if no text fits."""
    if type_ is Type.STRING:
        return _texts(texts), _NONE
    texts_of: dict[Any, list[str]] = {}
    for text in set(texts):
        try:
            texts_of.setdefault(key_of(text, type_), []).append(text)
        except (ValueError, OverflowError):
            continue
    known = {same[0]: key for key, same in texts_of.items() if len(same) == 1}
    if not known:
        return (None if texts else pl.Series([], dtype=type_.polars).to_arrow()), np.arange(len(texts))
    instead = next(iter(known.values()))  # an array of keys has no NULL
    keys = [known.get(text, instead) for text in texts]
    unfit = np.array([place for place, text in enumerate(texts) if text not in known], dtype=np.int64)
    return pl.Series(keys, dtype=type_.polars).to_arrow(), unfit


def _decimals(values: list[Any], type_: DecimalType) -> tuple[pa.Array, Positions]:
    texts = decimal_texts(values)
    read = from_text(texts, type_)
    return read.to_arrow(), np.flatnonzero((read.is_null() & texts.is_not_null()).to_numpy()).astype(np.int64)


def decimal_texts(values: Sequence[msgspec.Raw | None]) -> pl.Series:
    """Return numbers as they are written, also in quotes; what has an escape keeps the quotes, so that it is none."""
    written = [None if value is None else bytes(value) for value in values]
    texts = pl.Series(written, dtype=pl.Binary).cast(pl.String)
    starts_quoted = texts.str.starts_with('"')
    if starts_quoted.any() or texts.str.starts_with("n").any():
        texts = texts.set(texts == "null", None)
        is_quoted = starts_quoted & ~texts.str.contains("\\", literal=True)
        texts = texts.str.slice(1, texts.str.len_chars() - 2).zip_with(is_quoted.fill_null(False), texts)
    return texts


def _each(values: list[Any], type_: Type) -> tuple[pa.Array, Positions]:
    """Turn values one by one."""
    done: list[Any] = []
    wrong: list[int] = []
    for place, value in enumerate(values):
        try:
            done.append(shaped(value, type_))
        except (ValueError, OverflowError):
            done.append(None)
            wrong.append(place)
    return pl.Series(done, dtype=type_.polars).to_arrow(), np.array(wrong, dtype=np.int64)


def _instants(values: list[Any]) -> pa.Array | None:
    """Read texts or whole microseconds; None if there are both, or some of an unusual form."""
    try:
        return usual_instants(_texts(values))
    except (TypeError, OverflowError):
        counts = _integers(values)
        is_known = counts is not None and _is_within(counts, _FIRST_INSTANT, _LAST_INSTANT)
        return pyarrow.compute.cast(counts, pa.timestamp("us")) if is_known else None


def usual_instants(texts: pa.Array | pa.ChunkedArray) -> Any:
    """Read times that all are a date, a time with seconds, and at most microseconds; None if one is something else.

    Z follows all or none. Arrow reads them ten times as fast as what reads all others. It would take shorter ones, too.
    """
    compute = pyarrow.compute
    shortest = compute.min(compute.binary_length(texts)).as_py()
    if shortest is None or shortest < _SHORTEST_INSTANT:
        return None
    if compute.all(compute.ends_with(texts, "Z")).as_py():
        texts = compute.utf8_slice_codeunits(texts, 0, -1)
    try:
        instants = compute.cast(texts, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return instants if _is_within(compute.cast(instants, pa.int64()), _FIRST_INSTANT, _LAST_INSTANT) else None


def _days(values: list[Any]) -> pa.Array | None:
    try:
        days = pyarrow.compute.cast(_texts(values), pa.date32())
    except pa.ArrowInvalid:
        return None
    return days if _is_within(pyarrow.compute.cast(days, pa.int32()), _FIRST_DAY, _LAST_INSTANT) else None


def _spans(values: list[Any]) -> pa.Array | None:
    counts = _integers(values)
    is_known = counts is not None and _is_within(counts, -_LONGEST_SPAN, _LONGEST_SPAN)
    return pyarrow.compute.cast(counts, pa.duration("us")) if is_known else None


_READERS: dict[DataType, Callable[[list[Any]], pa.Array | None]] = {
    Type.TIMESTAMP: _instants,
    Type.DATE: _days,
    Type.INTERVAL: _spans,
}


def _texts(values: list[Any]) -> pa.Array:
    """Return texts as an array; TypeError if some are none. Arrow itself would first import pandas."""
    return pl.Series(values, dtype=pl.String).to_arrow()


def _integers(values: list[Any]) -> pa.Array | None:
    try:
        return pl.Series(values, dtype=pl.Int64).to_arrow()
    except (TypeError, OverflowError):
        return None


def _is_within(counts: pa.Array | pa.ChunkedArray, first: int, last: int) -> bool:
    ends = pyarrow.compute.min_max(counts).as_py()
    return ends["min"] is None or (ends["min"] >= first and ends["max"] <= last)


def _offsets(lengths: list[int]) -> Positions:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.array(lengths, dtype=np.int64))])


def _owners(places: Positions, offsets: Positions) -> Positions:
    """Return which values hold the elements at some places."""
    return np.unique(np.searchsorted(offsets, places, side="right") - 1) if len(places) else places


def _joined(wrongs: list[Positions]) -> Positions:
    some = [wrong for wrong in wrongs if len(wrong)]
    return np.unique(np.concatenate(some)) if some else _NONE
