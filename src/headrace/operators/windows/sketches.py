"""Percentiles and counts of different values whose state has a bound, however many tuples there are.

Both are exact as long as a group is small. What they keep of a large group is coarser: values of which the first seven
binary digits are the same are taken for one value; of different values only the registers of a HyperLogLog are kept.
When a group is large depends on its values alone, and coarsening twice is coarsening once. So the result is the same
however the tuples were divided into pages, tasks and panes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headrace.model.digits import from_integers
from headrace.model.expressions.expression import Literal
from headrace.model.sketch import DIFFERENT_VALUES, DIGITS, INDEX_BITS, VALUES, estimate
from headrace.model.types import DecimalType, Type
from headrace.model.window import AggregateCall
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.windows.parts import Part, Split, gathered

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
#: Bits of a DOUBLE that are dropped: all but the sign, the exponent and the digits after the first.
_DROPPED = 52 - (DIGITS - 1)
#: Marks what is a hash, and no register yet.
_HASH = 1 << 62
_REST_BITS = 62 - INDEX_BITS


def approximate_percentile(call: AggregateCall, arg: str) -> Split:
    """Keep all values; of a large group how often each beginning of a value occurs.

    An entry is a value, or what values begin with, and how many there are. Entries are put together when a list is
    long, and at the end.
    """
    assert call.arg is not None
    name, (fraction,) = f"{arg}_values_sketch", call.more
    share = float(fraction.value or 0.0) if isinstance(fraction, Literal) else 0.0
    is_float = call.arg.type in (Type.FLOAT, Type.DOUBLE)
    x = pl.col(arg).cast(pl.Float64) if is_float else pl.col(arg).to_physical().cast(pl.Int64)
    entry = pl.struct(x.alias("key"), pl.lit(1, pl.Int64).alias("n")).filter(pl.col(arg).is_not_null())

    def finish(lists: pl.Series) -> pl.Series:
        reached = _reached(_together(_exploded(lists)), len(lists), share)
        keys, is_coarse = reached["key"].to_numpy(), (reached["total"] > VALUES).to_numpy()
        values = (_middle_of_floats(keys, is_coarse) if is_float else _middle_of_ints(keys, is_coarse)).tolist()
        held = [None if total == 0 else value for value, total in zip(values, reached["total"], strict=True)]
        if isinstance(call.type, DecimalType):
            return from_integers(held, call.type)
        return pl.Series(lists.name, held, dtype=call.type.polars)

    part = Part(name, entry, gathered(name), _shortened, _shortened)
    return Split((part,), pl.col(name).map_batches(finish, return_dtype=call.type.polars, is_elementwise=True))


def approximate_count_distinct(arg: str) -> Split:
    """Keep the hashes of different values; of a large group the registers that they give."""
    name = f"{arg}_registers"
    hashes = pl.col(arg).map_batches(_hashes, return_dtype=pl.Int64, is_elementwise=True)
    part = Part(name, hashes.filter(pl.col(arg).is_not_null()).unique(), gathered(name).unique(), _fewer, _fewer)

    def finish(lists: pl.Series) -> pl.Series:
        has_registers = (lists.list.min() < _HASH).fill_null(value=False)
        if not has_registers.any():
            return lists.list.len().cast(pl.Int64)
        counts = [_count(held) for held in _registers(_exploded(lists), len(lists))]
        return pl.Series(lists.name, counts, dtype=pl.Int64)

    return Split((part,), pl.col(name).map_batches(finish, return_dtype=pl.Int64, is_elementwise=True))


def _exploded(lists: pl.Series) -> pl.DataFrame:
    """Return the elements of lists, each with the number of its list."""
    groups = pl.int_range(len(lists), dtype=pl.Int64, eager=True)
    return pl.DataFrame({"group": groups, "x": lists}).explode("x", empty_as_null=False, keep_nulls=False)


def _with_changed(lists: pl.Series, most: int, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return lists of which those with more than `most` elements are changed."""
    is_long = lists.list.len() > most
    if not is_long.any():
        return lists
    places = is_long.arg_true()
    whole = pl.concat([lists, change(lists.filter(is_long)).cast(lists.dtype)])
    order = pl.int_range(len(lists), eager=True).scatter(places, range(len(lists), len(whole)))
    return whole[order].alias(lists.name)


def _shortened(lists: pl.Series) -> pl.Series:
    """Put the entries of long lists together."""
    return _with_changed(
        lists, VALUES, lambda long: _lists(_together(_exploded(long)).select("group", pl.struct("key", "n")), len(long))
    )


