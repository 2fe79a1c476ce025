"""Aggregates in SQL that return values as tuples come: what each tuple of a partition returns, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.patterns.pattern import Pattern
from headrace.model.window import AggregateCall
from headrace.operators.arrays import Flags
from headrace.operators.state.hash_slots import SLOT, Slots
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.fold_code import code_of
from headrace.operators.windows.folds import nulls_in, tuples_of
from headrace.operators.windows.slices import firsts, group_numbers


def runs(calls: Sequence[AggregateCall]) -> bool:
    """Return whether these calls run over all tuples before, one after the other."""
    return bool(calls) and all(call.fold is not None for call in calls)


class RunningFolds:
    """The tables of each key, as bytes; they are decoded for the keys of a page."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._names, self._calls = aggregates.names, aggregates.calls
        self._counts = [aggregates.argument(_counts(call)) for call in self._calls]
        self._values = [[aggregates.argument(expr) for expr in call.more] for call in self._calls]
        self._kept = [f"__kept{i}" for i in range(len(self._calls))]
        self._groups = Slots("kept", self._names)

    def extend(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Take in tuples in the order of keys and time; return what each of them returned, a column for each call."""
        fresh = self._groups.assign(rows)
        touched = fresh[SLOT].unique(maintain_order=True).to_list()
        before = self._groups.of(touched)
        numbers = group_numbers(fresh, self._names)
        starts = np.unique(firsts(numbers))
        heads = fresh[starts].select(*self._names, SLOT)
        bounds = [*starts.tolist(), fresh.height]
        kept = _joined(heads, before, self._names, self._kept)
        columns = []
        for i, call in enumerate(self._calls):
            returned, states = self._run(i, fresh, bounds, kept[self._kept[i]].to_list())
            columns.append(pl.Series(call.name, returned, dtype=call.type.polars))
            heads = heads.with_columns(pl.Series(self._kept[i], states, dtype=pl.Binary))
        others = [_others(part, heads, self._names) for part in before]
        self._groups.replace(touched, pl.concat([*(part.select(heads.columns) for part in others), heads]))
        return pl.DataFrame(columns)

    def _run(
        self, number: int, rows: pl.DataFrame, bounds: Sequence[int], kept: Iterable[bytes | None]
    ) -> tuple[list[list[Any]], list[bytes | None]]:
        counts = rows[self._counts[number]].fill_null(False).to_list()
        columns = [rows[name] for name in self._values[number]]
        tuples, fold = tuples_of(columns, rows.height), self._calls[number].fold
        assert fold is not None
        run = code_of(fold, nulls_in(columns)).run
        returned: list[list[Any]] = []
        states: list[bytes | None] = []
        for start, stop, packed in zip(bounds, bounds[1:], kept, strict=False):
            taken = [tuples[i] for i in range(start, stop) if counts[i]]
            if taken:
                state, outs = run(None if packed is None else _decoded(packed), taken)
                packed, results = msgspec.msgpack.encode(state), iter(outs)
                returned += [next(results) if counts[i] else [] for i in range(start, stop)]
            else:
                returned += [[] for _ in range(start, stop)]
            states.append(packed)
        return returned, states

    def expire(self, bound: int) -> None:
        """Keep all: a key may come back."""

    def state(self) -> dict[str, pl.DataFrame]:
        return self._groups.state()

    def restore(self, state: Mapping[str, pl.DataFrame]) -> None:
        self._groups.restore(state)

    def remove(self, pattern: Pattern) -> int:
        return self._groups.remove(pattern)

    def give(self, choose: Callable[[pl.DataFrame], Flags]) -> pl.DataFrame | None:
        return self._groups.give(choose)

    def take(self, given: pl.DataFrame) -> None:
        self._groups.take(given)

    def __len__(self) -> int:
        return len(self._groups)


def _counts(call: AggregateCall) -> Expr:
    assert call.arg is not None
    return call.arg


def _decoded(packed: bytes) -> Any:
    return msgspec.msgpack.decode(packed)


def _joined(heads: pl.DataFrame, before: Sequence[pl.DataFrame], names: list[str], kept: list[str]) -> pl.DataFrame:
    """Return what is kept of the keys in `heads`, in their order; NULL for new ones."""
    if not before:
        return pl.DataFrame({name: pl.Series([None] * heads.height, dtype=pl.Binary) for name in kept})
    known = pl.concat([part.select(*names, *kept) for part in before])
    if not names:
        return known
    return heads.join(known, on=names, how="left", nulls_equal=True, maintain_order="left")


def _others(part: pl.DataFrame, heads: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return part.join(heads, on=names, how="anti", nulls_equal=True) if names else part.clear()
