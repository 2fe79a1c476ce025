from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.order.reorder import Reorder, ReorderOperator

SCHEMA = Schema.of(v=Type.BIGINT, w=Type.BIGINT)
SPEC = Reorder((Column("v", Type.BIGINT),), ("v",))
Row = tuple[int, int | None, int]  # ts, v, w


def page(rows: list[Row]) -> Page:
    return page_of(SCHEMA, [{"v": v, "w": w} for _, v, w in rows], [ts for ts, _, _ in rows])


def rows_of(emitted: list[Element]) -> list[Row]:
    return [(ts, v, w) for out in emitted if isinstance(out, Page) for v, w, ts in out.rows.rows()]


def test_tuples_below_the_bound_come_out_in_order_and_equal_ones_stay() -> None:
    operator = SPEC.build()
    assert list(operator.on_page(0, page([(5, 1, 0), (3, 2, 1), (7, 0, 2), (3, 1, 3)]))) == []
    assert operator.held() == 4
    out = list(operator.on_punctuation(0, Punctuation(5)))
    assert rows_of(out) == [(3, 1, 3), (3, 2, 1)]
    assert out[-1] == Punctuation(5)
    assert operator.held() == 2
    assert rows_of(list(operator.on_punctuation(0, Punctuation(END)))) == [(5, 1, 0), (7, 0, 2)]


def test_with_nothing_to_emit_the_promise_passes() -> None:
    operator = SPEC.build()
    assert list(operator.on_punctuation(0, Punctuation(5))) == [Punctuation(5)]


def test_a_bound_touches_only_chunks_with_rows_below_it() -> None:
    operator = SPEC.build()
    operator.on_page(0, page([(ts, 0, 0) for ts in range(100, 200)]))
    operator.on_page(0, page([(1, 0, 0), (2, 0, 0)]))
    before = dict(operator.state())
    operator.on_punctuation(0, Punctuation(2))
    after = operator.state()
    assert [after[name] is before[name] for name in before] == [True, False]
    operator.on_punctuation(0, Punctuation(2))
    assert all(operator.state()[name] is chunk for name, chunk in after.items())


def test_many_small_pages_make_few_chunks() -> None:
    operator = SPEC.build()
    for i in range(200):
        operator.on_page(0, page([(1000 + i, 0, i)]))
    assert len(operator.state()) < 12
    assert rows_of(list(operator.on_punctuation(0, Punctuation(END)))) == [(1000 + i, 0, i) for i in range(200)]


def test_tuples_are_partitioned_by_by() -> None:
    assert SPEC.partition_by(0) == (Column("v", Type.BIGINT),)
    assert not SPEC.is_stateless


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Row]], list[int]]:
    """Batches of tuples and the bound after each; every tuple respects the bounds before it."""
    bounds = sorted(draw(st.lists(st.integers(0, 30), min_size=1, max_size=5)))
    batches, low = [], 0
    for bound in bounds:
        stamps = draw(st.lists(st.integers(low, 40), max_size=12))
        batches.append([(ts, draw(st.none() | st.integers(0, 2)), i) for i, ts in enumerate(stamps)])
        low = bound
    return batches, bounds


@settings(deadline=None, max_examples=60)
@given(histories(), st.data())
def test_cutting_pages_and_restarting_anywhere_change_nothing(
    history: tuple[list[list[Row]], list[int]], data: st.DataObject
) -> None:
    batches, bounds = history
    want: list[list[Row]] = []
    waiting: list[Row] = []
    for batch, bound in zip(batches, bounds, strict=True):
        waiting += batch
        want.append(
            sorted(
                (row for row in waiting if row[0] < bound), key=lambda row: (row[0], row[1] is not None, row[1] or 0)
            )
        )
        waiting = [row for row in waiting if row[0] >= bound]
    operator = SPEC.build()
    for batch, bound, expected in zip(batches, bounds, want, strict=True):
        start = 0
        while start < len(batch):
            size = data.draw(st.integers(1, len(batch) - start))
            assert list(operator.on_page(0, page(batch[start : start + size]))) == []
            start += size
            operator = maybe_restart(operator, data)
        assert rows_of(list(operator.on_punctuation(0, Punctuation(bound)))) == expected
        operator = maybe_restart(operator, data)
    assert operator.held() == len(waiting)


def maybe_restart(operator: ReorderOperator, data: st.DataObject) -> ReorderOperator:
    if not data.draw(st.booleans()):
        return operator
    saved = operator.state()
    assert all(operator.state()[name] is chunk for name, chunk in saved.items())
    fresh = SPEC.build()
    fresh.restore(saved)
    return fresh
