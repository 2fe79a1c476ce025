"""Compute new columns from each tuple."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_columns
from headrace.model.page import Completion, Element, Page
from headrace.model.schema import HIDDEN
from headrace.operators.expressions.evaluate import compile_expr, reads_texts_twice, select_sharing
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, computed_from, renamed
from headrace.operators.spec import Order, Spec
from headrace.operators.state.completed import named_as, shown_as


class Project(Spec, frozen=True, tag="project"):
    """The named expressions in this order; hidden columns of a page pass through."""

    columns: tuple[tuple[str, Expr], ...]

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> ProjectOperator:
        return ProjectOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"project {format_columns(self.columns)}"

    def keys_after(self, keys: Keys) -> Keys | None:
        return renamed(keys, self.columns)

    def keys_before(self, keys: Keys) -> Keys | None:
        return computed_from(keys, self.columns)

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class ProjectOperator(Operator):
    """The running half of `Project`."""

    def __init__(self, spec: Project) -> None:
        self._columns = [compile_expr(expr).alias(name) for name, expr in spec.columns]
        self._shown = shown_as(spec.columns)
        self._shares = reads_texts_twice([expr for _, expr in spec.columns])

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        # `__ts` is always there, so constants get the page's length.
        present = page.rows.columns
        chosen = [*self._columns, *(pl.col(name) for name in HIDDEN if name in present)]
        return (Page(select_sharing(page.rows, chosen) if self._shares else page.rows.select(chosen)),)

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        return named_as(completion, self._shown)
