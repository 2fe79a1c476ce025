"""A chunk of one side of a join, and the index that says what is in chunks so that they need not be looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from headrace.model.schema import EXPIRY, TS
from headrace.model.time import END
from headrace.operators.arrays import KEY, Array, Flags, Ints, gather


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


#: The expiry of a row that has left its chunk: it meets nothing, whatever comes.
_LEFT = int(np.iinfo(np.int64).min)


class Chunk:
    """Rows sorted by key; searched columns become arrays when first used, as most chunks of a large state are not.

    `stored` is what the store has of it: also the rows before the others that have left the chunk since. Rows in
    between that have left are `gone`: they keep their places, and no search meets them.
    """

    __slots__ = (
        "__weakref__",
        "_bits",
        "_done",
        "_exp",
        "_extremes",
        "_gone",
        "_gone_bits",
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
        gone: Flags | None = None,
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
        self._gone = gone
        self._gone_bits: pl.DataFrame | None = None
        if extremes is None:
            ts, exp, keys = self.ts, rows[EXPIRY].to_numpy(), self.keys
            least = int(ts.min())
            extremes = Extremes(rows.height, least, int(exp.min()), int(exp.max()), int(keys[0]), int(keys[-1]), least)
        self._extremes = extremes
        self._oldest: int | None = None  # the place of the oldest row that has not come out, -1 if there is none

    def __len__(self) -> int:
        """Return the number of places, with those of rows that are gone."""
        return self.rows.height

    @property
    def held(self) -> int:
        """Return how many rows are there."""
        gone = self.gone
        return len(self) if gone is None else len(self) - int(np.count_nonzero(gone))

    @property
    def is_thin(self) -> bool:
        """Return whether most of its rows are gone, and the others are not being handed down."""
        return self.gone is not None and not self.is_cut and 2 * self.held <= len(self)

    def among_held(self, chosen: Flags) -> Flags:
        """Return those of the chosen rows that are there."""
        return chosen if self.gone is None else chosen & ~self.gone

    @property
    def present(self) -> pl.DataFrame:
        """Return the rows that are there: as a new frame if some are gone."""
        return self.cut(0, len(self)).rows

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
        """When each row expires; long ago if it is gone."""
        if self._exp is None:
            self._exp = self.rows[EXPIRY].to_numpy()
            if self.gone is not None:
                self._exp = np.where(self.gone, _LEFT, self._exp)
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
            self._done = _unpacked(self._bits, "done", len(self))
        return self._done

    @property
    def gone(self) -> Flags | None:
        """Rows that have left; None if none has."""
        if self._gone is None and self._gone_bits is not None:
            self._gone = _unpacked(self._gone_bits, "gone", len(self))
        return self._gone

    @property
    def is_preserved(self) -> bool:
        """Return whether the join needs to know which rows have come out."""
        return self._done is not None or self._bits is not None

    def cut(self, start: int, stop: int) -> Cut:
        """Return the rows from one place up to another, without those that are gone."""
        rows, done, gone = self.rows[start:stop], self.done, self.gone
        done = None if done is None else done[start:stop]
        if gone is None:
            return Cut(rows, done)
        places = np.flatnonzero(~gone[start:stop])
        return Cut(gather(rows, places), None if done is None else done[places])

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
        gone = None if self.gone is None else self.gone[start:]
        return Chunk(self.name, self.rows[start:], self.needed_columns, done, stored=self.stored, gone=gone)

    def without(self, left: Flags) -> Chunk:
        """Return the chunk without some rows; what is stored stays as it is.

        To a preserved side they have come out: they did so here, or will do so where they went.
        """
        done = None if self.done is None else self.done | left
        gone = left if self.gone is None else self.gone | left
        return Chunk(self.name, self.rows, self.needed_columns, done, self.extremes(), self.stored, gone)

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

    def gone_bits(self) -> pl.DataFrame | None:
        """Return `gone` as a state value, the same object as long as the chunk is."""
        if self._gone_bits is None and self._gone is not None:
            self._gone_bits = pl.DataFrame({"gone": np.packbits(self._gone)})
        return self._gone_bits

    def restore_gone(self, bits: pl.DataFrame) -> None:
        self._gone, self._gone_bits = None, bits

    def extremes(self) -> Extremes:
        return self._extremes._replace(oldest=self.oldest_bound)


def _unpacked(bits: pl.DataFrame, name: str, count: int) -> Flags:
    return np.unpackbits(bits[name].to_numpy(), count=count).astype(np.bool_)


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
