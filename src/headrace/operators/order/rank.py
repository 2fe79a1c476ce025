"""Number the tuples of a window in the order of some expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.rank import Ranking, RankOrder, format_order
from headrace.model.schema import HIDDEN, TS
from headrace.model.time import END, format_duration
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Spec
from headrace.operators.state.given import given_up
from headrace.operators.text import listed
from headrace.operators.windows.slices import firsts, group_numbers

_WINDOW = "__window"


class Rank(Spec, frozen=True, tag="rank"):
    """Each tuple with its place among those that agree in `by` and are in the same window of `size` microseconds.

    Windows are aligned; with size 1 they are instants. Of tuples that `order` does not tell apart, row_number puts the
    earlier one first, then goes by the columns named in `ties`. Windows that begin before `since` are left out.
    """

    size: int
    by: tuple[Expr, ...]
    order: tuple[RankOrder, ...]
    function: Ranking
    name: str
    ties: tuple[str, ...]
    since: int | UnsetType = UNSET  # not NULL, so that others are called as ever

    def build(self) -> RankOperator:
        return RankOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" of each {listed(self.by)}" if self.by else ""
        window = "" if self.size == 1 else f" in {format_duration(self.size)}"
        return f"{self.function}{per}{window} by {format_order(self.order)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        keys = tuple(self.by[i] for i in positions)
        return keys if all(isinstance(key, Column) for key in keys) else None

    @property
    def order_matters(self) -> bool:
        return False

    @property
    def hindrance(self) -> str | None:
        return None


class RankOperator(Operator):
    """The running half of `Rank`: tuples wait until their window is complete."""

    def __init__(self, spec: Rank) -> None:
        self._spec = spec
        self._by = [f"__by{i}" for i in range(len(spec.by))]
        self._keys = [f"__key{i}" for i in range(len(spec.order))]
        self._computed = [
            (pl.col(TS) // spec.size).alias(_WINDOW),
            *(compile_expr(expr).alias(name) for name, expr in zip(self._by, spec.by, strict=True)),
            *(compile_expr(term.expr).alias(name) for name, term in zip(self._keys, spec.order, strict=True)),
        ]
        groups = [_WINDOW, *self._by]
        self._sorting = [*groups, *self._keys, TS, *spec.ties]
        rest = len(self._sorting) - len(groups) - len(self._keys)
        self._descending = [False] * len(groups) + [term.descending for term in spec.order] + [False] * rest
        self._nulls_last = [False] * len(groups) + [not term.nulls_first for term in spec.order] + [False] * rest
        self._since = None if spec.since is UNSET else -(-spec.since // spec.size) * spec.size
        self._pending = Pending()

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows if self._since is None else page.rows.filter(pl.col(TS) >= self._since))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        # Results keep their timestamps, so the output is not ahead of the first window that is not complete.
        edge = END if mark.bound >= END else mark.bound // self._spec.size * self._spec.size
        ready = self._pending.take(edge)
        return (Punctuation(edge),) if ready is None else (Page(self._ranked(ready)), Punctuation(edge))

    def state(self) -> State:
        return self._pending.state()

    def restore(self, state: State) -> None:
        self._pending.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        return given_up(pending=self._pending.give(chosen_by(choose, keys[0])))

    def take(self, given: State) -> None:
        self._pending.add(given["pending"])

    def purge(self, port: int, pattern: Pattern) -> int:
        names = {expr.name for expr in self._spec.by if isinstance(expr, Column)}
        return self._pending.remove(pattern) if pattern.names <= names else 0

    def held(self) -> int:
        return len(self._pending)

    def due(self) -> int | None:
        oldest = self._pending.oldest()
        return None if oldest == END else (oldest // self._spec.size + 1) * self._spec.size

    def _ranked(self, rows: pl.DataFrame) -> pl.DataFrame:
        visible = [name for name in rows.columns if name not in HIDDEN]
        ordered = rows.with_columns(self._computed).sort(
            self._sorting, descending=self._descending, nulls_last=self._nulls_last, maintain_order=True
        )
        groups = group_numbers(ordered, [_WINDOW, *self._by])
        start = firsts(groups)
        position = np.arange(ordered.height)
        match self._spec.function:
            case "row_number":
                place = position - start
            case "rank":  # that of the first tuple with the same values
                place = firsts(group_numbers(ordered, [_WINDOW, *self._by, *self._keys])) - start
            case "dense_rank":
                values = group_numbers(ordered, [_WINDOW, *self._by, *self._keys])
                place = values - values[start]
        numbered = ordered.with_columns(pl.Series(self._spec.name, place + 1, dtype=pl.Int64))
        return numbered.select([*visible, self._spec.name, TS]).sort(TS, maintain_order=True)
