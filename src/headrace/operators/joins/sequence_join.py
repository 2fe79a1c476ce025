"""Join of a stream with what follows it: a right tuple takes the newest, or the earliest unused, left tuple before it.

 The left input is in order, for 'chronicle' the right one too. A right tuple is answered as soon as the bound of the
left side says that none that could precede it is missing; it waits for nothing else. Left tuples are kept as long as a
right tuple that is still to be answered might take them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Column, Expr, substitute
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import EXPIRY, TS, Schema
from headrace.model.time import BEGIN, END
from headrace.model.window import Extent
from headrace.operators.arrays import KEY, Flags, Ints, gather
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.joins.consuming_join import ConsumingJoin
from headrace.operators.joins.join import Join
from headrace.operators.joins.pairing import Pairer
from headrace.operators.joins.sequence_match import (
    Accept,
    earliest_unused,
    first_come,
    last_come,
    number_rows,
    places_before,
)
from headrace.operators.joins.sequence_state import Predecessors
from headrace.operators.keyed_spec import ByKey
from headrace.operators.operator import Frontier, Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up
from headrace.operators.text import equalities, with_inputs


class SequenceJoin(ByKey, frozen=True, tag="sequence_join"):
    """The fields mean what `plan.nodes.SequenceJoin` says; port 0 is the left one."""

    mode: Literal["recent", "chronicle", "consuming"]
    inclusive: bool
    left: Schema
    right: Schema
    right_names: tuple[str, ...]
    keys: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    span: int | None
    padded: bool | UnsetType = UNSET  # not False, so that others are called as ever
    right_span: int | UnsetType | None = UNSET  # of 'consuming'

    def build(self) -> Operator:
        if self.mode == "consuming":
            return ConsumingJoin(self.pairing, (self.span, None if self.right_span is UNSET else self.right_span))
        return _SequenceJoin(self)

    @property
    def pairing(self) -> Join:
        """Return the join that makes pairs, whoever takes whom."""
        schemas = self.left, self.right
        return Join("inner", *schemas, self.right_names, self.keys, self.residual, Extent(), Extent(), False)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        on = equalities(self.keys, self.residual)
        if self.mode == "consuming":
            return with_inputs("consuming join", inputs, " x ") + on
        return with_inputs(f"{'padded ' if self.padded else ''}{self.mode} sequence", inputs, " then ") + on

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return tuple(pair[port] for pair in self.keys)

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        if not self.padded:
            return tuple(self.keys[i][0] for i in positions)
        names = {field.name: Column(name, field.type) for field, name in zip(self.right, self.right_names, strict=True)}
        return tuple(substitute(self.keys[i][1], names) for i in positions)

    @property
    def order_matters(self) -> bool:
        return False  # an input that must be in order is sorted before


class _SequenceJoin(Operator):
    """Left tuples that may still be taken, and right tuples that wait for the bound of the left side.

    Both methods are lazy, so that a huge result is never in memory as a whole: consume them before the next call.
    """

    def __init__(self, spec: SequenceJoin) -> None:
        self._spec = spec
        self._pairer = Pairer(spec.pairing)
        self._keys = tuple(
            tuple(compile_expr(pair[port]).alias(f"__key{i}") for i, pair in enumerate(spec.keys)) for port in (0, 1)
        )
        self._before = Predecessors()
        self._waiting = Pending()
        self._frontier = Frontier(2)
        self._promised = BEGIN
        self._bounds: pl.DataFrame | None = None

    def on_page(self, port: int, page: Page) -> Iterator[Element]:
        rows, known = self._pairer.arrange(port, page)
        rows = rows.drop(EXPIRY)
        if known is not None:  # NULL equals nothing
            yield from self._padded(rows.filter(~known)) if port == 1 else ()
            rows = rows.filter(known)
        if rows.is_empty():
            return
        if port == 0:
            if self._next() < END:
                self._before.add(rows)
            return
        is_ready = rows[TS] < self._answerable()
        self._waiting.add(rows.filter(~is_ready))
        yield from self._answer(rows.filter(is_ready))

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterator[Element]:
        if mark.bound <= self._frontier.bounds[port]:
            return
        self._frontier.advance(port, mark.bound)
        self._bounds = None
        ready = self._waiting.take(self._answerable())
        if ready is not None:
            yield from self._answer(ready)
        self._forget()
        # not that of the first tuple that waits: others that wait may come from another bucket
        bound = min(self._frontier.bounds[1], self._answerable()) if self._frontier.minimum > BEGIN else BEGIN
        if bound > self._promised:
            self._promised = bound
            yield Punctuation(bound)

    def state(self) -> State:
        if self._bounds is None:
            left, right = self._frontier.bounds
            self._bounds = pl.DataFrame({"left": [left], "right": [right], "promised": [self._promised]})
        return {"bounds": self._bounds} | self._before.state() | self._waiting.state()

    def restore(self, state: State) -> None:
        self._before.restore(state)
        self._waiting.restore(state)
        self._bounds = state.get("bounds")
        left, right, self._promised = (BEGIN, BEGIN, BEGIN) if self._bounds is None else self._bounds.row(0)
        self._frontier.bounds = [left, right]

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        before = self._before.give(chosen_by(choose, keys[0]))
        return given_up(before=before, waiting=self._waiting.give(chosen_by(choose, keys[1])))

    def take(self, given: State) -> None:
        if "before" in given:
            self._before.take_in(given["before"])
        if "waiting" in given:
            self._waiting.add(given["waiting"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._before.remove(pattern) if port == 0 else self._waiting.remove(pattern)

    def held(self) -> int:
        return len(self._before) + len(self._waiting)

    def due(self) -> int | None:
        oldest = self._waiting.oldest()
        return None if oldest == END else oldest + 1 if self._spec.inclusive else oldest

    def _answerable(self) -> int:
        """Return the bound below which right tuples have all left tuples that precede them."""
        bound = self._frontier.bounds[0]
        return bound if self._spec.inclusive else bound + 1

    def _next(self) -> int:
        """Return the smallest timestamp that a right tuple still to be answered can have."""
        return min(self._frontier.bounds[1], self._waiting.oldest())

    def _answer(self, rights: pl.DataFrame) -> Iterator[Page]:
        """Yield the pairs of these right tuples, which are in order for 'chronicle'."""
        touched = np.flatnonzero(np.isin(self._before.keys, rights[KEY].to_numpy()))
        if not len(touched) or rights.is_empty():
            yield from self._padded(rights)
            return
        lefts = self._before.take(touched)
        left_ids, right_ids = self._groups(lefts, rights)
        a, b = np.argsort(left_ids, kind="stable"), np.argsort(right_ids, kind="stable")  # by group, in order within
        lefts, rights = gather(lefts, a), gather(rights, b)
        left_ts, right_ts = lefts[TS].to_numpy(), rights[TS].to_numpy()
        left_ids, right_ids = left_ids[a], right_ids[b]
        stop = places_before(left_ids, left_ts, right_ids, right_ts, inclusive=self._spec.inclusive)
        oldest = right_ts - self._spec.span if self._spec.span is not None else np.full(len(right_ts), BEGIN)
        start = places_before(left_ids, left_ts, right_ids, oldest, inclusive=False)
        if self._spec.residual is None:
            taken = (
                earliest_unused(start, stop) if self._spec.mode == "chronicle" else np.where(start < stop, stop - 1, -1)
            )
        else:
            accept = self._test(lefts, rights)
            taken = (
                first_come(start, stop, accept, len(left_ts))
                if self._spec.mode == "chronicle"
                else last_come(start, stop, accept)
            )
        matched = np.flatnonzero(taken >= 0)
        if len(matched):
            places = taken[matched]
            page, _ = self._pairer.join(
                1, gather(rights, matched), gather(lefts, places), right_ts[matched], right_ts[matched]
            )
            if self._spec.mode == "chronicle":
                self._before.drop(touched[a[places]])
            yield page
        if len(matched) < len(taken):
            yield from self._padded(gather(rights, np.flatnonzero(taken < 0)))

    def _padded(self, rights: pl.DataFrame) -> Iterator[Page]:
        """Yield right tuples that have no left one, if they come out."""
        if self._spec.padded is True and rights.height:
            yield self._pairer.pad(1, rights)

    def _test(self, lefts: pl.DataFrame, rights: pl.DataFrame) -> Accept:
        def accept(right_places: Ints, left_places: Ints) -> Flags:
            right, left = gather(rights, right_places), gather(lefts, left_places)
            ts = right[TS].to_numpy()
            _, kept = self._pairer.join(1, right, left, ts, ts)
            return np.ones(len(ts), np.bool_) if kept is None else kept

        return accept

    def _groups(self, lefts: pl.DataFrame, rights: pl.DataFrame) -> tuple[Ints, Ints]:
        """Return numbers that are equal iff the keys are."""
        if self._pairer.is_exact or not self._spec.keys:
            return lefts[KEY].to_numpy(), rights[KEY].to_numpy()
        numbers = number_rows(pl.concat([lefts.select(self._keys[0]), rights.select(self._keys[1])]))
        return numbers[: lefts.height], numbers[lefts.height :]

    def _forget(self) -> None:
        """Drop the left tuples that no right tuple still to be answered can take."""
        coming = self._next()
        ts = self._before.ts
        if coming >= END:
            self._before.drop(np.arange(len(ts)))
            return
        if self._spec.span is not None:
            self._before.drop(np.arange(np.searchsorted(ts, coming - self._spec.span, "left")))
        if self._spec.mode == "recent" and self._spec.residual is None:
            self._before.drop(self._superseded(coming))

    def _superseded(self, coming: int) -> Ints:
        """Return the left tuples with a newer one of the same key that precedes whatever comes."""
        cut = int(np.searchsorted(self._before.ts, coming, "right" if self._spec.inclusive else "left"))
        keys = self._before.keys[:cut]
        order = np.argsort(keys, kind="stable")
        again = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
        if not len(again):
            return again
        if not self._pairer.is_exact and self._spec.keys:  # equal numbers may be those of different keys
            suspects = np.flatnonzero(np.isin(keys, keys[order[again]]))
            ids = number_rows(self._before.take(suspects).select(self._keys[0]))
            order = np.argsort(ids, kind="stable")
            again = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
            order = suspects[order]
        superseded: Ints = order[again]
        return superseded
