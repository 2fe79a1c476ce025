"""Let out a tuple only if no equal one came shortly before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern, without
from headrace.model.schema import TS
from headrace.model.time import format_duration
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.expressions.lookup import candidates, equal
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.spec import Spec
from headrace.operators.text import listed

_HASH = "__hash"
_NEVER = np.iinfo(np.int64).min
#: Rows of a chunk of remembered values at most, unless a single batch brings more.
_LIMIT = 32_768


class Distinct(Spec, frozen=True, tag="distinct"):
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

    @property
    def order_matters(self) -> bool:
        return False


class DistinctOperator(Operator):
    """The running half of `Distinct`.

    Tuples wait until the frontier has passed them, so the input need not be in order.
    """

    def __init__(self, spec: Distinct) -> None:
        self._names = [column.name for column in spec.columns]
        self._columns = [*self._names, TS]
        self._span = spec.span
        self._pending = Pending()
        self._last_seen = _Seen(self._names, spec.span)

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
        previous = np.where(repeats, np.roll(stamps, 1), _NEVER)
        previous[first] = self._last_seen.last(values)
        self._last_seen.add(values.with_columns(pl.Series(TS, stamps[final])), bound)
        return rows.filter(previous < stamps - self._span).select(self._columns).sort(TS, maintain_order=True)

    def _grouped(self, ready: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
        """Return the rows by hash, value and timestamp, and which of them have the same value as the row before."""
        hashes = hash_columns([ready[name] for name in self._names])
        order = np.lexsort((ready[TS].to_numpy(), hashes))
        rows = ready.with_columns(pl.Series(_HASH, hashes))[order]
        repeats, hashes = self._repeats(rows), hashes[order]
        if np.any(
            (hashes[1:] == hashes[:-1]) & ~repeats[1:]
        ):  # values of equal hash may be mingled: rare, and worth a slow sort
            rows = rows.sort([_HASH, *self._names, TS])
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

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._pending.remove(pattern) + self._last_seen.remove(pattern)

    def held(self) -> int:
        return len(self._pending) + len(self._last_seen)

    def due(self) -> int | None:
        return self._pending.due()


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    rows: pl.DataFrame  # sorted by hash
    high: int


class _Seen:
    """When each value was seen last, for as long as it matters.

    A batch adds one chunk; chunks of like size are merged, newer entries replacing older ones. A value may be in
    several chunks: the largest time counts.
    """

    def __init__(self, names: list[str], span: int) -> None:
        self._names = names
        self._span = span
        self._chunks: list[_Chunk] = []
        self._next = 0

    def __len__(self) -> int:
        return sum(chunk.rows.height for chunk in self._chunks)

    def expire(self, bound: int) -> None:
        """Forget chunks that no tuple from `bound` on can need."""
        if any(chunk.high < bound - self._span for chunk in self._chunks):
            self._chunks = [chunk for chunk in self._chunks if chunk.high >= bound - self._span]

    def last(self, values: pl.DataFrame) -> np.ndarray:
        """Return for each of the values, which are distinct and sorted by hash, when it was seen last."""
        hashes = values[_HASH].to_numpy()
        result = np.full(values.height, _NEVER, dtype=np.int64)
        for chunk in self._chunks:
            left, right = candidates(chunk.rows[_HASH].to_numpy(), hashes)
            if len(left):
                ours, theirs = values[left], chunk.rows[right]
                agree = equal([ours[name] for name in self._names], [theirs[name] for name in self._names])
                repeated = left[agree]  # at most one row of a chunk equals a value, so no index comes twice
                result[repeated] = np.maximum(result[repeated], theirs[TS].to_numpy()[agree])
        return result

    def add(self, latest: pl.DataFrame, bound: int) -> None:
        """Remember distinct values, sorted by hash, with times later than what is known of them."""
        rows = latest.filter(pl.col(TS) >= bound - self._span)
        if rows.height == 0:
            return
        number = self._next
        while self._chunks and _mergeable(self._chunks[-1].rows.height, rows.height):
            before = self._chunks.pop()
            number = before.number
            old = before.rows.filter(pl.col(TS) >= bound - self._span)
            rows = pl.concat([old, rows]).unique(subset=self._names, keep="last", maintain_order=True).sort(_HASH)
        self._chunks.append(_Chunk(number, rows, _latest(rows)))
        self._next = number + 1

    def remove(self, pattern: Pattern) -> int:
        """Forget values that match; returns how many."""
        before, kept = len(self), list[_Chunk]()
        for chunk in self._chunks:
            rows = without(pattern, chunk.rows)
            if rows.height:
                kept.append(chunk if rows is chunk.rows else _Chunk(chunk.number, rows, _latest(rows)))
        self._chunks = kept
        return before - len(self)

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"seen-{chunk.number}": chunk.rows for chunk in self._chunks}

    def restore(self, state: State) -> None:
        chunks = [(int(name.removeprefix("seen-")), rows) for name, rows in state.items() if name.startswith("seen-")]
        self._chunks = [
            _Chunk(number, rows, _latest(rows)) for number, rows in sorted(chunks, key=lambda pair: pair[0])
        ]
        self._next = self._chunks[-1].number + 1 if self._chunks else 0


def _mergeable(before: int, new: int) -> bool:
    return before <= 2 * new and before + new <= _LIMIT


def _latest(rows: pl.DataFrame) -> int:
    return int(rows[TS].to_numpy().max())