def _together(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the keys of each group with how often they occur, in order; those of large groups are made coarser."""
    rows = rows.unnest("x")
    large = rows.select(pl.col("n").sum().over("group") > VALUES).to_series()
    if large.any():
        keys = rows["key"].to_numpy()
        coarse = _coarser_floats(keys) if keys.dtype == np.float64 else _coarser_ints(keys)
        rows = rows.with_columns(key=pl.Series(np.where(large.to_numpy(), coarse, keys)))
    return rows.group_by("group", "key").agg(pl.col("n").sum()).sort("group", "key")


def _lists(rows: pl.DataFrame, groups: int) -> pl.Series:
    """Return the second column as one list for each group, NULL if it has none."""
    held = rows.group_by("group", maintain_order=True).agg(pl.col(rows.columns[1]).alias("held"))
    every = pl.DataFrame({"group": pl.int_range(groups, dtype=pl.Int64, eager=True)})
    return every.join(held, on="group", how="left", maintain_order="left")["held"]


def _reached(rows: pl.DataFrame, groups: int, share: float) -> pl.DataFrame:
    """Return the key that reaches a share of each group, and how many values the group has."""
    total, seen = pl.col("n").sum().over("group"), pl.col("n").cum_sum().over("group")
    place = (total.cast(pl.Float64) * share).ceil().cast(pl.Int64).clip(lower_bound=1)
    found = (
        rows.with_columns(total=total, seen=seen, place=place)
        .filter(pl.col("seen") >= pl.col("place"))
        .group_by("group", maintain_order=True)
        .first()
    )
    every = pl.DataFrame({"group": pl.int_range(groups, dtype=pl.Int64, eager=True)})
    return every.join(found, on="group", how="left", maintain_order="left").fill_null(0)


def _coarser_floats(values: _Floats) -> _Floats:
    bits = values.view(np.int64) & ~np.int64((1 << _DROPPED) - 1)  # toward zero
    return np.where(np.isfinite(values), bits.view(np.float64), values)


def _middle_of_floats(values: _Floats, is_coarse: NDArray[np.bool_]) -> _Floats:
    """Return the middle of the values that a coarse one stands for."""
    middle = (values.view(np.int64) | np.int64(1 << (_DROPPED - 1))).view(np.float64)
    return np.where(is_coarse & np.isfinite(values) & (values != 0.0), middle, values)


def _width(magnitude: _Floats) -> _Ints:
    """Return how many whole numbers have the same first digits."""
    _, digits = np.frexp(magnitude)
    width: _Ints = np.left_shift(np.int64(1), np.maximum(digits - DIGITS, 0).astype(np.int64))
    return width


def _magnitude(values: _Ints) -> _Floats:
    return np.minimum(np.abs(values.astype(np.float64)), np.nextafter(2.0**63, 0.0))


def _coarser_ints(values: _Ints) -> _Ints:
    magnitude = _magnitude(values)
    width = _width(magnitude)
    kept = magnitude.astype(np.int64) // width * width
    return np.where(values < 0, -kept, kept)


def _middle_of_ints(values: _Ints, is_coarse: NDArray[np.bool_]) -> _Ints:
    half = _width(_magnitude(values)) // 2
    return np.where(is_coarse, np.where(values < 0, values - half, values + half), values)


def _hashes(values: pl.Series) -> pl.Series:
    return pl.Series(values.name, (hash_columns([values]) >> np.uint64(2)).astype(np.int64) | np.int64(_HASH))


def _fewer(lists: pl.Series) -> pl.Series:
    """Turn the hashes of long lists into registers."""
    return _with_changed(lists, DIFFERENT_VALUES, lambda long: _registers(_exploded(long), len(long)))


def _registers(rows: pl.DataFrame, groups: int) -> pl.Series:
    """Return the different codes of each group; hashes of large groups become registers."""
    code = pl.col("x")
    large = rows.select(((pl.len() > DIFFERENT_VALUES) | (code.min() < _HASH)).over("group")).to_series()
    codes = rows["x"].to_numpy()
    coarse = rows.with_columns(x=pl.Series(np.where(codes >= _HASH, _register(codes), codes))).filter(large)
    greatest = coarse.group_by("group", register=code // 64).agg(code.max()).select("group", "x")
    return _lists(pl.concat([rows.filter(~large), greatest]).sort("group", "x"), groups)


def _register(hashes: _Ints) -> _Ints:
    """Return the register of a hash, and the place of the first 1 in the rest of its bits, as one number."""
    body = hashes & np.int64(_HASH - 1)
    rest = body & np.int64((1 << _REST_BITS) - 1)
    _, digits = np.frexp(rest.astype(np.float64))
    return (body >> np.int64(_REST_BITS)) * 64 + (_REST_BITS + 1 - digits.astype(np.int64))


def _count(held: pl.Series | None) -> int:
    codes = np.empty(0, np.int64) if held is None else held.to_numpy()
    if not len(codes) or codes[0] >= _HASH:
        return len(codes)
    return estimate(np.bincount(codes % 64, minlength=_REST_BITS + 2).tolist(), 2**INDEX_BITS)
