from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.frame import Frame, RangeFrame, RowsFrame
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.windows.over import Over
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

pytestmark = pytest.mark.slow

SCHEMA = Schema.of(k=Type.INT, v=Type.BIGINT)
K, V = Column("k", Type.INT), Column("v", Type.BIGINT)
CALLS = (
    AggregateCall("n", "count", None, Type.BIGINT),
    AggregateCall("total", "sum", V, Type.BIGINT),
    AggregateCall("mean", "avg", V, Type.DOUBLE),
    AggregateCall("least", "min", V, Type.BIGINT),
    AggregateCall("first", "first", V, Type.BIGINT),
    AggregateCall("last", "last", V, Type.BIGINT),
)
Tuple = tuple[int, int | None, int | None]  # ts, k, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])


@pytest.mark.parametrize(
    ("frame", "held"), [(RowsFrame(2), 4), (RowsFrame(None), 2), (RangeFrame(10), 3), (RangeFrame(None), 2)], ids=str
)
def test_no_more_is_kept_than_later_frames_need(frame: Frame, held: int) -> None:
    operator = Over((K,), frame, CALLS[:2], ("k", "v")).build()
    operator.on_page(0, page([(ts, ts % 2, ts) for ts in range(20)]))
    list(operator.on_punctuation(0, Punctuation(27)))
    assert operator.held() == held


def test_a_frame_of_no_rows_but_the_own_keeps_nothing() -> None:
    operator = Over((K,), RowsFrame(0), CALLS, ("k", "v")).build()
    operator.on_page(0, page([(1, 1, 1), (2, 1, 2)]))
    (out, _) = operator.on_punctuation(0, Punctuation(9))
    assert isinstance(out, Page)
    assert out.rows["n"].to_list() == [1, 1]
    assert operator.held() == 0


_VALUES = st.sampled_from([1, 2, None])
_TUPLES = st.lists(st.tuples(st.integers(0, 30), _VALUES, _VALUES), max_size=14)
_FRAMES = [RowsFrame(None), RowsFrame(0), RowsFrame(2), RangeFrame(None), RangeFrame(0), RangeFrame(7)]


@pytest.mark.parametrize("frame", _FRAMES, ids=str)
@settings(deadline=None, max_examples=15)
@given(rows=_TUPLES, keyed=st.booleans())
def test_aggregates_agree_with_the_oracle_and_keep_the_contract(frame: Frame, rows: list[Tuple], keyed: bool) -> None:
    by = (K,) if keyed else ()
    found = check_operator(Over(by, frame, CALLS, ("k", "v")), [(0, page(rows))])
    # content decides ties, as in a stream that no source numbers
    derived = nodes.Union((nodes.Scan("s", SCHEMA), nodes.Scan("none", SCHEMA)))
    expected = answer(
        nodes.Over(derived, by, frame, CALLS), {"s": [Row(ts, {"k": k, "v": v}) for ts, k, v in rows], "none": []}
    )
    assert as_multiset(found) == as_multiset(expected)
