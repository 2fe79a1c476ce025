"""ARRAY, MAP and STRUCT: making them, and the values in them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import polars as pl

from headrace.model.json_columns import columns_of, decode_all, kind_of, series_of
from headrace.model.limits import SEQUENCE
from headrace.model.nested_values import json_of, read_json, shaped
from headrace.model.time import DAY
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type, is_nested
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, Rows, rows

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (TIMESTAMP is kept without zone)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
#: So many texts are read at a time: few enough for the caches of a processor.
_PART = 2048


def _field(args: Arguments) -> pl.Expr:
    return args.compiled[0].struct.field(str(args.text(1)))


def _item(args: Arguments) -> pl.Expr:
    """Return x[i], from 0, or the value of a key."""
    held = args.types[0]
    if isinstance(held, MapType):
        return _value_of(args, held)
    at = args.get(1, Type.BIGINT)
    return args.compiled[0].list.get(pl.when(at >= 0).then(at), null_on_oob=True)


def _element_at(args: Arguments) -> pl.Expr:
    """Return the element at a place from 1, or from the end if it is negative."""
    held = args.types[0]
    if isinstance(held, MapType):
        return _value_of(args, held)
    at = args.get(1, Type.BIGINT)
    place = pl.when(at > 0).then(at - 1).when(at < 0).then(at)
    return args.compiled[0].list.get(place, null_on_oob=True)


def _value_of(args: Arguments, held: MapType) -> pl.Expr:
    key = args.get(1, held.key)
    if isinstance(held.key, DecimalType) or is_nested(held.key):
        return rows(lambda values, wanted: values.get(wanted), args)
    return pl.when(key.is_not_null()).then(args.compiled[0].map.get(key))


def _struct(args: Arguments) -> pl.Expr:
    assert isinstance(args.call.type, StructType)
    names = [name for name, _ in args.call.type.fields]
    return pl.struct([args.compiled[2 * i + 1].alias(name) for i, name in enumerate(names)])


def _array(args: Arguments) -> pl.Expr:
    assert isinstance(args.call.type, ArrayType)
    element = args.call.type.element
    if not args.compiled or not isinstance(element, Type):  # Polars would join ARRAYs instead of holding them
        return rows(lambda *values: list(values), args, skip_null=False)
    return pl.concat_list([args.get(place, element) for place in range(len(args))])


def _map(*values: Any) -> dict[Any, Any] | None:
    keys = values[::2]
    return None if None in keys else dict(zip(keys, values[1::2], strict=True))


def _map_from_arrays(keys: list[Any], values: list[Any]) -> dict[Any, Any] | None:
    return None if len(keys) != len(values) or None in keys else dict(zip(keys, values, strict=True))


def _map_concat(*maps: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for held in maps for key, value in held.items()}


def _sequence(args: Arguments) -> pl.Expr:
    """Return the numbers, days or instants from one to another."""
    assert isinstance(args.call.type, ArrayType)
    element = args.call.type.element
    usual = 1 if element is Type.BIGINT else DAY
    part = DAY if element is Type.DATE else 1  # of a step, in units of the elements

    def apply(held: pl.Series) -> pl.Series:
        ends = [held.struct.field(str(i)).to_physical().to_list() for i in range(2)]
        steps = held.struct.field("2").to_physical().to_list() if len(args) == 3 else [None] * len(held)
        values = [
            None
            if first is None or last is None or (step is None and len(args) == 3)
            else steps_between(first, last, (usual if first <= last else -usual) if step is None else step, part)
            for first, last, step in zip(*ends, steps, strict=True)
        ]
        physical = pl.List(pl.Int32() if element is Type.DATE else pl.Int64())
        return pl.Series(values, dtype=physical).cast(args.call.type.polars)

    columns = [args.get(i, element).alias(str(i)) for i in range(2)]
    if len(args) == 3:
        columns.append(args.compiled[2].alias("2"))
    return pl.struct(columns).map_batches(apply, return_dtype=args.call.type.polars, is_elementwise=True)


def steps_between(first: int, last: int, step: int, part: int) -> list[int] | None:
    """Return the numbers from `first` to `last`; None if the step does not lead there, or leads to too many."""
    if step % part or (first != last and (step == 0 or (last > first) != (step > 0))):
        return None
    step = step // part or 1
    if abs(last - first) // abs(step) >= SEQUENCE:
        return None
    return list(range(first, last + (1 if step > 0 else -1), step))


def _cut(values: list[Any], start: int, length: int) -> list[Any] | None:
    """slice(x, start, length): start from 1, or from the end if it is negative."""
    first = start - 1 if start > 0 else len(values) + start
    return None if start == 0 or length < 0 else values[first : first + length] if first >= 0 else []


def _contains(values: list[Any], wanted: Any) -> bool | None:
    if wanted in values:
        return True
    return None if None in values else False


def _append(values: list[Any] | None, added: Any) -> list[Any] | None:
    return None if values is None else [*values, added]


def _position(values: list[Any], wanted: Any) -> int:
    return values.index(wanted) + 1 if wanted in values else 0


def _union(left: list[Any], right: list[Any]) -> list[Any]:
    return _once([*left, *right])


def _intersection(left: list[Any], right: list[Any]) -> list[Any]:
    return _once([value for value in left if value in right])


def _difference(left: list[Any], right: list[Any]) -> list[Any]:
    return _once([value for value in left if value not in right])


def _once(values: list[Any]) -> list[Any]:
    once: list[Any] = []
    for value in values:
        if value not in once:
            once.append(value)
    return once


def _overlap(left: list[Any], right: list[Any]) -> bool | None:
    if any(value is not None and value in right for value in left):
        return True
    return None if left and right and (None in left or None in right) else False


def _flat(values: list[list[Any] | None]) -> list[Any] | None:
    known = [value for value in values if value is not None]
    return None if len(known) < len(values) else [item for value in known for item in value]


def _join(values: list[str | None], separator: str, instead: str | None = None) -> str:
    present = [instead if value is None else value for value in values]
    return separator.join(value for value in present if value is not None)


def _sort_array(args: Arguments) -> pl.Expr:
    """Sort with NULL first, or the other way round if the second argument says so."""
    up = args.compiled[0].list.sort(nulls_last=False)
    if len(args) == 1:
        return up
    down = args.compiled[0].list.sort(descending=True, nulls_last=True)
    return pl.when(args.compiled[1]).then(up).when(~args.compiled[1]).then(down)


def _size(args: Arguments) -> pl.Expr:
    held = args.compiled[0]
    return (held.map.len() if isinstance(args.types[0], MapType) else held.list.len()).cast(pl.Int64)


def _split(args: Arguments) -> pl.Expr:
    """Split at what a regular expression matches; empty texts at the end stay, unlike in Java."""
    pattern, limit = args.text(1), args.number(2) if len(args) == 3 else -1
    if pattern is None or limit is None:
        return args.null()
    if limit <= 0 and pattern and re.escape(pattern) == pattern:
        return args.compiled[0].str.split(pattern)
    search = re.compile(pattern)
    return rows(lambda text, *_: split_text(text, search, limit), args)


def split_text(text: str, pattern: re.Pattern[str], limit: int) -> list[str]:
    """Split as Spark does: a match of nothing at the start splits nothing off, the empty pattern nothing at the end."""
    parts: list[str] = []
    begin = 0
    for match in pattern.finditer(text):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0 or (not pattern.pattern and match.start() == len(text)):
            continue
        parts.append(text[begin : match.start()])
        begin = match.end()
    return [*parts, text[begin:]]


def _to_json(args: Arguments) -> pl.Expr:
    type_ = args.types[0]
    return rows(lambda value: json_text(value, type_), args)


def json_text(value: Any, type_: DataType) -> str:
    """Write a value as Spark does: fields that are NULL are left out. Times are numbers."""
    return _ENCODER.encode(_known(json_of(_timed(value, type_), type_), type_)).decode()


def _timed(value: Any, type_: DataType) -> Any:
    """Return a value with Python's times in place of numbers; those before year 1 and after year 9999 are NULL."""
    if value is None:
        return None
    match type_:
        case Type.DATE | Type.TIMESTAMP:
            try:
                instant = _EPOCH + datetime.timedelta(microseconds=value * (DAY if type_ is Type.DATE else 1))
            except OverflowError:
                return None
            return instant.date() if type_ is Type.DATE else instant
        case Type.INTERVAL:
            return datetime.timedelta(microseconds=value)
        case ArrayType(element=element):
            return [_timed(item, element) for item in value]
        case MapType(key=key, of=kind):
            return {_timed(name, key): _timed(item, kind) for name, item in value.items()}
        case StructType(fields=fields):
            return {name: _timed(value[name], kind) for name, kind in fields}
        case _:
            return value


