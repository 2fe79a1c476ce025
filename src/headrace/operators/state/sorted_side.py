"""One side of a join: immutable chunks of rows sorted by key, in slices of similar expiry that expire as a whole.

A slice is a tree of chunks by ranges of keys (`key_tree`): a row is copied O(log n) times and a probe looks for a key
in O(log n) chunks. What does change, namely which rows of a preserved side have come out already, is kept beside the
chunks as bits. With many chunks an index is kept as well, so that a side that is restored touches only what it
searches: the rest of a state larger than memory stays on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_not

import numpy as np
import polars as pl

from headrace.model.patterns.pattern import Pattern, matches
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import KEY, Array, Flags, gather
from headrace.operators.operator import State
from headrace.operators.state.key_tree import KeyTree
from headrace.operators.state.sorted_chunk import Chunk, Cut, read_index, write_index

#: Larger chunks are not merged any more: a chunk is one value in the state store.
LARGEST = 1 << 16
#: Of wide rows a chunk holds fewer, to stay at about this size.
LARGEST_BYTES = 2 << 20
#: With so many chunks or more it is worth while to keep an index.
_INDEXED = 16

_SLICES_PER_LIFE = 8
_SLICES_PER_PAGE = 16
_MANY_SLICES = 32
_NEVER = "never"
_DONE, _GONE = "/done", "/gone"
_CAME_OUT = "__done"  # a column of rows on their way
_INDEX, _FENCES, _CUTS = "index", "fences", "cuts"


class SortedSide:
    """All stored rows of one side."""

    def __init__(self, name: str, needed: tuple[str, ...], *, preserved: bool) -> None:
        self.name = name
        self.needed = needed
        self.preserved = preserved
        self._tree: KeyTree[Chunk, Cut] = KeyTree(self._make, phase=sum(name.encode()))
        self._next = 0
        self._dead_below = BEGIN
        self._largest = LARGEST
        self._owed = 0  # rows written anew before they were paid for
        self._index: tuple[tuple[Chunk, ...], pl.DataFrame] | None = None
        self._cuts: tuple[dict[str, int], pl.DataFrame] | None = None

    def __len__(self) -> int:
        return sum(chunk.held for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        return self._tree.chunks()

    def meeting(self, keys: Array) -> Iterator[tuple[Chunk, int, int]]:
        """Return the chunks that may hold some of these sorted keys, and which of the keys.

        The keys are given by their places: from one up to another.
        """
        return self._tree.meeting(keys)

    def insert(
        self, rows: pl.DataFrame, done: Flags | None, dead_below: int, *, is_sorted: bool = True, merges: bool = True
    ) -> None:
        """Store rows that are sorted by key; merging forgets rows that expired before `dead_below`.

        Unless it `merges`, chunks that are there stay as they are stored, if there are not too many.
        """
        if rows.is_empty():
            return
        self._dead_below = dead_below
        self._largest = max(1, min(LARGEST, LARGEST_BYTES * rows.height // max(1, int(rows.estimated_size()))))
        for slice_, found in self._cut(rows):
            places = found if is_sorted else _by_key(rows, found)
            part = rows if places is None else gather(rows, places)
            flags = done if done is None or places is None else done[places]
            for start in range(0, part.height, self._largest):
                stop = start + self._largest
                cut = Cut(part[start:stop], None if flags is None else flags[start:stop])
                self._tree.add(slice_, cut, self._largest, merges=merges)
        self._write_thin(rows.height)

    def purge(self, bound: int) -> None:
        """Forget the chunks of which all rows expired before `bound`; at END everything."""
        self._tree.keep(lambda chunk: bound < END and chunk.max_exp >= bound)

    def expire(self, bound: int) -> Iterator[pl.DataFrame]:
        """Give once each row of a preserved side that has not come out and expired before `bound`; at END all."""
        for chunk in self.chunks():
            if chunk.min_exp >= bound and bound < END:
                continue
            done = chunk.done
            if done is None:
                continue
            unmatched = ~done if bound >= END else ~done & (chunk.exp < bound)
            if unmatched.any():
                chunk.mark(unmatched)
                yield gather(chunk.rows, np.flatnonzero(unmatched))

    def remove(self, pattern: Pattern) -> int:
        """Forget rows that match, also those that have not come out; returns how many."""
        before = len(self)
        self._tree.replace(lambda node, chunk: self._without(node, chunk, pattern))
        return before - len(self)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Give up the rows that are chosen; of a preserved side with a column that says which have come out.

        A chunk stays as it is stored, and remembers which of its rows are gone.
        """
        given: list[pl.DataFrame] = []

        def rest(node: str, chunk: Chunk) -> Chunk | None:
            chosen = chunk.among_held(choose(chunk.rows))
            places = np.flatnonzero(chosen)
            if not len(places):
                return chunk
            rows, done = gather(chunk.rows, places), chunk.done
            given.append(rows if done is None else rows.with_columns(pl.Series(_CAME_OUT, done[places])))
            left = chunk.without(chosen)
            return left if left.held else None

        self._tree.replace(rest)
        return given

    def take_in(self, given: pl.DataFrame, dead_below: int) -> None:
        """Store rows that another side gave up."""
        done = given[_CAME_OUT].to_numpy().copy() if self.preserved else None
        rows = given.drop(_CAME_OUT) if self.preserved else given
        self.insert(rows, done, dead_below, is_sorted=False, merges=False)

    def copy(self, choose: Callable[[pl.DataFrame], Flags]) -> list[pl.DataFrame]:
        """Return the rows that are chosen."""
        present = (chunk.present for chunk in self.chunks())
        return [chosen for rows in present if (chosen := rows.filter(choose(rows))).height]

    def oldest_waiting(self) -> int:
        """Return the smallest timestamp of a row that may still have to come out padded, or END."""
        oldest = END
        if self.preserved:
            for chunk in sorted(self.chunks(), key=lambda chunk: chunk.oldest_bound):
                if chunk.oldest_bound >= oldest:
                    break
                oldest = min(oldest, chunk.oldest_waiting())
        return oldest

    def next_unmatched(self) -> int:
        """Return the first expiry of a row that has not come out, which it must do padded then; or END."""
        first = END
        if self.preserved:
            for chunk in sorted(self.chunks(), key=lambda chunk: chunk.min_exp):
                if chunk.min_exp >= first:
                    break
                if chunk.done is not None and chunk.oldest_waiting() < END:
                    first = min(first, int(chunk.exp[~chunk.done].min()))
        return first

    def state(self) -> dict[str, pl.DataFrame]:
        frames: dict[str, pl.DataFrame] = {}
        chunks = tuple(self.chunks())
        for chunk in chunks:
            frames[chunk.name] = chunk.stored
            bits = chunk.bits()
            if bits is not None:
                frames[chunk.name + _DONE] = bits
            gone = chunk.gone_bits()
            if gone is not None:
                frames[chunk.name + _GONE] = gone
        if len(chunks) >= _INDEXED:
            if self._index is None or len(self._index[0]) != len(chunks) or any(map(is_not, self._index[0], chunks)):
                self._index = (chunks, write_index(chunks))
            frames[f"{self.name}/{_INDEX}"] = self._index[1]
        cuts = {chunk.name: chunk.skipped for chunk in chunks if chunk.is_cut}
        if cuts:
            if self._cuts is None or self._cuts[0] != cuts:
                self._cuts = cuts, pl.DataFrame({"chunk": list(cuts), "rows": list(cuts.values())})
            frames[f"{self.name}/{_CUTS}"] = self._cuts[1]
        fences = self._tree.fences()
        return frames if fences is None else frames | {f"{self.name}/{_FENCES}": fences}

    def restore(self, state: State) -> None:
        """Take over this side's chunks as they are: they are sorted already."""
        self._next = 0
        index, fences = state.get(f"{self.name}/{_INDEX}"), state.get(f"{self.name}/{_FENCES}")
        known, cuts = read_index(index), state.get(f"{self.name}/{_CUTS}")
        skipped: dict[str, int] = {} if cuts is None else dict(cuts.iter_rows())
        self._cuts = None if cuts is None else (skipped, cuts)
        own = [name for name in state if name.startswith(f"{self.name}/") and name.count("/") == 2]
        nodes: dict[str, list[Chunk]] = {}
        for name in sorted(own, key=_number):
            stored = state[name]
            rows = stored[skipped[name] :] if name in skipped else stored
            chunk = Chunk(name, rows, self.needed, None, known.get(name), stored)
            if self.preserved:
                chunk.restore_bits(state[name + _DONE])
            if name + _GONE in state:
                chunk.restore_gone(state[name + _GONE])
            nodes.setdefault(name.split("/")[1], []).append(chunk)
            self._next = _number(name) + 1
        self._tree.restore(nodes, fences)
        self._index = None if index is None else (tuple(self.chunks()), index)

    def _without(self, node: str, chunk: Chunk, pattern: Pattern) -> Chunk | None:
        """Return what is left of a chunk without rows that match: itself if none does."""
        removed = chunk.among_held(matches(pattern, chunk.rows).to_numpy())
        return self._anew(node, chunk.without(removed)) if removed.any() else chunk

    def _write_thin(self, added: int) -> None:
        """Write chunks anew that have lost most of their rows, in the long run as many rows as are added."""
        self._owed = max(0, self._owed - added)

        def anew(node: str, chunk: Chunk) -> Chunk | None:
            if self._owed or not chunk.is_thin:
                return chunk
            self._owed = chunk.held
            return self._anew(node, chunk)

        if not self._owed and any(chunk.is_thin for chunk in self.chunks()):
            self._tree.replace(anew)

    def _anew(self, node: str, chunk: Chunk) -> Chunk | None:
        """Return a chunk of the rows that are there; None if there are none."""
        rows, done = chunk.cut(0, len(chunk))
        if rows.is_empty():
            return None
        self._next += 1
        return Chunk(f"{self.name}/{node}/{self._next - 1}", rows, self.needed, done)

    def _cut(self, rows: pl.DataFrame) -> Iterator[tuple[str, np.ndarray | None]]:
        """Yield which rows go to which slice (None: all of them)."""
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
        """Return how long slices are, as a power of two: a share of a row's life, longer if there would be too many."""
        life, reach = int((exp - ts).max()), int(exp.max() - exp.min())
        length = max(life // _SLICES_PER_LIFE, reach // _SLICES_PER_PAGE, 1)
        crowd = (
            max(0, len(self._tree.roots()) - _MANY_SLICES) // 4
        )  # so that their number grows with the logarithm of time only
        return min(62, (length - 1).bit_length() + crowd)

    def _make(self, node: str, cuts: list[Cut]) -> list[Chunk]:
        """Merge rows into chunks of a node; those that have expired are left out."""
        rows, done = cuts[0]
        if len(cuts) > 1:
            rows = pl.concat([cut.rows for cut in cuts])
            order = np.argsort(rows[KEY].to_numpy(), kind="stable")
            order = order[rows[EXPIRY].to_numpy()[order] >= self._dead_below]
            rows = gather(rows, order)
            if done is not None:
                done = np.concatenate([cut.done for cut in cuts if cut.done is not None])[order]
        made = []
        for start in range(0, rows.height, self._largest):
            stop = start + self._largest
            flags = None if done is None else done[start:stop]
            made.append(Chunk(f"{self.name}/{node}/{self._next}", rows[start:stop], self.needed, flags))
            self._next += 1
        return made


def _by_key(rows: pl.DataFrame, places: np.ndarray | None) -> np.ndarray:
    """Return places of rows (None: all of them) in the order of their keys."""
    keys = rows[KEY].to_numpy()
    return np.argsort(keys, kind="stable") if places is None else places[np.argsort(keys[places], kind="stable")]


def _number(name: str) -> int:
    return int(name.rsplit("/", 1)[1])
