"""A store of rows by key in a fixed number of slots: a page rewrites only the slots of its own keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from headrace.model.patterns.pattern import Pattern, without
from headrace.operators.arrays import Flags
from headrace.operators.expressions.hashing import hash_columns

_SLOTS = 32
#: Slot of a row, Int64.
SLOT = "__slot"


class Slots:
    """Rows whose key columns are `by`; without any, all are in one slot."""

    def __init__(self, prefix: str, by: Sequence[str]) -> None:
        self._prefix, self._by = prefix, list(by)
        self._slots: dict[int, pl.DataFrame] = {}

    def assign(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the column that says which slot a row belongs to."""
        if self._by and rows.height:
            slots = (hash_columns([rows[name] for name in self._by]) % np.uint64(_SLOTS)).astype(np.int64)
            return rows.with_columns(pl.Series(SLOT, slots))
        return rows.with_columns(pl.lit(0, pl.Int64).alias(SLOT))

    def of(self, slots: Iterable[int]) -> list[pl.DataFrame]:
        """Return the rows kept in these slots, with their slot."""
        return [self._slots[slot] for slot in slots if slot in self._slots]

    def replace(self, slots: Iterable[int], rows: pl.DataFrame) -> None:
        """Keep exactly these rows, which have a slot, in these slots."""
        parts = {int(part[SLOT][0]): part for part in rows.partition_by(SLOT, maintain_order=True)}
        for slot in slots:
            if slot in parts:
                self._slots[slot] = parts[slot]
            else:
                self._slots.pop(slot, None)

    def clear(self) -> None:
        """Drop all rows."""
        self._slots = {}

    def remove(self, pattern: Pattern) -> int:
        """Drop rows that match; returns how many."""
        before = len(self)
        kept = {slot: without(pattern, rows) for slot, rows in self._slots.items()}
        self._slots = {slot: rows for slot, rows in kept.items() if rows.height}
        return before - len(self)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        """Give up the rows that are chosen; None if there are none."""
        given: list[pl.DataFrame] = []
        for slot, rows in list(self._slots.items()):
            chosen = choose(rows)
            if chosen.any():
                given.append(rows.filter(chosen))
                self.replace([slot], rows.filter(~chosen))
        return pl.concat(given) if given else None

    def take(self, given: pl.DataFrame) -> None:
        """Go on with rows of keys that are not known here."""
        for part in given.partition_by(SLOT, maintain_order=True):
            slot = int(part[SLOT][0])
            self._slots[slot] = pl.concat([*self.of([slot]), part])

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"{self._prefix}.{slot}": rows for slot, rows in self._slots.items()}

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        """Take what `state` gave; names of others are ignored."""
        names = [name.partition(".") for name in state]
        self._slots = {int(slot): state[f"{prefix}.{slot}"] for prefix, _, slot in names if prefix == self._prefix}

    def rows(self) -> Iterable[pl.DataFrame]:
        return self._slots.values()

    def __len__(self) -> int:
        return sum(rows.height for rows in self._slots.values())
