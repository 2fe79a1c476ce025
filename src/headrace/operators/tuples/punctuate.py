"""Separate the tuples of a stream from the marks that say that some of its keys are complete.

A mark is a record whose column `mark` says so: TRUE, for tuples before its own time, or a time. It becomes a
`Completion`. A tuple that comes after a mark although the mark rules it out is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.expression import Column, Expr
from headrace.model.expressions.text import format_name
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import BEGIN, LATEST
from headrace.model.types import Type
from headrace.operators.capabilities import Choose
from headrace.operators.keyed_spec import ByKey
from headrace.operators.operator import Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Order
from headrace.operators.state.completed import Completed, times_of
from headrace.operators.state.given import given_up
from headrace.operators.text import listed

_UNTIL, _IS_MARK = "__until", "__is_mark"


class Punctuate(ByKey, frozen=True, tag="punctuate"):
    """The tuples that no earlier mark rules out, then what marks say; or those that one rules out, `late`.

    Tuples of a key must come in the order of their arrival.
    """

    mark: Column
    keys: tuple[Column, ...]
    late: bool = False

    def build(self) -> Operator:
        return _Punctuate(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        which = "tuples that came after" if self.late else "tuples and"
        return f"{which} ends of {listed(self.keys)}, marked by {format_name(self.mark.name)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.keys

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        return tuple(self.keys[i] for i in positions)

    @property
    def output_order(self) -> Order:
        return Order.KEPT


class _Punctuate(Operator):
    def __init__(self, spec: Punctuate) -> None:
        self._late = spec.late
        self._names = [key.name for key in spec.keys]
        self._completed = Completed(1)
        self._bound = BEGIN
        self._count = 0  # late tuples since `late`
        mark = pl.col(spec.mark.name)
        is_flag = spec.mark.type is Type.BOOLEAN
        self._until: pl.Expr = (
            pl.when(mark).then(pl.col(TS)) if is_flag else mark.cast(pl.Int64).clip(upper_bound=LATEST)
        )

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        rows = page.rows.with_columns(self._until.alias(_UNTIL))
        marked = rows[_UNTIL].is_not_null()
        known = self._completed.of(0)
        if known is None and not marked.any():
            return () if self._late else (page,)
        earlier = pl.col(_UNTIL).fill_null(BEGIN).cum_max().over(self._names)
        rows = rows.with_columns(earlier.alias(_UNTIL), marked.alias(_IS_MARK))
        if known is not None:
            rows = rows.with_columns(pl.max_horizontal(_UNTIL, times_of(rows, known)).alias(_UNTIL))
        is_late = (pl.col(TS) < pl.col(_UNTIL)) & ~pl.col(_IS_MARK)
        late = rows.filter(is_late)
        self._count += late.height
        fresh = rows.filter(_IS_MARK).group_by(self._names, maintain_order=True).agg(pl.col(_UNTIL).max().alias(TS))
        is_new = fresh.height > 0 and self._completed.add(0, fresh, self._bound)
        if self._late:
            return (Page(late.drop(_UNTIL, _IS_MARK)),) if late.height else ()
        out: list[Element] = [Page(rows.filter(~is_late & ~pl.col(_IS_MARK)).drop(_UNTIL, _IS_MARK))]
        return [*out, Completion(fresh)] if is_new else out

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        self._bound = max(self._bound, mark.bound)
        self._completed.expire(0, mark.bound)
        return (mark,)

    def state(self) -> State:
        return self._completed.state()

    def restore(self, state: State) -> None:
        self._completed.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        rows = self._completed.of(0)
        if rows is None:
            return {}
        chosen = choose(rows, keys[0])
        self._completed = Completed(1)
        if not chosen.all():
            self._completed.add(0, rows.filter(~chosen), BEGIN)
        return given_up(completed=[rows.filter(chosen)] if chosen.any() else [])

    def take(self, given: State) -> None:
        self._completed.add(0, given["completed"], self._bound)

    def held(self) -> int:
        return len(self._completed)

    def late(self) -> int:
        count, self._count = self._count, 0
        return 0 if self._late else count
