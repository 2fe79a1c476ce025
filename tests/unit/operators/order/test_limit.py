from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.pattern import ALL_TUPLES
from headrace.model.schema import SEQ, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.order import limit
from headrace.operators.order.limit import Limit
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

SCHEMA = Schema.of(v=Type.BIGINT)
Tuple = tuple[int, int | None]  # ts, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"v": v} for _, v in rows], [ts for ts, _ in rows])


def tuples_of(emitted: Sequence[Element]) -> list[Tuple]:
    return [(ts, v) for out in emitted if isinstance(out, Page) for v, ts in out.rows.rows()]


def test_the_first_tuples_come_out_by_time_and_value_once_the_bound_has_passed_them() -> None:
    operator = Limit(3, ("v",), "q").build()
    assert list(operator.on_page(0, page([(5, 1), (3, 2), (7, 0), (3, 1)]))) == []
    assert operator.due() == 4
    out = list(operator.on_punctuation(0, Punctuation(5)))
    assert tuples_of(out) == [(3, 1), (3, 2)]
    assert out[-1] == Punctuation(5)
    operator.on_page(0, page([(5, 0)]))
    out = list(operator.on_punctuation(0, Punctuation(8)))
    assert tuples_of(out) == [(5, 0)]
    assert out[-1] == Punctuation(END), "no tuple can follow the last one"


def test_a_full_operator_keeps_its_count_alone_and_asks_for_nothing_more() -> None:
    operator = Limit(1, ("v",), "q").build()
    operator.on_page(0, page([(1, 1), (2, 2), (9, 9)]))
    assert operator.said() == ()
    operator.on_punctuation(0, Punctuation(2))
    assert operator.said() == ((0, Feedback(Intent.ASSUMED, ALL_TUPLES)),)
    assert operator.said() == (), "once is enough"
    assert operator.held() == 0
    assert operator.due() is None
    kept = dict(operator.state())
    assert list(kept) == ["remaining"]
    assert list(operator.on_page(0, page([(3, 3)]))) == []
    assert list(operator.on_punctuation(0, Punctuation(5))) == [Punctuation(END)]
    assert operator.state()["remaining"] is kept["remaining"]


def test_a_limit_of_zero_is_full_from_the_start() -> None:
    operator = Limit(0, ("v",), "q").build()
    assert list(operator.on_page(0, page([(1, 1)]))) == []
    assert list(operator.on_punctuation(0, Punctuation(0))) == [Punctuation(END)]
    assert operator.said()
    assert operator.held() == 0


def test_arrival_decides_among_equal_times_and_is_not_handed_on() -> None:
    operator = Limit(1, (SEQ,), "q").build()
    rows = page([(1, 7), (1, 5)]).rows
    operator.on_page(0, Page(rows.with_columns(rows["v"].alias(SEQ))))
    (out, _) = operator.on_punctuation(0, Punctuation(2))
    assert isinstance(out, Page)
    assert SEQ not in out.rows.columns
    assert tuples_of([out]) == [(1, 5)]


def test_while_no_bound_comes_it_holds_little_more_than_can_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "_ROOM", 4)
    operator = Limit(3, ("v",), "q").build()
    for start in range(1000, 0, -10):
        operator.on_page(0, page([(start + ts, ts) for ts in range(10)]))
        assert operator.held() <= 2 * 3 + 4
    operator.on_page(0, page([(5000, 0)] * 100))
    assert operator.held() <= 2 * 3 + 4, "what is too late to come out is not taken in"
    assert tuples_of(list(operator.on_punctuation(0, Punctuation(END)))) == [(10, 0), (11, 1), (12, 2)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Tuple]], list[int]]:
    """Batches of tuples and the bound after each; every tuple respects the bounds before it."""
    bounds = sorted(draw(st.lists(st.integers(0, 30), min_size=1, max_size=5)))
    batches, low = [], 0
    for bound in bounds:
        stamps = draw(st.lists(st.integers(low, 40), max_size=12))
        batches.append([(ts, draw(st.none() | st.integers(0, 2))) for ts in stamps])
        low = bound
    return batches, bounds


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@example(([[(0, None)], [(0, None), (0, None), (0, None)]], [0, 0]), 1, 1)
@given(histories(), st.integers(0, 20), st.sampled_from([1, 8192]))
def test_the_contract_is_kept_and_the_oracle_agrees(
    history: tuple[list[list[Tuple]], list[int]], count: int, room: int
) -> None:
    batches, bounds = history
    script: list[tuple[int, Element]] = []
    for batch, bound in zip(batches, bounds, strict=True):
        script += [(0, page(batch)), (0, Punctuation(bound))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit, "_ROOM", room)
        rows = check_operator(Limit(count, ("v",), "q"), script)
    # a union has no order of arrival, so ties are broken by content
    plan = nodes.Limit(nodes.Union((nodes.Scan("s", SCHEMA),)), count)
    stream = [Row(ts, {"v": v}) for batch in batches for ts, v in batch]
    assert as_multiset(rows) == as_multiset(answer(plan, {"s": stream}))
