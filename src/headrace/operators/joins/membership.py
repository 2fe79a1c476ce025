"""Look up in a stored table what belongs to a tuple: whether there is a row (IN, EXISTS), or an aggregate of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import TRUE, Call, Column, Expr, columns, conjunction, conjuncts, substitute
from headrace.model.expressions.text import format_expr
from headrace.model.page import Element, Page
from headrace.model.schema import HIDDEN, SEQ, TS, Schema
from headrace.model.types import Type, is_nested
from headrace.model.window import AggregateCall, of_nothing
from headrace.operators.expressions.evaluate import compile_predicate, evaluate
from headrace.operators.joins.table_search import TableSearch
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys, columns_in
from headrace.operators.spec import Order, Spec
from headrace.operators.tables import stored_table
from headrace.operators.text import calls_text
from headrace.operators.windows.aggregates import Aggregates

Pairs = tuple[tuple[Expr, Expr], ...]


class Membership(Spec, frozen=True, tag="membership", omit_defaults=True):
    """Each tuple with one more column, `name`: whether one of its rows of a stored table agrees with it on `compared`.

    Its rows are those that agree on all `keys` (an expression over the tuple, one over the table's own columns) and
    satisfy `residual`, over the tuple and the table's columns under `table_names`. NULL where none of them agrees for
    certain, but one does if a NULL is what it might be. `rows` and `digest` are as in a `TableJoin`.

    With `value` the column has the value of a scalar sub-query: `value` over `calls`, the aggregates of its rows.
    """

    rows: bytes
    schema: Schema
    name: str
    keys: Pairs
    compared: Pairs
    residual: Expr | None
    table_names: tuple[str, ...]
    digest: str | UnsetType = UNSET
    table: str | UnsetType = UNSET  # whose rows those of the version in force are (`commands.tables`)
    calls: tuple[AggregateCall, ...] = ()
    value: Expr | None = None

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> Operator:
        return MembershipOperator(self) if self.value is None else ScalarOperator(self, self.value)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        names: dict[str, Expr] = {
            field.name: Column(name, field.type) for name, field in zip(self.table_names, self.schema, strict=True)
        }
        pairs = [(ours, substitute(theirs, names)) for ours, theirs in (*self.compared, *self.keys)]
        terms = [f"{format_expr(ours)} = {format_expr(theirs)}" for ours, theirs in pairs]
        terms += [] if self.residual is None else [format_expr(self.residual)]
        what = "a row" if self.value is None else f"{format_expr(self.value)} over {calls_text(self.calls)}"
        return f"{self.name}: {what} of the table{' with ' if terms else ''}{' and '.join(terms)}"

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


class MembershipOperator(Operator):
    """The running half of `Membership`.

    Of the table it keeps what keys and conditions read, and of equal rows one.
    """

    def __init__(self, spec: Membership) -> None:
        self._name, self._compared = spec.name, [ours for ours, _ in spec.compared]
        types = spec.schema.polars()
        table = stored_table(spec.rows, spec.digest).select([pl.col(name).cast(of) for name, of in types.items()])
        own = {name: Column(field.name, field.type) for name, field in zip(spec.table_names, spec.schema, strict=True)}
        residual: list[Expr] = []
        for term in () if spec.residual is None else conjuncts(spec.residual):
            if columns(term) and columns(term) <= own.keys():
                table = table.filter(compile_predicate(substitute(term, own)))
            else:
                residual.append(term)
        read = sorted(own.keys() & frozenset().union(*map(columns, residual)))
        theirs = [expr for _, expr in (*spec.keys, *spec.compared)]
        names = [f"__of{i}" for i in range(len(theirs))]
        found = [series.alias(name) for series, name in zip(evaluate(table, theirs), names, strict=True)]
        needed = pl.DataFrame([*found, *(table[own[name].name].alias(name) for name in read)])
        if needed.width and not any(is_nested(expr.type) for expr in (*theirs, *(own[name] for name in read))):
            needed = needed.unique(maintain_order=True)
        if not needed.width:  # only whether there is a row matters
            needed = pl.DataFrame({"__row": [True] * min(1, table.height)})
        sides = [Column(name, expr.type) for name, expr in zip(names, theirs, strict=True)]
        ours = [expr for expr, _ in (*spec.keys, *spec.compared)]
        pairs = list(zip(ours, sides, strict=True))
        keys, compared = pairs[: len(spec.keys)], pairs[len(spec.keys) :]
        self._equal = _Search(needed, pairs, residual)
        self._all = self._unknown = self._equal
        if compared:
            if len(compared) > 1:  # of several columns none may differ for certain
                residual += [_perhaps(mine, side) for mine, side in compared]
            unknown = pl.any_horizontal(pl.col(side.name).is_null() for _, side in compared)
            self._all = _Search(needed, keys, residual)
            self._unknown = _Search(needed.filter(unknown), keys, residual)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        rows = page.rows
        mark = pl.Series(self._name, self._equal.exists(rows), dtype=pl.Boolean)
        if self._compared and not mark.all():
            missing = np.zeros(rows.height, dtype=bool)
            for value in evaluate(rows, self._compared):
                if value.null_count():
                    missing |= value.is_null().to_numpy()
            others = ~mark.to_numpy()
            unknown = np.zeros(rows.height, dtype=bool)
            for search, places in (
                (self._all, np.flatnonzero(others & missing)),
                (self._unknown, np.flatnonzero(others & ~missing)),
            ):
                if len(places):
                    unknown[places[search.exists(rows[places])]] = True
            if unknown.any():
                mark = mark.clone().scatter(np.flatnonzero(unknown), [None] * int(unknown.sum()))
        return (_with_column(rows, mark),)


class ScalarOperator(Operator):
    """The running half of a `Membership` with a value: the table is aggregated once, a tuple looks its row up."""

    def __init__(self, spec: Membership, value: Expr) -> None:
        self._name = spec.name
        types = spec.schema.polars()
        table = stored_table(spec.rows, spec.digest).select([pl.col(name).cast(of) for name, of in types.items()])
        own = {name: Column(field.name, field.type) for name, field in zip(spec.table_names, spec.schema, strict=True)}
        if spec.residual is not None:
            table = table.filter(compile_predicate(substitute(spec.residual, own)))
        table = table.with_columns(pl.lit(0, pl.Int64).alias(TS), pl.int_range(pl.len(), dtype=pl.Int64).alias(SEQ))
        keys = tuple((f"__of{place}", theirs) for place, (_, theirs) in enumerate(spec.keys))
        names = [name for name, _ in keys]
        aggregates = Aggregates(keys, spec.calls)
        groups = aggregates.fold(aggregates.read(table), names or [TS])
        found = pl.DataFrame([*(groups[name] for name in names), self._evaluated(aggregates.finals(groups), value)])
        sides = [(ours, Column(name, theirs.type)) for (ours, theirs), name in zip(spec.keys, names, strict=True)]
        self._search = TableSearch(found, sides, None, found.columns)
        nothing = {call.name: of_nothing(call) for call in spec.calls}
        called = {call.name: call.type.polars for call in spec.calls}
        default = self._evaluated(pl.DataFrame([nothing], schema=called), value)
        #: By row of the table, and in the end the value of no rows.
        self._values = pl.concat([self._search.rows[self._name][:-1], default])

    def _evaluated(self, calls: pl.DataFrame, value: Expr) -> pl.Series:
        (series,) = evaluate(calls, [value])
        series = series if len(series) == calls.height else pl.concat([series] * calls.height)
        return series.cast(value.type.polars).alias(self._name)

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        places = np.full(len(page), self._search.height, dtype=np.int64)
        tuples, rows = self._search.pairs(page.rows)
        places[tuples] = rows
        return (_with_column(page.rows, self._values.gather(places)),)


def _with_column(rows: pl.DataFrame, column: pl.Series) -> Page:
    """Return rows with one more visible column, the last."""
    visible = [name for name in rows.columns if name not in HIDDEN]
    hidden = [name for name in rows.columns if name in HIDDEN]
    return Page(rows.with_columns(column).select([*visible, column.name, *hidden]))


class _Search:
    """Whether a tuple has a row of a table; without a condition that is the same for all."""

    def __init__(self, table: pl.DataFrame, keys: Sequence[tuple[Expr, Expr]], residual: Sequence[Expr]) -> None:
        self._has_rows = table.height > 0
        self._search = (
            TableSearch(table, keys, conjunction(tuple(residual)), table.columns)
            if self._has_rows and (keys or residual)
            else None
        )

    def exists(self, rows: pl.DataFrame) -> np.ndarray:
        if self._search is None:
            return np.full(rows.height, self._has_rows)
        found = np.zeros(rows.height, dtype=bool)
        found[self._search.pairs(rows)[0]] = True
        return found


def _perhaps(ours: Expr, theirs: Expr) -> Expr:
    """Return the condition that two values are equal, or would be if a NULL were another value."""
    equal = Call("=", (ours, theirs), Type.BOOLEAN)
    return Call("coalesce", (equal, TRUE), Type.BOOLEAN)
