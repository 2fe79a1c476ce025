"""Make of each tuple one for each element of an ARRAY, or for each entry of a MAP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr
from headrace.model.page import Element, Page
from headrace.model.schema import HIDDEN
from headrace.model.types import MapType
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, columns_in
from headrace.operators.spec import Order, Spec


class Unnest(Spec, frozen=True, tag="unnest", omit_defaults=True):
    """The tuple with `names` beside it: the element, or key and value; `place`, if named, counts from `first`.

    An `outer` one keeps a tuple without elements, with NULL for these columns. `kept` are the columns of the tuple that
    stay, if not all do: a long ARRAY would be copied as often as it has elements.
    """

    of: Expr
    names: tuple[str, ...]
    place: str = ""
    first: int = 0
    outer: bool = False
    kept: tuple[str, ...] | None = None

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> UnnestOperator:
        return UnnestOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"unnest {format_expr(self.of)}"

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys if self.kept is None or columns_in(keys) <= {*self.kept, *HIDDEN} else None

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys if columns_in(keys).isdisjoint({*self.names, self.place}) else None

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class UnnestOperator(Operator):
    """The running half of `Unnest`."""

    def __init__(self, spec: Unnest) -> None:
        self._spec = spec
        self._is_map = isinstance(spec.of.type, MapType)
        value = compile_expr(spec.of)
        self._elements = (value.map.entries() if self._is_map else value).alias(spec.names[0])

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        spec, first = self._spec, self._spec.names[0]
        hidden = [name for name in HIDDEN if name in page.rows.columns]
        kept = [name for name in page.rows.columns if name not in hidden] if spec.kept is None else list(spec.kept)
        rows = page.rows.select([*kept, self._elements, *hidden])
        count = pl.col(first).list.len()
        if not spec.outer:
            rows = rows.filter(count > 0)
        together = [first]
        if spec.place:
            places = pl.int_ranges(spec.first, spec.first + count.fill_null(0), dtype=pl.Int32)
            rows = rows.with_columns(places.alias(spec.place))
            together.append(spec.place)
        rows = rows.explode(together, empty_as_null=True, keep_nulls=True)
        if self._is_map:
            entry = pl.col(first).struct
            rows = rows.with_columns(entry.field("key").alias(first), entry.field("value").alias(spec.names[1]))
        added = [*spec.names, *([spec.place] if spec.place else [])]
        return (Page(rows.select([*kept, *added, *hidden])),) if rows.height else ()