def _known(value: Any, type_: DataType) -> Any:
    match type_:
        case StructType(fields=fields) if value is not None:
            return {name: _known(value[name], kind) for name, kind in fields if value[name] is not None}
        case ArrayType(element=element) if value is not None:
            return [_known(item, element) for item in value]
        case MapType(of=kind) if value is not None:
            return {key: _known(item, kind) for key, item in value.items()}
        case _:
            return value


def _from_json(args: Arguments) -> pl.Expr:
    type_ = args.call.type
    return args.compiled[0].map_batches(
        lambda texts: parse_all(texts, type_), return_dtype=type_.polars, is_elementwise=True
    )


def parse_all(texts: pl.Series, type_: DataType) -> pl.Series:
    """Read JSON texts as values of a type, those that are unusual or do not fit one by one."""
    parts = [_parsed(texts[start : start + _PART], type_) for start in range(0, max(len(texts), 1), _PART)]
    return pl.concat(parts)


def _parsed(texts: pl.Series, type_: DataType) -> pl.Series:
    decode, columns, held = _decoder(type_).decode, columns_of(type_), texts.to_list()

    def decoded(text: str | None) -> Any:
        if text is None:
            return None
        value = decode(text)
        if value is None:
            raise ValueError("NULL is not what a text with null gives")
        return value

    refused = decode_all(held, decoded, columns.add, None)
    series, wrong = series_of(columns)
    rest = sorted({*refused, *wrong.tolist()})
    if not rest:
        return series
    single = [None if (text := held[place]) is None else parse_json(text, type_) for place in rest]
    order = np.arange(len(held))
    order[rest] = len(held) + np.arange(len(rest))
    return pl.concat([series, pl.Series(single, dtype=type_.polars)]).gather(order)


