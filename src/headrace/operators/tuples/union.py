"""Merge inputs of equal schemas into one bag of tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.schema import HIDDEN, TS
from headrace.model.time import BEGIN
from headrace.operators.operator import Frontier, Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Order, Spec
from headrace.operators.state.completed import Completed
from headrace.operators.text import with_inputs


class Union(Spec, frozen=True, tag="union"):
    """All tuples of all ports as they come: no order among ports, no waiting."""

    ports: int

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> UnionOperator:
        return UnionOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return with_inputs("union", inputs, ", ")

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys

    @property
    def output_order(self) -> Order:
        return Order.NONE


class UnionOperator(Operator):
    """The running half of `Union`."""

    def __init__(self, spec: Union) -> None:
        self._frontier = Frontier(spec.ports)
        self._completed = Completed(spec.ports)
        self._chunk: pl.DataFrame | None = None  # made when it is asked for; bounds change far more often

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        # Sequence numbers and expiries of different inputs do not compare; the timestamp always stands last.
        present = page.rows.columns
        columns = [*(name for name in present if name not in HIDDEN), TS]
        return (page if columns == present else Page(page.rows.select(columns)),)

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        before = self._frontier.bounds[port]
        bound = self._frontier.advance(port, mark.bound)
        if self._frontier.bounds[port] > before:
            self._chunk = None
            self._completed.expire(port, mark.bound)
        ends = self._ends() if self._completed else ()
        return ends if bound is None else (*ends, Punctuation(bound))

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        return self._ends() if self._completed.add(port, completion.rows, self._frontier.bounds[port]) else ()

    def _ends(self) -> tuple[Completion, ...]:
        """Return the keys that are complete at all ports now."""
        rows = self._completed.news(self._frontier.bounds)
        return () if rows is None else (Completion(rows),)

    def lower(self, state: State) -> None:
        """Go back to bounds that were saved elsewhere, where they are lower: earlier tuples come here from there."""
        if "bounds" in state:
            self._frontier.bounds = list(map(min, self._frontier.bounds, state["bounds"]["bound"].to_list()))
            self._chunk = None

    def state(self) -> State:
        # The end of a port does not come again after a restart, so its bound must survive.
        if self._chunk is None and max(self._frontier.bounds) > BEGIN:
            self._chunk = pl.DataFrame({"bound": self._frontier.bounds})
        return {**({} if self._chunk is None else {"bounds": self._chunk}), **self._completed.state()}

    def restore(self, state: State) -> None:
        self._completed.restore(state)
        if "bounds" in state:
            self._chunk = state["bounds"]
            self._frontier.bounds = self._chunk["bound"].to_list()
