"""Fill in missing values from an archive; whole tuples pass untouched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_columns
from headrace.model.page import Element, Page
from headrace.model.schema import HIDDEN
from headrace.operators.expressions.evaluate import evaluate
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, columns_in
from headrace.operators.spec import Order, Spec
from headrace.operators.text import listed
from headrace.operators.tuples.archives import ArchiveSpec, StoredRows


class Impute(Spec, frozen=True, tag="impute", omit_defaults=True):
    """Each tuple with one more column, `name`: the `value`, or what the archive has for the `keys` where that is NULL.

    Nothing is kept, so it may run anywhere; one that is `paced` runs in the bucket of the PACE behind it, so that
    feedback about late tuples reaches it at once.
    """

    name: str
    value: Expr
    keys: tuple[Expr, ...]
    archive: ArchiveSpec
    paced: bool = False

    @property
    def is_stateless(self) -> bool:
        return not self.paced

    @property
    def portion(self) -> int | None:
        return self.archive.portion

    def build(self) -> ImputeOperator:
        return ImputeOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        source = "a table" if isinstance(self.archive, StoredRows) else f"python:{self.archive.target}"
        return f"impute {format_columns(((self.name, self.value),))} from {source} by {listed(self.keys)}"

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys if self.name not in columns_in(keys) else None

    @property
    def output_order(self) -> Order:
        return Order.KEPT

    @property
    def order_matters(self) -> bool:
        return False


class ImputeOperator(Operator):
    """The running half of `Impute`."""

    def __init__(self, spec: Impute) -> None:
        self._spec = spec
        self._archive = spec.archive.open()

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        rows, spec = page.rows, self._spec
        (value,) = evaluate(rows, [spec.value])
        if value.null_count():
            missing = np.flatnonzero(value.is_null().to_numpy())
            imputed = self._archive.look_up(evaluate(rows[missing], spec.keys), spec.value.type.polars)
            value = value.clone().scatter(missing, imputed)
        visible = [name for name in rows.columns if name not in HIDDEN]
        hidden = [name for name in rows.columns if name in HIDDEN]
        return (Page(rows.with_columns(value.alias(spec.name)).select([*visible, spec.name, *hidden])),)
