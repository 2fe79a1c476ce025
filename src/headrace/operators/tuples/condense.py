"""Tuples of one instant that are alike as one, before they are joined: aggregates above the join need no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page
from headrace.model.schema import TS
from headrace.model.window import AggregateCall
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, columns_in
from headrace.operators.spec import Order, Spec

#: So many tuples of a page say whether it is worth while: tuples stay by themselves if more than this share differs.
_SAMPLE, _DIFFERENT = 1024, 0.8


class Condense(Spec, frozen=True, tag="condense"):
    """One row for tuples of a page that agree in timestamp and `keys`, with counts, sums, least and greatest values.

    A tuple that stays by itself is such a row, too: whatever reads the rows cannot tell the difference.
    """

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> CondenseOperator:
        return CondenseOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"condense what agrees in {', '.join(('time', *self.keys))}"

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys if columns_in(keys) <= set(self.keys) else None

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys if columns_in(keys) <= set(self.keys) else None

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class CondenseOperator(Operator):
    """The running half of `Condense`."""

    def __init__(self, spec: Condense) -> None:
        self._by = [*spec.keys, TS]
        self._together = [_together(call).alias(call.name) for call in spec.calls]
        self._alone = [_alone(call).alias(call.name) for call in spec.calls]

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        sample = page.rows.head(_SAMPLE).select(self._by)
        if sample.n_unique() > _DIFFERENT * sample.height:
            rows = page.rows.select(*self._by[:-1], *self._alone, TS)
        else:
            found = page.rows.group_by(self._by, maintain_order=True).agg(self._together)
            rows = found.select(*self._by[:-1], *(expr.meta.output_name() for expr in self._together), TS)
        if rows.height:
            yield Page(rows)


def _values(call: AggregateCall) -> pl.Expr:
    assert isinstance(call.arg, Column)
    return pl.col(call.arg.name)


def _together(call: AggregateCall) -> pl.Expr:
    """Return an aggregate of several tuples; a sum of nothing but NULL is NULL."""
    if call.arg is None:
        return pl.len().cast(pl.Int64)
    values = _values(call)
    match call.function:
        case "count":
            return values.count().cast(pl.Int64)
        case "sum":
            return pl.when(values.count() > 0).then(values.cast(pl.Int64).sum())
        case "min":
            return values.min()
        case _:
            return values.max()


def _alone(call: AggregateCall) -> pl.Expr:
    """Return the aggregate of one tuple."""
    if call.arg is None:
        return pl.lit(1, pl.Int64)
    values = _values(call)
    match call.function:
        case "count":
            return values.is_not_null().cast(pl.Int64)
        case "sum":
            return values.cast(pl.Int64)
        case _:
            return values
