"""Let out a tuple only if no equal one came shortly before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import TS
from headrace.model.time import format_duration
from headrace.operators.capabilities import Choose
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.expressions.lookup import equal
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.repeats.last_seen import HASH, NEVER, LastSeen
from headrace.operators.text import listed


class Distinct(UnorderedByKey, frozen=True, tag="distinct"):
    """A tuple comes out iff the equal one before it, in timestamp order, is more than `span` older, or there is none.

    `columns` are all visible columns; NULL equals NULL. Of equal tuples with equal timestamps one comes out.
    """

    columns: tuple[Column, ...]
    span: int

    def build(self) -> DistinctOperator:
        return DistinctOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"distinct {listed(self.columns)} within {format_duration(self.span)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.columns

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(self.columns[i] for i in positions)


class DistinctOperator(Operator):
    """The running half of `Distinct`.

    Tuples wait until the frontier has passed them, so the input need not be in order.
    """

    def __init__(self, spec: Distinct) -> None:
        self._names = [column.name for column in spec.columns]
        self._columns = [*self._names, TS]
        self._span = spec.span
        self._pending = Pending()
        self._last_seen = LastSeen(self._names, spec.span)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows.select(self._columns))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        fresh = None if ready is None else self._fresh(ready, mark.bound)
        # Only now: the tuples just taken are older than the bound and may need older values.
        self._last_seen.expire(mark.bound)
        return (mark,) if fresh is None or fresh.height == 0 else (Page(fresh), mark)

    def _fresh(self, ready: pl.DataFrame, bound: int) -> pl.DataFrame:
        """Return the tuples that come out, in timestamp order; remember all of them."""
        rows, repeats = self._grouped(ready)
        stamps = rows[TS].to_numpy()
        first, final = ~repeats, np.append(~repeats[1:], True)
        values = rows.filter(first)
        previous = np.where(repeats, np.roll(stamps, 1), NEVER)
        previous[first] = self._last_seen.last(values)
        self._last_seen.add(values.with_columns(pl.Series(TS, stamps[final])), bound)
        return rows.filter(previous < stamps - self._span).select(self._columns).sort(TS, maintain_order=True)

    def _grouped(self, ready: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
        """Return the rows by hash, value and timestamp, and which of them have the same value as the row before."""
        hashes = hash_columns([ready[name] for name in self._names])
        order = np.lexsort((ready[TS].to_numpy(), hashes))
        rows = ready.with_columns(pl.Series(HASH, hashes))[order]
        repeats, hashes = self._repeats(rows), hashes[order]
        if np.any(
            (hashes[1:] == hashes[:-1]) & ~repeats[1:]
        ):  # values of equal hash may be mingled: rare, and worth a slow sort
            rows = rows.sort([HASH, *self._names, TS])
            repeats = self._repeats(rows)
        return rows, repeats

    def _repeats(self, rows: pl.DataFrame) -> np.ndarray:
        return np.append(
            False, equal([rows[name][1:] for name in self._names], [rows[name][:-1] for name in self._names])
        )

    def state(self) -> State:
        return {**self._pending.state(), **self._last_seen.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._last_seen.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        pending = self._pending.give(lambda rows: choose(rows, keys[0]))
        seen = self._last_seen.give(lambda rows: choose(rows, keys[0]))
        return {**({"pending": pl.concat(pending)} if pending else {}), **({} if seen is None else {"seen": seen})}

    def take(self, given: State) -> None:
        if "pending" in given:
            self._pending.add(given["pending"])
        if "seen" in given:
            self._last_seen.take(given["seen"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._pending.remove(pattern) + self._last_seen.remove(pattern)

    def held(self) -> int:
        return len(self._pending) + len(self._last_seen)

    def due(self) -> int | None:
        return self._pending.due()
