"""Put tuples into timestamp order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.changelog import CHANGE, REMOVALS
from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_name
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import SEQ, TS
from headrace.operators.capabilities import Choose
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.text import with_inputs


class Reorder(UnorderedByKey, frozen=True, tag="reorder"):
    """The same tuples by (timestamp, columns named in `order`, arrival), each as soon as nothing earlier can come.

    Order holds among the tuples that agree in `by`: others may be in another bucket. If the first of `order` is the
    column that says what happened to a row, rows that are taken back come before new ones.
    """

    by: tuple[Expr, ...]
    order: tuple[str, ...]

    def build(self) -> ReorderOperator:
        return ReorderOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        order = ", ".join("arrival" if name == SEQ else format_name(name) for name in self.order)
        return f"{with_inputs('sort', inputs, ', ')} by timestamp, {order}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(self.by[i] for i in positions)


class ReorderOperator(Operator):
    """The running half of `Reorder`."""

    def __init__(self, spec: Reorder) -> None:
        self._order = [TS, *spec.order]
        self._pending = Pending()

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        if ready is None:
            return (mark,)
        order: list[pl.Expr] = [pl.col(name) for name in self._order]
        if self._order[1:2] == [CHANGE] and ready.schema[CHANGE] == pl.String:
            order.insert(1, ~pl.col(CHANGE).is_in(REMOVALS).fill_null(value=False))
        return (Page(ready.sort(order, maintain_order=True)), mark)

    def state(self) -> State:
        return self._pending.state()

    def restore(self, state: State) -> None:
        self._pending.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given = self._pending.give(lambda rows: choose(rows, keys[0]))
        return {"pending": pl.concat(given)} if given else {}

    def take(self, given: State) -> None:
        self._pending.add(given["pending"])

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._pending.remove(pattern)

    def held(self) -> int:
        return len(self._pending)

    def due(self) -> int | None:
        return self._pending.due()
