"""Let out a tuple only if no equal one came shortly before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from msgspec import Struct

from headrace.elements.expression import Column, Expr
from headrace.elements.page import Element, Page, Punctuation
from headrace.elements.schema import TS
from headrace.operators.hashing import hash_columns
from headrace.operators.lookup import candidates, equal
from headrace.operators.operator import Operator, State
from headrace.operators.pending import Pending

_HASH = "__hash"
_PREVIOUS = "__previous"
_NEVER = np.iinfo(np.int64).min
#: Rows of a chunk of remembered values at most, unless a single batch brings more.
_LIMIT = 32_768


class Distinct(Struct, frozen=True, tag="distinct"):
    """A tuple comes out iff the equal one before it, in timestamp order, is more than `span` older, or there is none.

    `columns` are all visible columns; NULL equals NULL. Of equal tuples with equal timestamps one comes out.
    """

    columns: tuple[Column, ...]
    span: int

    @property
    def is_stateless(self) -> bool:
        return False

    def build(self) -> DistinctOperator:
        return DistinctOperator(self)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.columns


class DistinctOperator(Operator):
    """The running half of `Distinct`: tuples wait until the frontier has passed them, so the input need not be in order."""

    def __init__(self, spec: Distinct) -> None:
        self._names = [column.name for column in spec.columns]
        self._wanted = [*self._names, TS]
        self._span = spec.span
        self._pending = Pending()
        self._seen = _Seen(self._names, spec.span)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows.select(self._wanted))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        fresh = None if ready is None else self._fresh(ready, mark.bound)
        # Only now: the tuples just taken are older than the bound and may need older values.
        self._seen.expire(mark.bound)
        return (mark,) if fresh is None or fresh.height == 0 else (Page(fresh), mark)

    def _fresh(self, ready: pl.DataFrame, bound: int) -> pl.DataFrame:
        """The tuples that come out; remembers all."""
        ready = ready.sort(TS, maintain_order=True).with_columns(pl.col(TS).shift(1).over(self._names).alias(_PREVIOUS))
        first = ready[_PREVIOUS].is_null().to_numpy()
        values = ready.filter(first)
        hashes = hash_columns([values[name] for name in self._names])
        previous = ready[_PREVIOUS].fill_null(_NEVER).to_numpy().copy()
        previous[first] = self._seen.last(values, hashes)
        fresh = ready.filter(previous < ready[TS].to_numpy() - self._span).select(self._wanted)
        latest = ready.group_by(self._names, maintain_order=True).agg(pl.col(TS).max())  # in the order of `values`
        self._seen.add(latest.with_columns(pl.Series(_HASH, hashes)), bound)
        return fresh

    def state(self) -> State:
        return {**self._pending.state(), **self._seen.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._seen.restore(state)

    def held(self) -> int:
        return len(self._pending) + len(self._seen)


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    rows: pl.DataFrame  # sorted by hash
    high: int


class _Seen:
    """When each value was seen last, for as long as it matters.

    A batch adds one chunk; chunks of like size are merged, newer entries replacing older ones. A value may be in several chunks:
    the largest time counts.
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

    def last(self, values: pl.DataFrame, hashes: np.ndarray) -> np.ndarray:
        """For each of the values, which are distinct, when it was seen last."""
        result = np.full(values.height, _NEVER, dtype=np.int64)
        for chunk in self._chunks:
            left, right = candidates(chunk.rows[_HASH].to_numpy(), hashes)
            if len(left):
                ours, theirs = values[left], chunk.rows[right]
                agree = equal([ours[name] for name in self._names], [theirs[name] for name in self._names])
                found = left[agree]  # at most one row of a chunk equals a value, so no index comes twice
                result[found] = np.maximum(result[found], theirs[TS].to_numpy()[agree])
        return result

    def add(self, latest: pl.DataFrame, bound: int) -> None:
        """Remember distinct values with hash and time, all later than what is known of them."""
        rows = latest.filter(pl.col(TS) >= bound - self._span)
        if rows.height == 0:
            return
        number = self._next
        while self._chunks and _mergeable(self._chunks[-1].rows.height, rows.height):
            before = self._chunks.pop()
            number = before.number
            old = before.rows.filter(pl.col(TS) >= bound - self._span)
            rows = pl.concat([old, rows]).unique(subset=self._names, keep="last", maintain_order=True)
        rows = rows.sort(_HASH)
        self._chunks.append(_Chunk(number, rows, _latest(rows)))
        self._next = number + 1

    def state(self) -> dict[str, pl.DataFrame]:
        return {f"seen-{chunk.number}": chunk.rows for chunk in self._chunks}

    def restore(self, state: State) -> None:
        found = [(int(name.removeprefix("seen-")), rows) for name, rows in state.items() if name.startswith("seen-")]
        self._chunks = [_Chunk(number, rows, _latest(rows)) for number, rows in sorted(found, key=lambda pair: pair[0])]
        self._next = self._chunks[-1].number + 1 if self._chunks else 0


def _mergeable(before: int, new: int) -> bool:
    return before <= 2 * new and before + new <= _LIMIT


def _latest(rows: pl.DataFrame) -> int:
    return int(rows[TS].to_numpy().max())
