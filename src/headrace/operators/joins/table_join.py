"""Join each tuple with the rows of a stored table."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.errors import InternalError
from headrace.model.expressions.expression import Cast, Column, Expr
from headrace.model.page import Element, Page
from headrace.model.schema import HIDDEN, Schema
from headrace.model.types import common_type
from headrace.operators.joins.table_search import TableSearch
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, columns_in
from headrace.operators.spec import Order, Spec
from headrace.operators.tables import stored_table
from headrace.operators.text import equalities, with_inputs


class TableJoin(Spec, frozen=True, tag="table_join"):
    """Each tuple with the table rows that agree on all `keys` (tuple expression = table column) and satisfy `residual`.

    `rows` is the table as an Arrow IPC stream, or empty if there is a `digest` of it (`operators.tables`).
    `table_names` are its columns' names in the output, which `residual` uses.
    NULL keys never match. A left join pads a tuple that has no partner.
    """

    rows: bytes
    schema: Schema
    kind: typing.Literal["inner", "left"]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    table_names: tuple[str, ...]
    digest: str | UnsetType = UNSET  # not NULL, so that others are called as ever
    table: str | UnsetType = UNSET  # whose rows those of the version in force are (`commands.tables`)

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> TableJoinOperator:
        return TableJoinOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        word = "join" if self.kind == "inner" else f"{self.kind} join"
        sides = (*inputs, "table") if inputs else ()
        return with_inputs(word, sides, " x ") + equalities(self.keys, self.residual)

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys if columns_in(keys).isdisjoint(self.table_names) else None

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class TableJoinOperator(Operator):
    """The running half of `TableJoin`."""

    def __init__(self, spec: TableJoin) -> None:
        types = spec.schema.polars()
        table = stored_table(spec.rows, spec.digest).select([pl.col(name).cast(of) for name, of in types.items()])
        keys = [_key(expr, spec.schema, name) for expr, name in spec.keys]
        self._search = TableSearch(table, keys, spec.residual, spec.table_names)
        self._is_left = spec.kind == "left"

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        left, right = self._search.pairs(page.rows)
        if self._is_left:
            alone = np.ones(len(page), dtype=bool)
            alone[left] = False
            unmatched = np.flatnonzero(alone)
            left = np.concatenate([left, unmatched])
            right = np.concatenate([right, np.full(len(unmatched), self._search.height)])
            order = np.argsort(left, kind="stable")
            left, right = left[order], right[order]
        return (Page(self._joined(page.rows, left, right)),) if len(left) else ()

    def _joined(self, rows: pl.DataFrame, left: np.ndarray, right: np.ndarray) -> pl.DataFrame:
        table = self._search.rows
        hidden = [name for name in rows.columns if name in HIDDEN]
        return (
            rows[left]
            .hstack(table[right])
            .select([*(name for name in rows.columns if name not in HIDDEN), *table.columns, *hidden])
        )


def _key(expr: Expr, schema: Schema, name: str) -> tuple[Expr, Expr]:
    """Return a key as an expression over the tuple and one over the table, both of their common type."""
    field = schema.find(name)
    common = None if field is None else common_type(expr.type, field.type)
    if field is None or common is None:
        raise InternalError(f"table column {name!r} cannot be a key for {expr.type.value}")
    column = Column(name, field.type)
    return (
        expr if expr.type == common else Cast(expr, common),
        column if field.type == common else Cast(column, common),
    )
