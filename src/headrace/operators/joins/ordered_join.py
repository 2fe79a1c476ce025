"""Join of two streams over time windows whose inputs are merged by timestamp, so that its output is in order too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from headrace.errors import InternalError
from headrace.model.expressions.expression import Expr
from headrace.model.page import Element, Page
from headrace.model.schema import TS
from headrace.operators.joins.join import JoinOperator
from headrace.operators.joins.pairing import Pairing
from headrace.operators.operator import Operator


class OrderedJoin(Pairing, frozen=True, omit_defaults=True, tag="ordered_join"):
    """The pairs of an inner `Join` in the order of their timestamps.

    A `whole` one is in one bucket, so that all its results are in order, not only those of each key. An outer join
    cannot keep its output in order: that a tuple has no partner is known only long after its timestamp.
    """

    whole: bool = False

    def __post_init__(self) -> None:
        if self.kind != "inner":
            raise InternalError(f"a {self.kind} join cannot keep its output in order: use Join")

    def build(self) -> Operator:
        return _OrderedJoin(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"{super().describe(inputs)}, by timestamp"

    @property
    def merges_inputs(self) -> bool:
        return True

    @property
    def hindrance(self) -> str | None:
        return "its inputs are merged by the timestamps of all tuples of its bucket"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return () if self.whole else tuple(pair[port] for pair in self.keys)


class _OrderedJoin(JoinOperator):
    """A tuple first drops what is too old for it on the other side, then meets the rest; the engine merges inputs."""

    def on_page(self, port: int, page: Page) -> Iterator[Element]:
        if len(page):
            self._sides[1 - port].purge(int(page.rows[TS][0]))
        # the pairs of one page come by key and in several pages; all before them were at most at the page's first
        # timestamp
        pages = [element.rows for element in super().on_page(port, page) if isinstance(element, Page)]
        if pages:
            yield Page(pl.concat(pages).sort(TS, maintain_order=True))
