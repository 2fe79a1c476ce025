"""Join each tuple with the rows of a stored table."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Literal as OneOf

import numpy as np
import polars as pl
from msgspec import Struct

from headrace.elements.expression import Cast, Expr
from headrace.elements.page import Element, Page
from headrace.elements.schema import HIDDEN, Schema
from headrace.elements.types import Type, common_type
from headrace.errors import InternalError
from headrace.operators.evaluate import evaluate
from headrace.operators.hashing import hash_columns
from headrace.operators.lookup import candidates
from headrace.operators.operator import Operator


class TableJoin(Struct, frozen=True, tag="table_join"):
    """Each tuple with the table rows that agree on all `keys` (tuple expression = table column) and satisfy `residual`.

    `rows` is the table as an Arrow IPC stream, `table_names` its columns' names in the output, which `residual` uses.
    NULL keys never match. A left join pads a tuple that has no partner.
    """

    rows: bytes
    schema: Schema
    kind: OneOf["inner", "left"]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    table_names: tuple[str, ...]

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> TableJoinOperator:
        return TableJoinOperator(self)

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return ()


class TableJoinOperator(Operator):
    """The running half of `TableJoin`: the table sorted by the hash of its keys, probed page by page."""

    def __init__(self, spec: TableJoin) -> None:
        stored = pl.read_ipc_stream(io.BytesIO(spec.rows))
        types = spec.schema.polars()
        table = stored.select([pl.col(name).cast(type_) for name, type_ in types.items()])
        common = [_common(expr, spec.schema, name) for expr, name in spec.keys]
        if spec.keys:
            named = [pl.col(name).cast(type_.polars).alias(f"__k{i}") for i, ((_, name), type_) in enumerate(zip(spec.keys, common, strict=True))]
            keys = table.select(named)
            complete = ~keys.select(pl.any_horizontal(pl.all().is_null())).to_series()
            table, keys = table.filter(complete), keys.filter(complete)
            hashes = hash_columns(keys.get_columns())
            order = np.argsort(hashes, kind="stable")
            table, keys = table[order], keys[order]
            self._table_keys, self._hashes = keys.get_columns(), hashes[order]
        self._height = table.height
        self._is_left = spec.kind == "left"
        self._residual = spec.residual
        self._keys = [expr if expr.type is type_ else Cast(expr, type_) for (expr, _), type_ in zip(spec.keys, common, strict=True)]
        # One row of NULL at the end: the partner of tuples without one.
        self._table = pl.concat([table, table.clear(1)]).rename(dict(zip(types, spec.table_names, strict=True)))

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        left, right = self._pairs(page.rows)
        if self._residual is not None:
            kept = evaluate(self._joined(page.rows, left, right), [self._residual])[0].cast(pl.Boolean).fill_null(False).to_numpy()
            left, right = left[kept], right[kept]
        if self._is_left:
            alone = np.ones(len(page), dtype=bool)
            alone[left] = False
            lonely = np.flatnonzero(alone)
            left = np.concatenate([left, lonely])
            right = np.concatenate([right, np.full(len(lonely), self._height)])
            order = np.argsort(left, kind="stable")
            left, right = left[order], right[order]
        return (Page(self._joined(page.rows, left, right)),) if len(left) else ()

    def _pairs(self, rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        if not self._keys:
            return np.repeat(np.arange(rows.height), self._height), np.tile(np.arange(self._height), rows.height)
        keys = evaluate(rows, self._keys)
        left, right = candidates(self._hashes, hash_columns(keys))
        agree = np.ones(len(left), dtype=bool)
        for ours, theirs in zip(keys, self._table_keys, strict=True):
            agree &= (ours.gather(left) == theirs.gather(right)).fill_null(False).to_numpy()
        return left[agree], right[agree]

    def _joined(self, rows: pl.DataFrame, left: np.ndarray, right: np.ndarray) -> pl.DataFrame:
        hidden = [name for name in rows.columns if name in HIDDEN]
        return rows[left].hstack(self._table[right]).select([*(name for name in rows.columns if name not in HIDDEN), *self._table.columns, *hidden])


def _common(expr: Expr, schema: Schema, name: str) -> Type:
    field = schema.find(name)
    found = None if field is None else common_type(expr.type, field.type)
    if found is None:
        raise InternalError(f"table column {name!r} cannot be a key for {expr.type.value}")
    return found