@lru_cache(maxsize=64)
def _decoder(type_: DataType) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind_of(type_))


def parse_json(text: str, type_: DataType) -> Any:
    """Read a JSON text as a value of a type; what does not fit is NULL, as in Spark."""
    nothing = dict.fromkeys(name for name, _ in type_.fields) if isinstance(type_, StructType) else None
    try:
        value = _fitting(read_json(text), type_)
    except (ValueError, RecursionError):
        return nothing if text.strip() else None
    return nothing if value is None else value


def _fitting(value: Any, type_: DataType) -> Any:
    match type_:
        case StructType(fields=fields):
            if not isinstance(value, dict):
                return None
            return {name: _fitting(value.get(name), kind) for name, kind in fields}
        case ArrayType(element=element):
            return [_fitting(item, element) for item in value] if isinstance(value, list) else None
        case MapType(key=key, of=kind):
            if not isinstance(value, dict):
                return None
            entries = shaped(dict.fromkeys(value), MapType(key, Type.NULL))
            return {name: _fitting(item, kind) for name, item in zip(entries, value.values(), strict=True)}
        case Type.STRING if value is not None and not isinstance(value, str):
            try:
                return _ENCODER.encode(value).decode()
            except TypeError:  # a number beyond what Python reads
                return None
        case Type.FLOAT | Type.DOUBLE if isinstance(value, Decimal):
            return float(value)
        case _:
            try:
                return shaped(value, type_)
            except (ValueError, OverflowError):
                return None


def _rows(function: Rows, *, skip_null: bool = True) -> Kernel:
    return lambda args: rows(function, args, skip_null=skip_null)


def _largest(x: pl.Expr, type_: DataType) -> pl.Expr:
    """Return the largest element; NaN is the largest number."""
    if not isinstance(type_, ArrayType) or type_.element not in (Type.FLOAT, Type.DOUBLE):
        return x.list.max()
    nan = pl.lit(float("nan"), dtype=type_.element.polars)
    return pl.when(x.list.eval(pl.element().is_nan()).list.any()).then(nan).otherwise(x.list.max())


def _of_array(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.compiled[0])


NESTED: dict[str, Kernel] = {
    "field": _field,
    "item": _item,
    "element_at": _element_at,
    "array": _array,
    "named_struct": _struct,
    "map": _rows(_map, skip_null=False),
    "map_from_arrays": _rows(_map_from_arrays),
    "size": _size,
    "array_contains": _rows(_contains),
    "array_position": _rows(_position),
    "array_append": lambda args: rows(_append, args, skip_null=False),
    "array_remove": _rows(lambda values, wanted: [value for value in values if value not in (wanted,)]),
    "array_distinct": _rows(_once),
    "array_union": _rows(_union),
    "array_intersect": _rows(_intersection),
    "array_except": _rows(_difference),
    "arrays_overlap": _rows(_overlap),
    "array_sort": _of_array(lambda x: x.list.sort(nulls_last=True)),
    "sort_array": _sort_array,
    "array_min": _of_array(lambda x: x.list.min()),
    "array_max": lambda args: _largest(args.compiled[0], args.types[0]),
    "array_join": _rows(_join),
    "slice": _rows(_cut),
    "flatten": _rows(_flat),
    "sequence": _sequence,
    "map_concat": _rows(_map_concat),
    "map_keys": _of_array(lambda x: x.map.keys()),
    "map_values": _of_array(lambda x: x.map.values()),
    "map_contains_key": _rows(lambda values, key: key in values),
    "split": _split,
    "to_json": _to_json,
    "from_json": _from_json,
}
