"""One side of a join: immutable chunks of rows sorted by key, in slices of similar expiry so that the dead leave as whole chunks.

Within a slice the chunks form a log: a new one swallows those that are not much larger, so a row is copied O(log n) times and a probe
meets O(log n) chunks. What does change, namely which rows of a preserved side have come out already, is kept beside the chunks as bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from headrace.elements.pattern import Pattern, matches
from headrace.elements.schema import EXPIRY, TS
from headrace.elements.time import END
from headrace.operators.operator import State
from headrace.operators.pairing import KEY, Flags, gather

#: Larger chunks are not merged any more: a chunk is one value in the state store.
LARGEST = 1 << 16

_SLICES_PER_LIFE = 8
_SLICES_PER_PAGE = 16
_MANY_SLICES = 32
_NEVER = "never"
_DONE = "/done"


class Chunk:
    """Rows sorted by key, with the columns that are searched as plain arrays."""

    __slots__ = ("_bits", "_oldest", "done", "exp", "keys", "max_exp", "min_exp", "min_ts", "name", "needed", "rows", "ts")

    def __init__(self, name: str, rows: pl.DataFrame, needed: tuple[str, ...], done: Flags | None) -> None:
        self.name = name
        self.rows = rows
        #: The columns that a pair of tuples is made of.
        self.needed = rows.select(needed)
        self.keys = rows[KEY].to_numpy()
        self.ts = rows[TS].to_numpy()
        self.exp = rows[EXPIRY].to_numpy()
        self.min_ts = int(self.ts.min())
        self.min_exp = int(self.exp.min())
        self.max_exp = int(self.exp.max())
        #: Rows that have come out, matched or padded; None where nobody asks.
        self.done = done
        self._bits: pl.DataFrame | None = None
        self._oldest: int | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def mark(self, places: np.ndarray) -> None:
        """Note that these rows (by number or by flag) have come out."""
        if self.done is not None and not self.done[places].all():
            self.done[places] = True
            self._bits = None

    @property
    def oldest_bound(self) -> int:
        """A cheap bound from below for `oldest_waiting`: rows only ever stop waiting."""
        return self.min_ts if self._oldest is None else END if self._oldest < 0 else int(self.ts[self._oldest])

    def oldest_waiting(self) -> int:
        """The smallest timestamp of a row that has not come out, or END."""
        if self.done is None:
            return END
        if self._oldest is None or (self._oldest >= 0 and self.done[self._oldest]):
            waiting = np.flatnonzero(~self.done)
            self._oldest = int(waiting[np.argmin(self.ts[waiting])]) if len(waiting) else -1
        return END if self._oldest < 0 else int(self.ts[self._oldest])

    def bits(self) -> pl.DataFrame | None:
        """`done` as a state value, the same object as long as it says the same."""
        if self._bits is None and self.done is not None:
            self._bits = pl.DataFrame({"done": np.packbits(self.done)})
        return self._bits

    def restore_bits(self, bits: pl.DataFrame) -> None:
        self.done = np.unpackbits(bits["done"].to_numpy(), count=len(self)).astype(np.bool_)
        self._bits = bits


class SortedSide:
    """All stored rows of one side."""

    def __init__(self, name: str, needed: tuple[str, ...], *, preserved: bool) -> None:
        self.name = name
        self.needed = needed
        self.preserved = preserved
        self._slices: dict[str, list[Chunk]] = {}
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self.chunks()))

    def chunks(self) -> Iterator[Chunk]:
        for chunks in self._slices.values():
            yield from chunks

    def insert(self, rows: pl.DataFrame, done: Flags | None, dead_below: int) -> None:
        """Store rows that are sorted by key; merging forgets rows that expired before `dead_below`."""
        if rows.is_empty():
            return
        for slice_, places in self._cut(rows):
            part = rows if places is None else gather(rows, places)
            flags = done if done is None or places is None else done[places]
            for start in range(0, part.height, LARGEST):
                stop = start + LARGEST
                self._append(slice_, part[start:stop], None if flags is None else flags[start:stop], dead_below)

    def purge(self, bound: int) -> None:
        """Forget the chunks of which all rows expired before `bound`; at END everything."""
        for slice_, chunks in list(self._slices.items()):
            alive = [] if bound >= END else [chunk for chunk in chunks if chunk.max_exp >= bound]
            if not alive:
                del self._slices[slice_]
            elif len(alive) < len(chunks):
                self._slices[slice_] = alive

    def expire(self, bound: int) -> Iterator[pl.DataFrame]:
        """Give once each row of a preserved side that has not come out and expired before `bound`; at END all."""
        for chunk in self.chunks():
            if chunk.done is None or (chunk.min_exp >= bound and bound < END):
                continue
            lonely = ~chunk.done if bound >= END else ~chunk.done & (chunk.exp < bound)
            if lonely.any():
                chunk.mark(lonely)
                yield gather(chunk.rows, np.flatnonzero(lonely))

    def remove(self, wanted: Pattern) -> int:
        """Forget rows that match, also those that have not come out; returns how many."""
        before = len(self)
        for slice_, chunks in list(self._slices.items()):
            left = [kept for chunk in chunks if (kept := self._without(slice_, chunk, wanted)) is not None]
            if left:
                self._slices[slice_] = left
            else:
                del self._slices[slice_]
        return before - len(self)

    def oldest_waiting(self) -> int:
        """The smallest timestamp of a row that may still have to come out padded, or END."""
        oldest = END
        if self.preserved:
            for chunk in sorted(self.chunks(), key=lambda chunk: chunk.oldest_bound):
                if chunk.oldest_bound >= oldest:
                    break
                oldest = min(oldest, chunk.oldest_waiting())
        return oldest

    def next_lonely(self) -> int:
        """The first expiry of a row that has not come out, which it must do padded then; or END."""
        first = END
        if self.preserved:
            for chunk in sorted(self.chunks(), key=lambda chunk: chunk.min_exp):
                if chunk.min_exp >= first:
                    break
                if chunk.done is not None and chunk.oldest_waiting() < END:
                    first = min(first, int(chunk.exp[~chunk.done].min()))
        return first

    def state(self) -> dict[str, pl.DataFrame]:
        found: dict[str, pl.DataFrame] = {}
        for chunk in self.chunks():
            found[chunk.name] = chunk.rows
            bits = chunk.bits()
            if bits is not None:
                found[chunk.name + _DONE] = bits
        return found

    def restore(self, state: State) -> None:
        """Take over this side's chunks as they are: they are sorted already."""
        self._slices, self._next = {}, 0
        own = [name for name in state if name.startswith(f"{self.name}/") and not name.endswith(_DONE)]
        for name in sorted(own, key=_number):
            chunk = Chunk(name, state[name], self.needed, None)
            if self.preserved:
                chunk.restore_bits(state[name + _DONE])
            self._slices.setdefault(name.split("/")[1], []).append(chunk)
            self._next = _number(name) + 1

    def _without(self, slice_: str, chunk: Chunk, wanted: Pattern) -> Chunk | None:
        found = matches(wanted, chunk.rows).to_numpy()
        if not found.any():
            return chunk
        if found.all():
            return None
        self._next += 1
        places = np.flatnonzero(~found)
        done = None if chunk.done is None else chunk.done[places]
        return Chunk(f"{self.name}/{slice_}/{self._next - 1}", gather(chunk.rows, places), self.needed, done)

    def _cut(self, rows: pl.DataFrame) -> Iterator[tuple[str, np.ndarray | None]]:
        """Which rows go to which slice (None: all of them)."""
        exp = rows[EXPIRY].to_numpy()
        mortal = exp < END
        if not mortal.any():
            yield _NEVER, None
            return
        if not mortal.all():
            yield _NEVER, np.flatnonzero(~mortal)
        bits = self._slice_bits(exp[mortal], rows[TS].to_numpy()[mortal])
        index = exp >> bits
        for number in np.unique(index[mortal]).tolist():
            places = np.flatnonzero((index == number) & mortal)
            yield f"{bits}.{number}", None if len(places) == rows.height else places

    def _slice_bits(self, exp: np.ndarray, ts: np.ndarray) -> int:
        """Slices are 2**bits long: a share of a row's life, longer if a page or the state would fall into too many of them."""
        life, reach = int((exp - ts).max()), int(exp.max() - exp.min())
        length = max(life // _SLICES_PER_LIFE, reach // _SLICES_PER_PAGE, 1)
        crowd = max(0, len(self._slices) - _MANY_SLICES) // 4  # so that their number grows with the logarithm of time only
        return min(62, (length - 1).bit_length() + crowd)

    def _append(self, slice_: str, rows: pl.DataFrame, done: Flags | None, dead_below: int) -> None:
        chunks = self._slices.setdefault(slice_, [])
        first, total = len(chunks), rows.height
        while first and len(chunks[first - 1]) <= min(2 * total, LARGEST - total):
            first -= 1
            total += len(chunks[first])
        merged = chunks[first:]
        if merged:
            rows = pl.concat([*(chunk.rows for chunk in merged), rows])
            order = np.argsort(rows[KEY].to_numpy(), kind="stable")
            order = order[rows[EXPIRY].to_numpy()[order] >= dead_below]
            rows = gather(rows, order)
            if done is not None:
                done = np.concatenate([*(chunk.done for chunk in merged if chunk.done is not None), done])[order]
            del chunks[first:]
        if not rows.is_empty():
            chunks.append(Chunk(f"{self.name}/{slice_}/{self._next}", rows, self.needed, done))
            self._next += 1


def _number(name: str) -> int:
    return int(name.rsplit("/", 1)[1])
