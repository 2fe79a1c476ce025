from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.frame import PlaceFrame
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.rank import RankOrder
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import ArrayType, Type
from headrace.model.window import AggregateCall
from headrace.operators.windows.window_over import WindowOver
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

SCHEMA = Schema.of(k=Type.INT, v=Type.BIGINT)
K, V = Column("k", Type.INT), Column("v", Type.BIGINT)
BY_V = (RankOrder(V, False, True),)
CALLS = (
    AggregateCall("n", "count", None, Type.BIGINT),
    AggregateCall("total", "sum", V, Type.BIGINT),
    AggregateCall("least", "min", K, Type.INT),
    AggregateCall("first", "first", V, Type.BIGINT),
    AggregateCall("all", "collect_list", V, ArrayType(Type.BIGINT)),
)
Tuple = tuple[int, int | None, int | None]  # ts, k, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])


def test_a_tuple_sees_those_behind_it_once_the_window_is_complete() -> None:
    operator = WindowOver(10, (), BY_V, PlaceFrame(1, 1), CALLS[:2], ("k", "v")).build()
    operator.on_page(0, page([(1, 1, 5), (3, 1, 9), (12, 1, 7), (8, 1, 6)]))
    assert operator.due() == 10
    out = list(operator.on_punctuation(0, Punctuation(11)))
    assert [row for item in out if isinstance(item, Page) for row in item.rows.rows()] == [
        (1, 5, 1, 6, 1),
        (1, 9, 0, None, 3),
        (1, 6, 1, 9, 8),
    ]
    assert out[-1] == Punctuation(10)
    assert operator.held() == 1


def test_a_window_that_was_reported_before_a_reset_is_left_out() -> None:
    operator = WindowOver(10, (), (), PlaceFrame(), CALLS[:1], ("k", "v"), since=12).build()
    operator.on_page(0, page([(13, 1, 5), (21, 1, 7)]))
    (found, _) = operator.on_punctuation(0, Punctuation(END))
    assert isinstance(found, Page)
    assert found.rows.rows() == [(1, 7, 1, 21)]


def test_it_says_what_it_does() -> None:
    spec = WindowOver(10_000_000, (K,), BY_V, PlaceFrame(-2, None), CALLS[:1], ())
    assert spec.describe() == "count of each k in 10 s by v over ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING"
    assert str(PlaceFrame(None, 0, peers=True)) == "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    assert str(PlaceFrame(nth=2)) == "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING, tuple 2"


_VALUES = st.sampled_from([1, 2, None])
_TUPLES = st.lists(st.tuples(st.integers(0, 30), _VALUES, _VALUES), max_size=14)
_FRAMES = [
    PlaceFrame(),
    PlaceFrame(None, 0),
    PlaceFrame(0, None),
    PlaceFrame(-1, 1),
    PlaceFrame(2, 2),
    PlaceFrame(None, 0, peers=True),
    PlaceFrame(0, None, peers=True),
    PlaceFrame(0, 0, peers=True),
    PlaceFrame(None, 0, peers=True, nth=2),
    PlaceFrame(1, -1),
]


@pytest.mark.parametrize("frame", _FRAMES, ids=str)
@settings(deadline=None, max_examples=12)
@given(rows=_TUPLES, size=st.sampled_from([1, 7]), keyed=st.booleans(), falling=st.booleans())
def test_frames_agree_with_the_oracle_and_keep_the_contract(
    frame: PlaceFrame, rows: list[Tuple], size: int, keyed: bool, falling: bool
) -> None:
    by, order = (K,) if keyed else (), (RankOrder(V, falling, False),)
    found = check_operator(WindowOver(size, by, order, frame, CALLS, ("k", "v")), [(0, page(rows))])
    derived = nodes.Union((nodes.Scan("s", SCHEMA), nodes.Scan("none", SCHEMA)))
    plan = nodes.WindowOver(derived, size, by, order, frame, CALLS)
    expected = answer(plan, {"s": [Row(ts, {"k": k, "v": v}) for ts, k, v in rows], "none": []})
    assert as_multiset(found) == as_multiset(expected)
