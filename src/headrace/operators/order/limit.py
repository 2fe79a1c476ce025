"""Let the first tuples out, and none after them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.model.expressions.text import format_name
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.pattern import ALL_TUPLES
from headrace.model.schema import HIDDEN, SEQ, TS
from headrace.model.time import END
from headrace.operators.operator import Operator, State
from headrace.operators.order.held_back import Pending
from headrace.operators.spec import Spec

#: More than twice the tuples that can still come out, and these, are not held.
_ROOM = 8192


class Limit(Spec, frozen=True, tag="limit"):
    """The first `count` tuples by (timestamp, columns named in `order`, arrival), as soon as nothing earlier can come.

    `query` is the query that counts them. Another one that starts later has first tuples of its own, so the two share
    no vertex.
    """

    count: int
    order: tuple[str, ...]
    query: str

    def build(self) -> LimitOperator:
        return LimitOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        order = ", ".join("arrival" if name == SEQ else format_name(name) for name in self.order)
        source = f" of {', '.join(inputs)}" if inputs else ""
        return f"first {self.count}{source} by timestamp, {order}"

    @property
    def order_matters(self) -> bool:
        return False


class LimitOperator(Operator):
    """The running half of `Limit`.

    Tuples wait until the frontier has passed them, so the input need not be in order. Of those that wait, it drops
    what too many others precede. Once it is full it keeps its count alone, its output has ended, and it tells the
    operators before it that it needs nothing more.
    """

    def __init__(self, spec: Limit) -> None:
        self._order = [TS, *spec.order]
        self._remaining = spec.count
        self._pending = Pending()
        self._latest = END  # no tuple after this instant can come out
        self._is_told = False  # those before it know that it is full
        self._chunk: pl.DataFrame | None = None

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        if self._remaining == 0:
            return ()
        self._pending.add(page.rows if self._latest == END else page.rows.filter(pl.col(TS) <= self._latest))
        if len(self._pending) > 2 * self._remaining + _ROOM:
            self._drop_hopeless()
        return ()

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterable[Element]:
        ready = self._pending.take(mark.bound)
        if ready is None:
            return (mark if self._remaining else Punctuation(END),)
        rows = self._first(ready)
        self._remaining -= rows.height
        if self._remaining == 0:
            self._pending = Pending()
        visible = [name for name in rows.columns if name not in HIDDEN]
        return (Page(rows.select([*visible, TS])), mark if self._remaining else Punctuation(END))

    def said(self) -> Sequence[tuple[int, Feedback]]:
        if self._remaining or self._is_told:
            return ()
        self._is_told = True
        return ((0, Feedback(Intent.ASSUMED, ALL_TUPLES)),)

    def state(self) -> State:
        if self._chunk is None or self._chunk.item() != self._remaining:
            self._chunk = pl.DataFrame({"remaining": [self._remaining]})
        return {"remaining": self._chunk, **self._pending.state()}

    def restore(self, state: State) -> None:
        self._pending.restore(state)
        if "remaining" in state:
            self._chunk = state["remaining"]
            self._remaining = self._chunk.item()

    def held(self) -> int:
        return len(self._pending)

    def due(self) -> int | None:
        return self._pending.due()

    def _first(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.sort(self._order, maintain_order=True).head(self._remaining)

    def _drop_hopeless(self) -> None:
        """Keep only as many tuples as can come out: what comes later can take their place, but not help others."""
        rows = self._pending.take(END)
        assert rows is not None, "an instant is below the end of time"
        rows = self._first(rows)
        self._latest = int(rows[TS][-1])
        for start in range(0, rows.height, _ROOM):
            self._pending.add(rows[start : start + _ROOM])
