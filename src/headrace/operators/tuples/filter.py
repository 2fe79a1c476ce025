"""Keep the tuples that satisfy a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.model.expressions.expression import FALSE, Expr
from headrace.model.expressions.text import format_expr
from headrace.model.page import Completion, Element, Page
from headrace.model.types import Type
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Order, Spec


class Filter(Spec, frozen=True, tag="filter"):
    """The tuples for which the predicate is true; NULL is not."""

    predicate: Expr

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> FilterOperator:
        return FilterOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"filter {format_expr(self.predicate)}"

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class FilterOperator(Operator):
    """The running half of `Filter`."""

    def __init__(self, spec: Filter) -> None:
        # `filter` itself takes NULL for false, but the bare NULL has not even the right type.
        self._predicate = compile_expr(spec.predicate if spec.predicate.type is Type.BOOLEAN else FALSE)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        kept = page.rows.filter(self._predicate)
        return (Page(kept),) if kept.height else ()

    def on_completion(self, port: int, completion: Completion) -> Iterable[Element]:
        return (completion,)
