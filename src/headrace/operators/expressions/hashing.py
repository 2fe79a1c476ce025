"""A hash of column values that is the same in every process and every version.

Buckets and sorted join state depend on it, and both outlive a restart, so the libraries' own hashes (free to change)
will not do.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import polars as pl

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0x6A09E667F3BCC908)
#: The hashes of so many texts are remembered, if these are short: the same ones come again in every page.
_REMEMBERED, _SHORT = 1 << 16, 64


def hash_columns(columns: list[pl.Series]) -> np.ndarray:
    """Return one uint64 per row, given at least one column; equal rows (NULL equal to NULL) hash alike."""
    result: np.ndarray = _hash(columns[0])
    for column in columns[1:]:
        result = _mix(result * np.uint64(31) + _GOLDEN ^ _hash(column))
    return result


def _mix(x: np.ndarray) -> np.ndarray:
    # splitmix64's finalizer
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _hash(column: pl.Series) -> np.ndarray:
    dtype = column.dtype
    if dtype in (pl.String, pl.Binary):
        distinct = column.unique()
        codes = _digests(distinct)
        if len(distinct) == 1:
            return np.full(len(column), codes[0])
        joined = pl.DataFrame({"v": column}).join(
            pl.DataFrame({"v": distinct, "h": pl.Series(codes)}),
            on="v",
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        return joined["h"].to_numpy()
    if dtype.is_nested():
        return np.array(
            [_digest(None if value is None else repr(_normal(value))) for value in column.to_list()], np.uint64
        )
    if dtype in (pl.Float32, pl.Float64):
        floats = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        bits = (floats + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    else:
        column = _folded(column) if dtype == pl.Decimal else column
        bits = _whole_numbers(column).view(np.uint64)
    mixed = _mix(bits + _GOLDEN)
    if column.null_count():
        mixed = np.where(column.is_null().to_numpy(), _NULL, mixed)
    return mixed


def _whole_numbers(column: pl.Series) -> np.ndarray:
    """Return values that are whole numbers inside, 0 for NULL."""
    numbers = column if column.dtype == pl.Int64 else column.to_physical().cast(pl.Int64)
    return (numbers.fill_null(0) if numbers.null_count() else numbers).to_numpy()


def _folded(column: pl.Series) -> pl.Series:
    """Return the digits of DECIMALs, those beyond 63 bits folded into the others."""
    x, part = pl.col("x"), pl.lit(2**63, dtype=pl.Int128)
    digits = pl.DataFrame({"x": column.to_physical().cast(pl.Int128)})
    halves = digits.select(low=(x % part).cast(pl.Int64), high=(x // part).cast(pl.Int64))
    folded = halves["low"].fill_null(0).to_numpy() ^ (halves["high"].fill_null(0).to_numpy() * np.int64(31))
    return pl.Series(folded).set(column.is_null(), None)


def _normal(value: object) -> object:
    """Return a value such that equal ones are written alike."""
    match value:
        case float():
            return value + 0.0
        case list():
            return [_normal(item) for item in value]
        case dict():
            return {name: _normal(item) for name, item in value.items()}
        case _:
            return value


def _digests(distinct: pl.Series) -> np.ndarray:
    """Return the digest of each of several different values."""
    if len(distinct) <= _REMEMBERED // 4:
        return np.array([_known_digest(value) for value in distinct.to_list()], dtype=np.uint64)
    # to remember so many would take as long as to compute them, and forget those that come again
    known = distinct.cast(pl.Binary).fill_null(b"").to_list()
    digest = hashlib.blake2b
    codes = np.frombuffer(b"".join([digest(value, digest_size=8).digest() for value in known]), dtype="<u8")
    return np.where(distinct.is_null().to_numpy(), _NULL, codes) if distinct.null_count() else codes


def _known_digest(value: str | bytes | None) -> int:
    return _digest(value) if value is not None and len(value) > _SHORT else _short_digest(value)


@lru_cache(maxsize=_REMEMBERED)
def _short_digest(value: str | bytes | None) -> int:
    return _digest(value)


def _digest(value: str | bytes | None) -> int:
    if value is None:
        return int(_NULL)
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
