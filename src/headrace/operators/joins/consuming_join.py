"""Join of two streams over time windows in which a tuple leaves its window with its first partner.

Tuples come in the order of time, at equal times those of the left input first. Each takes the earliest tuple in the
window of the other side that matches, and both are gone; one that finds none waits in its own window. Both inputs are
in order. A tuple is looked at once the bounds of both sides have passed it, so results do not depend on who was read
first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl

from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import KEY, Flags, Ints, gather
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.joins.pairing import Pairer, Pairing
from headrace.operators.joins.sequence_match import candidates, number_rows, places_before
from headrace.operators.joins.sequence_state import Predecessors
from headrace.operators.operator import Frontier, Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up

Spans: TypeAlias = tuple[int | None, int | None]
#: Which pairs of events (the later one, the earlier one) are a match.
Accept: TypeAlias = Callable[[Ints, Ints], Flags]
_SIDES = ("left", "right")
_OPEN, _COMING = "open", "coming"


class ConsumingJoin(Operator):
    """For each side, tuples in its window that have no partner yet, and tuples that wait for the bounds."""

    def __init__(self, pairing: Pairing, spans: Spans) -> None:
        self._spec, self._spans = pairing, spans
        self._pairer = Pairer(pairing)
        self._keys = tuple(
            tuple(compile_expr(pair[port]).alias(f"__key{i}") for i, pair in enumerate(pairing.keys)) for port in (0, 1)
        )
        self._open = (Predecessors(), Predecessors())
        self._coming = (Pending(), Pending())
        self._frontier = Frontier(2)
        self._bounds: pl.DataFrame | None = None

    def on_page(self, port: int, page: Page) -> Iterator[Element]:
        rows, known = self._pairer.arrange(port, page)
        rows = rows.drop(EXPIRY)
        self._coming[port].add(rows if known is None else rows.filter(known))  # NULL equals nothing
        return iter(())

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterator[Element]:
        before = self._frontier.minimum
        if mark.bound <= self._frontier.bounds[port]:
            return
        self._frontier.advance(port, mark.bound)
        self._bounds = None
        bound = self._frontier.minimum
        if bound <= before:
            return
        yield from self._answer([coming.take(bound) for coming in self._coming])
        for opened, span in zip(self._open, self._spans, strict=True):
            gone = len(opened) if bound >= END else 0
            if span is not None and not gone:
                gone = int(np.searchsorted(opened.ts, bound - span, "left"))
            opened.drop(np.arange(gone))
        yield Punctuation(bound)

    def state(self) -> State:
        if self._bounds is None:
            self._bounds = pl.DataFrame([self._frontier.bounds], schema=list(_SIDES), orient="row")
        parts = {
            f"{side}/{name}": rows
            for side, opened, coming in zip(_SIDES, self._open, self._coming, strict=True)
            for name, rows in (*opened.state().items(), *coming.state().items())
        }
        return {"bounds": self._bounds, **parts}

    def restore(self, state: State) -> None:
        self._bounds = state.get("bounds")
        self._frontier.bounds = [BEGIN, BEGIN] if self._bounds is None else list(self._bounds.row(0))
        for side, opened, coming in zip(_SIDES, self._open, self._coming, strict=True):
            own = {name.removeprefix(f"{side}/"): rows for name, rows in state.items() if name.startswith(f"{side}/")}
            opened.restore(own)
            coming.restore(own)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        parts: dict[str, Sequence[pl.DataFrame] | pl.DataFrame | None] = {}
        for port, side in enumerate(_SIDES):
            parts[f"{side}_{_OPEN}"] = self._open[port].give(chosen_by(choose, keys[port]))
            parts[f"{side}_{_COMING}"] = self._coming[port].give(chosen_by(choose, keys[port]))
        return given_up(**parts)

    def take(self, given: State) -> None:
        for port, side in enumerate(_SIDES):
            if f"{side}_{_OPEN}" in given:
                self._open[port].take_in(given[f"{side}_{_OPEN}"])
            if f"{side}_{_COMING}" in given:
                self._coming[port].add(given[f"{side}_{_COMING}"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._open[port].remove(pattern) + self._coming[port].remove(pattern)

    def held(self) -> int:
        return sum(len(opened) + len(coming) for opened, coming in zip(self._open, self._coming, strict=True))

    def due(self) -> int | None:
        return min((due for coming in self._coming if (due := coming.due()) is not None), default=None)

    def _answer(self, ready: Sequence[pl.DataFrame | None]) -> Iterator[Page]:
        """Yield the pairs of tuples whose turn has come, in the order of time; others wait in their windows."""
        new = [None if rows is None else rows.sort(TS, maintain_order=True) for rows in ready]
        keys = np.unique(np.concatenate([rows[KEY].to_numpy() for rows in new if rows is not None] or [np.empty(0)]))
        touched = [np.flatnonzero(np.isin(opened.keys, keys)) for opened in self._open]
        sides = [
            ([opened.take(places)] if len(places) else []) + ([] if rows is None else [rows])
            for opened, places, rows in zip(self._open, touched, new, strict=True)
        ]
        used = [np.zeros(sum(rows.height for rows in side), np.bool_) for side in sides]
        if all(sides):
            left, right = (pl.concat(side) for side in sides)
            pairs = self._pairs(left, right)
            if len(pairs):
                used[0][pairs[:, 0]], used[1][pairs[:, 1]] = True, True
                yield self._page(left, right, pairs[:, 0], pairs[:, 1])[0]
        for port, rows in enumerate(new):
            count = len(touched[port])
            self._open[port].drop(touched[port][used[port][:count]])
            if rows is not None and not used[port][count:].all():
                self._open[port].add(rows.filter(~used[port][count:]))

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> Ints:
        """Return the places of the tuples that leave together, in the order of time."""
        ids = self._groups(left, right)
        ts = np.concatenate([left[TS].to_numpy(), right[TS].to_numpy()])
        side = np.repeat([0, 1], [left.height, right.height])
        place = np.concatenate([np.arange(left.height), np.arange(right.height)])
        order = np.lexsort((place, side, ts, ids))
        ids, ts, side, place = ids[order], ts[order], side[order], place[order]

        def accept(later: Ints, earlier: Ints) -> Flags:
            is_left = side[later] == 0
            lefts = place[np.where(is_left, later, earlier)]
            rights = place[np.where(is_left, earlier, later)]
            kept = self._page(left, right, lefts, rights)[1]
            return np.ones(len(later), np.bool_) if kept is None else kept

        if self._spec.residual is None:
            met = first_in_turn(ids.tolist(), ts.tolist(), side.tolist(), self._spans)
        else:
            met = first_accepted(ids, ts, side, self._spans, accept)
        met = met[np.argsort(ts[met[:, 0]], kind="stable")]
        of_left = side[met] == 0
        return place[np.stack([met[of_left], met[~of_left]], axis=1)] if len(met) else met

    def _page(self, left: pl.DataFrame, right: pl.DataFrame, lefts: Ints, rights: Ints) -> tuple[Page, Flags | None]:
        mine, others = gather(right, rights), gather(left, lefts)
        ts = np.maximum(mine[TS].to_numpy(), others[TS].to_numpy())
        return self._pairer.join(1, mine, others, ts, ts)

    def _groups(self, left: pl.DataFrame, right: pl.DataFrame) -> Ints:
        """Return numbers that are equal iff the keys are."""
        if self._pairer.is_exact or not self._spec.keys:
            return np.concatenate([left[KEY].to_numpy(), right[KEY].to_numpy()])
        return number_rows(pl.concat([left.select(self._keys[0]), right.select(self._keys[1])]))


def first_in_turn(ids: list[int], ts: list[int], side: list[int], spans: Spans) -> Ints:
    """Return pairs (later event, earlier event) if all tuples of a group match; events are in order within a group.

    What waits in a window is then always at most one side's: the next tuple of the other side takes the first.
    """
    met: list[tuple[int, int]] = []
    waiting: tuple[deque[int], deque[int]] = (deque(), deque())
    group: int | None = None
    for event, own in enumerate(side):
        if ids[event] != group:
            group = ids[event]
            waiting[0].clear()
            waiting[1].clear()
        others, span = waiting[1 - own], spans[1 - own]
        while others and span is not None and ts[others[0]] + span < ts[event]:
            others.popleft()
        if others:
            met.append((event, others.popleft()))
        else:
            waiting[own].append(event)
    return np.array(met, np.int64).reshape(-1, 2)


def first_accepted(ids: Ints, ts: Ints, side: Ints, spans: Spans, accept: Accept) -> Ints:
    """Return pairs (later event, earlier event): each takes the first before it that is accepted and free."""
    longest = None if None in spans else max(span for span in spans if span is not None)
    oldest = np.full(len(ts), BEGIN) if longest is None else ts - longest
    start = places_before(ids, ts, ids, oldest, inclusive=False)
    span = np.array([END if span is None else span for span in spans])
    free = np.ones(len(ts), np.bool_)
    met: list[tuple[int, int]] = []
    for later, earlier in candidates(start, np.arange(len(ts))):
        apart = ts[later] - ts[earlier]
        kept = (side[later] != side[earlier]) & (apart <= span[side[earlier]]) & free[later] & free[earlier]
        later, earlier = later[kept], earlier[kept]
        if not len(later):
            continue
        accepted = accept(later, earlier)
        for event, other in zip(later[accepted].tolist(), earlier[accepted].tolist(), strict=True):
            if free[event] and free[other]:
                free[event] = free[other] = False
                met.append((event, other))
    return np.array(met, np.int64).reshape(-1, 2)
