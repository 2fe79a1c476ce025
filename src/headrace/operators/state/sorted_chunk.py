"""A chunk of one side of a join, and the index that says what is in chunks so that they need not be looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from headrace.model.schema import EXPIRY, TS
from headrace.model.time import END
from headrace.operators.arrays import KEY, Array, Flags, Ints


class Extremes(NamedTuple):
    """What is known of a chunk's rows.

    `oldest` is a bound from below for the timestamps of those that have not come out.
    """

    rows: int
    min_ts: int
    min_exp: int
    max_exp: int
    min_key: int
    max_key: int
    oldest: int


class Cut(NamedTuple):
    """Rows sorted by key, and which of them have come out (None where that does not matter)."""

    rows: pl.DataFrame
    done: Flags | None

    def __len__(self) -> int:
        return self.rows.height


class Chunk:
    """Rows sorted by key; searched columns become arrays when first used, as most chunks of a large state are not.

    `stored` is what the store has of it: also the rows before the others that have left the chunk since.
    """

    __slots__ = (
        "__weakref__",
        "_bits",
        "_done",
        "_exp",
        "_extremes",
        "_keys",
        "_needed",
        "_oldest",
        "_ts",
        "name",
        "needed_columns",
        "rows",
        "stored",
    )

    def __init__(
        self,
        name: str,
        rows: pl.DataFrame,
        needed: tuple[str, ...],
        done: Flags | None,
        extremes: Extremes | None = None,
        stored: pl.DataFrame | None = None,
    ) -> None:
        self.name = name
        self.rows = rows
        self.stored = rows if stored is None else stored
        self.needed_columns = needed
        self._keys: Array | None = None
        self._ts: Ints | None = None
        self._exp: Ints | None = None
        self._needed: pl.DataFrame | None = None
        self._done = done
        self._bits: pl.DataFrame | None = None
        if extremes is None:
            ts, exp, keys = self.ts, self.exp, self.keys
            least = int(ts.min())
            extremes = Extremes(rows.height, least, int(exp.min()), int(exp.max()), int(keys[0]), int(keys[-1]), least)
        self._extremes = extremes
        self._oldest: int | None = None  # the place of the oldest row that has not come out, -1 if there is none

    def __len__(self) -> int:
        return self.rows.height

    @property
    def keys(self) -> Array:
        if self._keys is None:
            self._keys = self.rows[KEY].to_numpy()
        return self._keys

    @property
    def ts(self) -> Ints:
        if self._ts is None:
            self._ts = self.rows[TS].to_numpy()
        return self._ts

    @property
    def exp(self) -> Ints:
        if self._exp is None:
            self._exp = self.rows[EXPIRY].to_numpy()
        return self._exp

    @property
    def needed(self) -> pl.DataFrame:
        """The columns that a pair of tuples is made of."""
        if self._needed is None:
            self._needed = self.rows.select(self.needed_columns)
        return self._needed

    @property
    def min_ts(self) -> int:
        return self._extremes.min_ts

    @property
    def min_exp(self) -> int:
        return self._extremes.min_exp

    @property
    def max_exp(self) -> int:
        return self._extremes.max_exp

    @property
    def min_key(self) -> int:
        return self._extremes.min_key

    @property
    def max_key(self) -> int:
        return self._extremes.max_key

    @property
    def done(self) -> Flags | None:
        """Rows that have come out, matched or padded; None where that does not matter."""
        if self._done is None and self._bits is not None:
            self._done = np.unpackbits(self._bits["done"].to_numpy(), count=len(self)).astype(np.bool_)
        return self._done

    @property
    def is_preserved(self) -> bool:
        """Return whether the join needs to know which rows have come out."""
        return self._done is not None or self._bits is not None

    def cut(self, start: int, stop: int) -> Cut:
        """Return the rows from one place up to another."""
        done = self.done
        return Cut(self.rows[start:stop], None if done is None else done[start:stop])

    @property
    def skipped(self) -> int:
        """Return how many of the stored rows have left."""
        return self.stored.height - self.rows.height

    @property
    def is_cut(self) -> bool:
        return self.skipped > 0

    def rest(self, start: int) -> Chunk:
        """Return the chunk with the rows from a place on; what is stored stays as it is."""
        done = None if self.done is None else self.done[start:].copy()
        return Chunk(self.name, self.rows[start:], self.needed_columns, done, stored=self.stored)

    def mark(self, places: np.ndarray) -> None:
        """Note that these rows (by number or by flag) have come out."""
        done = self.done
        if done is not None and not done[places].all():
            done[places] = True
            self._bits = None

    @property
    def oldest_bound(self) -> int:
        """A cheap bound from below for `oldest_waiting`: rows only ever stop waiting."""
        return (
            self._extremes.oldest if self._oldest is None else END if self._oldest < 0 else int(self.ts[self._oldest])
        )

    def oldest_waiting(self) -> int:
        """Return the smallest timestamp of a row that has not come out, or END."""
        if not self.is_preserved or self.oldest_bound >= END:
            return END
        done = self.done
        assert done is not None
        if self._oldest is None or (self._oldest >= 0 and done[self._oldest]):
            waiting = np.flatnonzero(~done)
            self._oldest = int(waiting[np.argmin(self.ts[waiting])]) if len(waiting) else -1
        return END if self._oldest < 0 else int(self.ts[self._oldest])

    def bits(self) -> pl.DataFrame | None:
        """Return `done` as a state value, the same object as long as it says the same."""
        if self._bits is None and self._done is not None:
            self._bits = pl.DataFrame({"done": np.packbits(self._done)})
        return self._bits

    def restore_bits(self, bits: pl.DataFrame) -> None:
        self._done, self._bits = None, bits

    def extremes(self) -> Extremes:
        return self._extremes._replace(oldest=self.oldest_bound)


def write_index(chunks: Iterable[Chunk]) -> pl.DataFrame:
    """Return what is in these chunks, a row for each."""
    chunks = list(chunks)
    entries = [(chunk.name, *chunk.extremes()) for chunk in chunks]
    key = pl.UInt64 if max(chunk.max_key for chunk in chunks) >= 1 << 63 else pl.Int64
    schema = {"name": pl.String, **{field: key if field.endswith("key") else pl.Int64 for field in Extremes._fields}}
    return pl.DataFrame(entries, schema=schema, orient="row")


def read_index(index: pl.DataFrame | None) -> dict[str, Extremes]:
    """Return the entries of an index by the names of chunks."""
    return {} if index is None else {name: Extremes(*rest) for name, *rest in index.iter_rows()}
