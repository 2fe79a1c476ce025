"""Tuples that wait until somebody asks for the results of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern
from headrace.model.time import BEGIN, END
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.keyed_spec import UnorderedByKey
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Order

_BOUND = "bound"


class Hold(UnorderedByKey, frozen=True, tag="hold"):
    """The same tuples, when the query is asked, or when more than `limit` of them wait, or at the end of a stream.

    It lies by the keys of its reader.
    """

    query: str
    by: tuple[Expr, ...]
    limit: int

    def build(self) -> HoldOperator:
        return HoldOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"hold until {self.query} is asked"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(self.by[i] for i in positions)

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class HoldOperator(Operator):
    """The running half of `Hold`: it keeps tuples and the newest bound, and passes on nothing by itself."""

    def __init__(self, spec: Hold) -> None:
        self._spec = spec
        self._pending = Pending()
        self._bound = BEGIN

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        self._pending.add(page.rows)
        return self.release() if len(self._pending) > self._spec.limit else ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        self._bound = max(self._bound, mark.bound)
        return self.release() if self._bound >= END else ()

    def release(self) -> Sequence[Element]:
        """Give up all tuples in the order of their arrival, then the bound."""
        pages: list[Element] = [Page(rows) for rows in self._pending.take_all()]
        return [*pages, Punctuation(self._bound)] if self._bound > BEGIN else pages

    def state(self) -> State:
        known = {_BOUND: pl.DataFrame({_BOUND: [self._bound]})} if self._bound > BEGIN else {}
        return {**self._pending.state(), **known}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        self._bound = int(state[_BOUND][_BOUND][0]) if _BOUND in state else BEGIN

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        given = self._pending.give(chosen_by(choose, keys[0]))
        return {f"pending-{number}": rows for number, rows in enumerate(given)}

    def take(self, given: State) -> None:
        for name in sorted(given, key=lambda name: int(name.removeprefix("pending-"))):
            self._pending.add(given[name])

    def purge(self, port: int, pattern: Pattern) -> int:
        return self._pending.remove(pattern)

    def held(self) -> int:
        return len(self._pending)
