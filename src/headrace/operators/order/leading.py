"""Leave out tuples that cannot be among the first of their group, before these are ranked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Call, Column, Expr, Literal, conjuncts
from headrace.model.page import Element, Page
from headrace.model.rank import RankOrder, format_order
from headrace.model.schema import TS
from headrace.model.time import format_duration
from headrace.model.types import DataType, DecimalType, Type
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.operator import Operator
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Order, Spec
from headrace.operators.text import listed

#: So many tuples of a page say how large its groups are, and if these are small, nothing is left out: so many of four
#: must stay at most.
_SAMPLE, _STAY = 4096, 3
_WINDOW, _VALUE = "__window", "__value"
_FLOATS = (Type.FLOAT, Type.DOUBLE)
_ORDERED = (Type.INT, Type.BIGINT, *_FLOATS, Type.STRING, Type.DATE, Type.TIMESTAMP, Type.INTERVAL)


def can_lead(type_: DataType) -> bool:
    """Return whether values of a type can be compared as they are."""
    return type_ in _ORDERED or isinstance(type_, DecimalType)


def last_place(predicate: Expr, name: str) -> int | None:
    """Return the last place in the column `name` that satisfies a predicate; None if there is no limit."""
    limits = [limit for term in conjuncts(predicate) if (limit := _last_place(term, name)) is not None]
    return max(min(limits), 1) if limits else None


class Leading(Spec, frozen=True, tag="leading"):
    """The tuples that others of the same page do not keep from the first `limit` places of their group.

    A group agrees in `by` and lies in one window of `size` microseconds. Only the first term of the order is looked at:
    what comes after `limit` others by that alone has no place. With `distinct`, equal values count once. Tuples that
    stay although they have no place are harmless.
    """

    size: int
    by: tuple[Expr, ...]
    term: RankOrder
    limit: int
    distinct: bool

    @property
    def is_stateless(self) -> bool:
        return True

    def build(self) -> LeadingOperator:
        return LeadingOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" of each {listed(self.by)}" if self.by else ""
        window = "" if self.size == 1 else f" in {format_duration(self.size)}"
        return f"leading {self.limit}{per}{window} by {format_order((self.term,))}"

    def keys_after(self, keys: Keys) -> Keys | None:
        return keys

    def keys_before(self, keys: Keys) -> Keys | None:
        return keys

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class LeadingOperator(Operator):
    """The running half of `Leading`."""

    def __init__(self, spec: Leading) -> None:
        self._limit = spec.limit
        by = [compile_expr(expr).alias(f"__by{i}") for i, expr in enumerate(spec.by)]
        self._names = [_WINDOW, *(f"__by{i}" for i in range(len(by)))]
        self._groups = [(pl.col(TS) // spec.size).alias(_WINDOW), *by]
        self._columns = [*self._groups, compile_expr(spec.term.expr).alias(_VALUE)]
        value = pl.col(_VALUE)
        last = _last(value, spec).over(self._names)
        # NULL and NaN stay: how many others they precede does not matter
        leads = (value >= last if spec.term.descending else value <= last) | value.is_null()
        self._leads = leads | value.is_nan() if spec.term.expr.type in _FLOATS else leads

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        sizes = page.rows.head(_SAMPLE).select(self._groups).group_by(self._names).len()["len"]
        if 4 * sizes.clip(0, self._limit).sum() > _STAY * sizes.sum():
            return (page,)
        columns = page.rows.select(self._columns)
        if self._limit == 1:
            return (Page(page.rows.filter(columns.select(self._leads).to_series())),)
        # most groups may be small all the same: all of their tuples stay, so there is no need to compare them
        are_many = columns.select(pl.len().over(self._names) > self._limit).to_series()
        stays = ~are_many
        stays = stays.scatter(are_many.arg_true(), columns.filter(are_many).select(self._leads).to_series())
        return (Page(page.rows.filter(stays)),)


def _last(value: pl.Expr, spec: Leading) -> pl.Expr:
    """Return the value at the last place that counts in a group, if NULL and NaN have none."""
    if spec.limit == 1:
        return value.max() if spec.term.descending else value.min()
    values = value.drop_nulls()
    if spec.term.expr.type in _FLOATS:
        values = values.drop_nans()
    if spec.distinct:
        values = values.unique()
    return values.top_k(spec.limit).min() if spec.term.descending else values.bottom_k(spec.limit).max()


def _last_place(term: Expr, name: str) -> int | None:
    match term:
        case Call(function="=" | "<=", args=(Column(name=named), Literal(value=int(value)))) if named == name:
            return value
        case Call(function="=" | ">=", args=(Literal(value=int(value)), Column(name=named))) if named == name:
            return value
        case Call(function="<", args=(Column(name=named), Literal(value=int(value)))) if named == name:
            return value - 1
        case Call(function=">", args=(Literal(value=int(value)), Column(name=named))) if named == name:
            return value - 1
        case _:
            return None
