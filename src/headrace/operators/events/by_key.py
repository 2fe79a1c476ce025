"""Tuples of several parts in the order in which a detection looks at them: by key, and by time within a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from headrace.model.schema import TS
from headrace.model.types import DataType
from headrace.operators.arrays import Ints
from headrace.operators.events.histories import Key
from headrace.operators.events.inputs import KEYS
from headrace.operators.events.occurrence import Occurrence, Occurrences, Row
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.joins.sequence_match import number_rows


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The tuples of one key: their instants, parts and themselves, instants rising, parts of one instant in order."""

    key: Key
    hash: int
    instants: Sequence[int]
    parts: Sequence[int]
    tuples: Occurrences

    def together(self) -> dict[int, dict[int, Occurrences]]:
        """Return the tuples by instant and part."""
        by_instant: dict[int, dict[int, Occurrences]] = {}
        for now, part, occurrence in zip(self.instants, self.parts, self.tuples, strict=True):
            by_instant.setdefault(now, {}).setdefault(part, []).append(occurrence)
        return by_instant


def arrivals(
    taken: Sequence[tuple[int, pl.DataFrame]],
    kept: Sequence[Sequence[str]],
    keys: Sequence[str],
    since: Sequence[pl.Expr | None],
    *,
    point: bool,
) -> Iterator[Arrivals]:
    """Group the tuples of parts by their keys; of a part, tuples are in order of arrival.

    `kept` are the columns of each part that are looked at; `since` says when its tuples began if not at their
    timestamps, which `point` hides.
    """
    if not taken:
        return
    tuples: Occurrences = []
    for part, rows in taken:
        values: Sequence[tuple[Any, ...]] = (
            rows.select(pl.col(kept[part]).to_physical()).rows() if kept[part] else [()] * rows.height
        )
        stamped, begin = rows[TS].to_list(), since[part]
        if begin is None:
            tuples += [Occurrence(ts, ts, ts, (Row(part, ts, row),)) for ts, row in zip(stamped, values, strict=True)]
        else:
            begun = rows.select(begin).to_series().to_list()
            lasting = zip(stamped, begun, values, strict=True)
            tuples += [
                Occurrence(ts if point else first, ts, first, (Row(part, ts, row),)) for ts, first, row in lasting
            ]
    stamps = np.concatenate([rows[TS].to_numpy() for _, rows in taken])
    numbers = np.concatenate([np.full(rows.height, part) for part, rows in taken])
    named = pl.concat([rows.select(keys) for _, rows in taken]) if keys else None
    groups = np.zeros(len(stamps), np.int64) if named is None else _groups(named)
    order = np.lexsort((numbers, stamps, groups))
    groups = groups[order]
    begins = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]])).tolist()
    instants, parts = stamps[order].tolist(), numbers[order].tolist()
    tuples = list(map(tuples.__getitem__, order.tolist()))
    key_values, hashes = [()], [0]
    if named is not None:
        firsts = named[pl.Series(order[begins].astype(np.uint32))]
        key_values = list(map(comparable, firsts.select(pl.col(keys).to_physical()).rows()))
        hashes = hash_columns(firsts.get_columns()).tolist()
    for key, hashed, start, stop in zip(key_values, hashes, begins, [*begins[1:], len(instants)], strict=True):
        yield Arrivals(key, hashed, instants[start:stop], parts[start:stop], tuples[start:stop])


def comparable(key: Key) -> Key:
    """Return a key that equals itself, which NaN does not, and is written in one way, which zero is not."""
    return tuple(
        "NaN" if value != value else 0.0 if value == 0 and isinstance(value, float) else value for value in key
    )


def key_columns(keys: Sequence[Key], types: Sequence[DataType]) -> pl.DataFrame:
    """Return keys as columns again, under the names that `Inputs` gives them; the frame has a row for each."""
    columns = [pl.int_range(len(keys), dtype=pl.Int64, eager=True).alias("__row")]
    for i, type_ in enumerate(types):
        dtype = type_.polars
        values = [key[i] for key in keys]
        if isinstance(dtype, pl.Decimal):
            column = pl.Series([Decimal(value).scaleb(-dtype.scale) for value in values], dtype=dtype)
        elif dtype.is_float():
            column = pl.Series([float(value) for value in values], dtype=dtype)  # NaN is kept as its name
        else:
            column = pl.Series(values, dtype=pl.Series([], dtype=dtype).to_physical().dtype).cast(dtype)
        columns.append(column.alias(KEYS.format(i)))
    return pl.DataFrame(columns)


def _groups(keys: pl.DataFrame) -> Ints:
    """Return numbers that are equal iff the keys are."""
    if keys.width == 1 and keys.dtypes[0].is_integer():
        return keys.to_series().cast(pl.Int64).to_numpy()
    return number_rows(keys)
