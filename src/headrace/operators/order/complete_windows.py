"""Tuples that wait until their window is complete, and then are seen in an order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Column, Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.rank import RankOrder
from headrace.model.schema import HIDDEN, TS
from headrace.model.time import END
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up

_WINDOW = "__window"


class CompleteWindows(Operator):
    """Give `computed` the tuples of complete windows of `size` microseconds, sorted by window, `by` and `order`.

    Of tuples that `order` does not tell apart the earlier one is first, then the columns `ties` decide. Windows that
    begin before `since` are left out.
    """

    def __init__(
        self,
        size: int,
        by: tuple[Expr, ...],
        order: tuple[RankOrder, ...],
        ties: tuple[str, ...],
        since: int | UnsetType,
    ) -> None:
        self._size, self._plain_keys = size, {expr.name for expr in by if isinstance(expr, Column)}
        by_names = [f"__by{i}" for i in range(len(by))]
        terms = [f"__key{i}" for i in range(len(order))]
        #: The columns that tell groups apart, and those that tell places apart.
        self.groups = [_WINDOW, *by_names]
        self.places = [*self.groups, *terms]
        self._columns = [
            (pl.col(TS) // size).alias(_WINDOW),
            *(compile_expr(expr).alias(name) for name, expr in zip(by_names, by, strict=True)),
            *(compile_expr(term.expr).alias(name) for name, term in zip(terms, order, strict=True)),
        ]
        self._sorting = [*self.places, TS, *ties]
        rest = len(self._sorting) - len(self.places)
        self._descending = [False] * len(self.groups) + [term.descending for term in order] + [False] * rest
        self._nulls_last = [False] * len(self.groups) + [not term.nulls_first for term in order] + [False] * rest
        self._since = None if since is UNSET else -(-since // size) * size
        self._pending = Pending()

    @abstractmethod
    def computed(self, ordered: pl.DataFrame) -> list[pl.Series]:
        """Return the new columns of tuples in order."""

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows if self._since is None else page.rows.filter(pl.col(TS) >= self._since))
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        # Results keep their timestamps, so the output is not ahead of the first window that is not complete.
        edge = END if mark.bound >= END else mark.bound // self._size * self._size
        ready = self._pending.take(edge)
        return (Punctuation(edge),) if ready is None else (Page(self._with_columns(ready)), Punctuation(edge))

    def state(self) -> State:
        return self._pending.state()

    def restore(self, state: State) -> None:
        self._pending.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        return given_up(pending=self._pending.give(chosen_by(choose, keys[0])))

    def take(self, given: State) -> None:
        self._pending.add(given["pending"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._pending.remove(pattern) if pattern.names <= self._plain_keys else 0

    def held(self) -> int:
        return len(self._pending)

    def due(self) -> int | None:
        oldest = self._pending.oldest()
        return None if oldest == END else (oldest // self._size + 1) * self._size

    def _with_columns(self, rows: pl.DataFrame) -> pl.DataFrame:
        visible = [name for name in rows.columns if name not in HIDDEN]
        ordered = rows.with_columns(self._columns).sort(
            self._sorting, descending=self._descending, nulls_last=self._nulls_last, maintain_order=True
        )
        new = self.computed(ordered)
        names = [column.name for column in new]
        return ordered.with_columns(new).select([*visible, *names, TS]).sort(TS, maintain_order=True)
