"""Outer joins as a changelog: a row without a partner is inserted at once, and taken back with its first partner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from headrace.model.changelog import CHANGE, DELETE, INSERT
from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import END
from headrace.operators.arrays import KEY, Ints, gather, matches
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.joins.hits import in_time
from headrace.operators.joins.pairing import Pairer, Pairing
from headrace.operators.joins.two_sides import TwoSides
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up
from headrace.operators.state.sorted_chunk import Chunk
from headrace.operators.state.sorted_side import SortedSide


class JoinChanges(Pairing, frozen=True, tag="join_changes"):
    """The changes of an outer join; `change` names the column that tells the kind of a change."""

    change: str = CHANGE

    def build(self) -> Operator:
        return _JoinChanges(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"changes of {super().describe(inputs)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(pair[port] for pair in self.keys)

    @property
    def order_matters(self) -> bool:
        return False

    @property
    def has_own_time(self) -> bool:
        return False  # a row without a partner does not wait: it comes out, and is taken back


class _Fresh(NamedTuple):
    """Tuples that the frontier has just passed, sorted by key, and the instant of the first pair of each, or END."""

    rows: pl.DataFrame
    first: Ints


class _JoinChanges(TwoSides[SortedSide]):
    """Tuples wait until the frontier has passed them; then they meet what is stored, and each other.

    A stored row whose bit `done` is not set has come out padded.
    """

    def __init__(self, spec: JoinChanges) -> None:
        self._spec = spec
        self._pairer = pairer = Pairer(spec)
        super().__init__(
            *(SortedSide(name, pairer.needed[port], preserved=spec.preserves(port)) for port, name in enumerate("LR"))
        )
        self._pending = (Pending(), Pending())
        self._names = [*spec.left.names, *spec.right_names]

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending[port].add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        if not self._advance(port, mark.bound):
            return ()
        bound = self._frontier.minimum
        ready = [pending.take(bound) for pending in self._pending]
        changes = None if all(rows is None for rows in ready) else self._changes(ready, bound)
        for side in self._sides:
            side.purge(bound)
        return ([] if changes is None else [Page(changes)]) + self._promise(bound)

    def state(self) -> State:
        pending = {
            f"{side.name}.{name}": rows
            for side, pending in zip(self._sides, self._pending, strict=True)
            for name, rows in pending.state().items()
        }
        return {**super().state(), **pending}

    def restore(self, state: State) -> None:
        super().restore(state)
        for side, pending in zip(self._sides, self._pending, strict=True):
            own = f"{side.name}."
            pending.restore({name.removeprefix(own): rows for name, rows in state.items() if name.startswith(own)})

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given: dict[str, pl.DataFrame] = {}
        for side, pending, by in zip(self._sides, self._pending, keys, strict=True):
            chosen = chosen_by(choose, by)
            given |= given_up(**{side.name: side.give(chosen), f"{side.name}.pending": pending.give(chosen)})
        return given

    def take(self, given: State) -> None:
        for side, pending in zip(self._sides, self._pending, strict=True):
            if side.name in given:
                side.take_in(given[side.name], self._frontier.minimum)
            if f"{side.name}.pending" in given:
                pending.add(given[f"{side.name}.pending"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return 0  # a row that is not needed may be the partner of one that is

    def held(self) -> int:
        return super().held() + sum(map(len, self._pending))

    def due(self) -> int | None:
        return min((due for due in (pending.due() for pending in self._pending) if due is not None), default=None)

    def _changes(self, ready: Sequence[pl.DataFrame | None], bound: int) -> pl.DataFrame | None:
        """Take in tuples later than all before; return the changes, in order."""
        deletes, inserts = list[pl.DataFrame](), list[pl.DataFrame]()
        fresh: list[_Fresh | None] = [
            None if rows is None else self._read(port, rows, inserts) for port, rows in enumerate(ready)
        ]
        for port, new in enumerate(fresh):
            if new is not None:
                self._meet_stored(port, new, inserts, deletes)
        left, right = fresh
        if left is not None and right is not None:
            other = Chunk("", right.rows, self._pairer.needed[1], None)
            for mine, theirs, ts, pairs in self._pairs(0, left.rows, other, 0, left.rows.height):
                np.minimum.at(left.first, mine, ts)
                np.minimum.at(right.first, theirs, ts)
                inserts.append(pairs)
        for port, new in enumerate(fresh):
            if new is not None:
                self._pad(port, new, inserts, deletes)
                self._store(port, new, bound)
        kinds = ((DELETE, deletes), (INSERT, inserts))
        change = self._spec.change
        parts = [rows.select(*self._names, pl.lit(kind).alias(change), TS) for kind, all_ in kinds for rows in all_]
        return pl.concat(parts).sort(TS, maintain_order=True) if parts else None

    def _read(self, port: int, rows: pl.DataFrame, inserts: list[pl.DataFrame]) -> _Fresh | None:
        """Sort tuples by key; one without a key never finds a partner."""
        arranged, known = self._pairer.arrange(port, Page(rows))
        if known is not None:
            if self._spec.preserves(port):
                inserts.append(self._pairer.pad(port, arranged.filter(~known)).rows)
            arranged = arranged.filter(known)
        if arranged.is_empty():
            return None
        arranged = gather(arranged, np.argsort(arranged[KEY].to_numpy(), kind="stable"))
        return _Fresh(arranged, np.full(arranged.height, END, np.int64))

    def _meet_stored(self, port: int, new: _Fresh, inserts: list[pl.DataFrame], deletes: list[pl.DataFrame]) -> None:
        """Pair tuples with rows of the other side; take back those of its rows that came out padded."""
        other = 1 - port
        for chunk, start, stop in self._sides[other].meeting(new.rows[KEY].to_numpy()):
            first = np.full(len(chunk), END, np.int64)
            for mine, theirs, ts, pairs in self._pairs(port, new.rows, chunk, start, stop):
                np.minimum.at(new.first, mine, ts)
                np.minimum.at(first, theirs, ts)
                inserts.append(pairs)
            if chunk.done is not None:
                found = np.flatnonzero((first < END) & ~chunk.done)
                if len(found):
                    deletes.append(self._padded(other, gather(chunk.rows, found), first[found]))
                    chunk.mark(found)

    def _pairs(
        self, port: int, rows: pl.DataFrame, chunk: Chunk, start: int, stop: int
    ) -> Iterator[tuple[Ints, Ints, Ints, pl.DataFrame]]:
        """Yield pairs of rows from one place to another with those of a chunk: their places, instants and columns."""
        needles, ts, exp = rows[KEY].to_numpy(), rows[TS].to_numpy(), rows[EXPIRY].to_numpy()
        for mine, theirs in matches(needles[start:stop], chunk.keys):
            hits = in_time(chunk, mine + start, theirs, ts, exp)
            if not len(hits.mine):
                continue
            own = gather(rows.select(self._pairer.needed[port]), hits.mine)
            page, kept = self._pairer.join(port, own, gather(chunk.needed, hits.theirs), hits.ts, hits.exp)
            if not len(page):
                continue
            every = slice(None) if kept is None else kept
            yield hits.mine[every], hits.theirs[every], hits.ts[every], page.rows

    def _pad(self, port: int, new: _Fresh, inserts: list[pl.DataFrame], deletes: list[pl.DataFrame]) -> None:
        """Insert new tuples that have no partner at their own instant, and take back those that find one later."""
        if not self._spec.preserves(port):
            return
        ts = new.rows[TS].to_numpy()
        alone = np.flatnonzero(new.first > ts)
        if len(alone):
            inserts.append(self._padded(port, gather(new.rows, alone), ts[alone]))
        found = alone[new.first[alone] < END]
        if len(found):
            deletes.append(self._padded(port, gather(new.rows, found), new.first[found]))

    def _padded(self, port: int, rows: pl.DataFrame, ts: Ints) -> pl.DataFrame:
        return self._pairer.pad(port, rows.with_columns(pl.Series(TS, ts))).rows

    def _store(self, port: int, new: _Fresh, bound: int) -> None:
        alive = np.flatnonzero((new.rows[EXPIRY].to_numpy() >= bound) & (bound < END))
        done = (new.first < END)[alive] if self._spec.preserves(port) else None
        self._sides[port].insert(gather(new.rows, alive), done, bound)
