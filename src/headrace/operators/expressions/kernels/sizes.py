"""How large values are, and NULL in place of those that have grown too large: the next function would double them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.model.expressions.expression import Call
from headrace.model.limits import GROWN_ARRAY, GROWN_TEXT
from headrace.model.types import is_nested

Counts: TypeAlias = npt.NDArray[np.int64]

#: Functions whose value may be larger than all of their arguments together.
_GROWING = frozenset(
    {
        *("||", "concat_ws", "replace", "regexp_replace", "array_join", "hex", "base64", "encode", "to_json"),
        *("transform", "zip_with", "transform_values", "transform_keys"),
    }
)
#: Functions whose value holds their arguments: it grows from call to call if these are nested.
_HOLDING = frozenset(
    {"array", "array_append", "array_union", "flatten", "map", "map_concat", "map_from_arrays", "named_struct"}
)
#: So many bytes of text count as one element.
_BYTES = GROWN_TEXT // GROWN_ARRAY


def with_limit(call: Call, value: pl.Expr) -> pl.Expr:
    """Return the value of a call, NULL where it is too large."""
    is_holding = call.function in _HOLDING and any(is_nested(arg.type) for arg in call.args)
    if call.function not in _GROWING and not is_holding:
        return value
    return value.map_batches(limited, return_dtype=call.type.polars, is_elementwise=True)


def limited(values: pl.Series) -> pl.Series:
    """Return values with NULL for those that are too large."""
    bytes_ = values.estimated_size()
    if bytes_ <= GROWN_ARRAY // 8:  # an element has a bit at least
        return values
    match values.dtype:
        case pl.String() | pl.Binary() if bytes_ <= GROWN_TEXT:
            return values
        case pl.String():
            lengths, most = values.str.len_bytes(), GROWN_TEXT
        case pl.Binary():
            lengths, most = values.bin.size(), GROWN_TEXT
        case dtype if dtype.is_nested():
            lengths, most = pl.Series(sizes(values)), GROWN_ARRAY
        case _:
            return values
    if int(lengths.max() or 0) <= most:  # type: ignore[arg-type]
        return values
    return pl.select(pl.when(lengths <= most).then(values)).to_series().alias(values.name)


def sizes(values: pl.Series) -> Counts:
    """Return how many elements each value has, with those in its elements; texts count by their length."""
    match values.dtype:
        case pl.String():
            return _counts(values.str.len_bytes() // _BYTES)
        case pl.Binary():
            return _counts(values.bin.size() // _BYTES)
        case pl.List():
            lengths = _counts(values.list.len())
            if not _has_size(values.dtype.inner):
                return lengths
            rows = np.repeat(np.arange(len(values)), lengths)
            inner = sizes(values.filter(pl.Series(lengths > 0)).explode())
            return lengths + np.bincount(rows, inner, len(values)).astype(np.int64)
        case pl.Map():
            maps = values.to_frame("m")
            parts = (maps.select(part).to_series() for part in (pl.col("m").map.keys(), pl.col("m").map.values()))
            return _total(values, [sizes(part) for part in parts])
        case pl.Struct(fields=fields):
            return _total(values, [sizes(values.struct.field(field.name)) for field in fields])
        case _:
            return _total(values, [])


def _total(values: pl.Series, parts: list[Counts]) -> Counts:
    total = np.zeros(len(values), np.int64)
    for part in parts:
        total += part
    return total


def _has_size(dtype: object) -> bool:
    return isinstance(dtype, pl.String | pl.Binary | pl.List | pl.Map | pl.Struct)


def _counts(lengths: pl.Series) -> Counts:
    return lengths.fill_null(0).cast(pl.Int64).to_numpy()


__all__ = ["limited", "sizes", "with_limit"]
