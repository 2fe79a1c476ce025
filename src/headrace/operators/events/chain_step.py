"""One step of a chain: those that wait, and who of them each new tuple follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from headrace.model.events.event import Mode
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import KEY, Flags, Ints, gather, stable_order
from headrace.operators.joins.sequence_match import (
    Accept,
    candidates,
    earliest_unused,
    first_come,
    first_fit,
    number_rows,
    places_before,
)
from headrace.operators.joins.sequence_state import Predecessors

#: When an occurrence began; its end is the timestamp.
BEGIN_TS = "__begin"


class ChainStep:
    """Occurrences that wait, in the order of their ends.

    `plain` if no condition chose them, so that this is also the order of their beginnings.
    """

    def __init__(
        self,
        mode: Mode,
        span: int | None,
        tests: Sequence[pl.Expr],
        read: frozenset[str],
        keys: Sequence[str],
        *,
        plain: bool,
    ) -> None:
        self._mode, self._span = mode, span
        self._test = pl.all_horizontal(tests) if tests else None
        self._read = read
        self._keys = list(keys)
        self._plain = plain
        self.before = Predecessors()

    def pair(self, lefts: pl.DataFrame | None, rights: pl.DataFrame | None, bound: int) -> pl.DataFrame | None:
        """Take in what is below the bound, all of it in order; return the pairs in order."""
        if lefts is not None and lefts.height:
            self.before.add(lefts)
        pairs = None if rights is None or not len(self.before) else self._answer(rights)
        self._forget(lefts, bound)
        return pairs

    def _answer(self, rights: pl.DataFrame) -> pl.DataFrame | None:
        touched = np.flatnonzero(np.isin(self.before.keys, rights[KEY].to_numpy()))
        if not len(touched):
            return None
        lefts = self.before.take(touched)
        left_ids, right_ids = self._groups(lefts, rights)
        a, b = stable_order(left_ids), stable_order(right_ids)  # by group, in order within
        lefts = gather(lefts, a)
        left_ids, right_ids = left_ids[a], right_ids[b]
        left_ts, right_ts, begin = lefts[TS].to_numpy(), rights[TS].to_numpy()[b], lefts[BEGIN_TS].to_numpy()
        stop = places_before(left_ids, left_ts, right_ids, right_ts, inclusive=False)

        def fits(right_places: Ints, left_places: Ints) -> Flags:
            kept = np.ones(len(right_places), np.bool_)
            if self._span is not None:
                kept &= right_ts[right_places] - begin[left_places] <= self._span
            if self._test is not None:
                names = [name for name in lefts.columns if name in self._read]
                both = gather(lefts.select(names), left_places).get_columns() if names else []
                names = [name for name in rights.columns if name in self._read]
                both += gather(rights.select(names), b[right_places]).get_columns() if names else []
                kept &= pl.DataFrame(both).with_columns(self._test.alias("__fits"))["__fits"].to_numpy()
            return kept

        right_at, left_at = self._choose(left_ids, left_ts, begin, right_ids, right_ts, stop, fits)
        if not len(right_at):
            return None
        if self._mode in (Mode.CHRONICLE, Mode.CONTINUOUS):
            self.before.drop(touched[a[left_at]])
        if self._mode is Mode.PROXIMAL:  # with the latest go those that it replaced
            gone = np.append(left_ids[1:] == left_ids[:-1], False)
            gone[left_at] = True
            self.before.drop(touched[a[gone]])
        order = np.lexsort((left_at, b[right_at]))
        left_rows, right_rows = (
            gather(lefts.drop(TS, KEY, *self._keys), left_at[order]),
            gather(rights, b[right_at[order]]),
        )
        return pl.DataFrame([*left_rows.get_columns(), *right_rows.get_columns()])

    def _choose(
        self, left_ids: Ints, left_ts: Ints, begin: Ints, right_ids: Ints, right_ts: Ints, stop: Ints, fits: Accept
    ) -> tuple[Ints, Ints]:
        """Return the pairs, as places among the rights and among the lefts."""
        if self._mode in (Mode.RECENT, Mode.PROXIMAL):  # the latest, fit or not
            start = places_before(left_ids, left_ts, right_ids, np.full(len(right_ts), BEGIN), inclusive=False)
            rights = np.flatnonzero(start < stop)
            rights = rights[fits(rights, stop[rights] - 1)]
            if self._mode is Mode.PROXIMAL:  # once: whoever comes first
                rights = rights[np.diff(stop[rights], prepend=-1) > 0]
            return rights, stop[rights] - 1
        if self._mode is Mode.CONTINUOUS:  # each left one by itself: the first that fits
            first = places_before(right_ids, right_ts, left_ids, left_ts, inclusive=True)
            limit = np.full(len(left_ts), END) if self._span is None else begin + self._span
            taken = first_fit(first, places_before(right_ids, right_ts, left_ids, limit, inclusive=True), fits)
            lefts = np.flatnonzero(taken >= 0)
            return taken[lefts], lefts
        oldest = right_ts - self._span if self._span is not None else np.full(len(right_ts), BEGIN)
        monotone = self._mode is Mode.CHRONICLE and self._plain
        start = places_before(left_ids, begin if monotone else left_ts, right_ids, oldest, inclusive=False)
        if self._mode is Mode.UNRESTRICTED:
            accepted = [
                (rights[kept], lefts[kept])
                for rights, lefts in candidates(start, stop)
                for kept in (fits(rights, lefts),)
            ]
            empty = np.empty(0, np.int64)
            return np.concatenate([empty, *(pair[0] for pair in accepted)]), np.concatenate(
                [empty, *(pair[1] for pair in accepted)]
            )
        taken = (
            earliest_unused(start, stop)
            if monotone and self._test is None
            else first_come(start, stop, fits, len(left_ts))
        )
        rights = np.flatnonzero(taken >= 0)
        return rights, taken[rights]

    def _groups(self, lefts: pl.DataFrame, rights: pl.DataFrame) -> tuple[Ints, Ints]:
        """Return numbers that are equal iff the keys are."""
        if not self._keys:
            return lefts[KEY].to_numpy(), rights[KEY].to_numpy()
        numbers = number_rows(pl.concat([lefts.select(self._keys), rights.select(self._keys)]))
        return numbers[: lefts.height], numbers[lefts.height :]

    def _forget(self, lefts: pl.DataFrame | None, bound: int) -> None:
        """Drop those that nothing at the bound or later can follow."""
        if bound >= END:
            self.before.drop(np.arange(len(self.before)))
            return
        if self._span is not None:
            self.before.drop(np.arange(np.searchsorted(self.before.ts, bound - self._span, "left")))
        if self._mode in (Mode.RECENT, Mode.PROXIMAL) and lefts is not None and len(self.before):
            places = np.flatnonzero(np.isin(self.before.keys, lefts[KEY].to_numpy()))
            ids = number_rows(self.before.take(places).select(self._keys)) if self._keys else self.before.keys[places]
            order = stable_order(ids)
            again = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
            self.before.drop(places[order[again]])
