from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.rank import Ranking, RankOrder, format_order
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.order.rank import Rank
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

SCHEMA = Schema.of(k=Type.INT, v=Type.BIGINT)
K, V = Column("k", Type.INT), Column("v", Type.BIGINT)
Tuple = tuple[int, int | None, int | None]  # ts, k, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])


def places(out: Sequence[object]) -> list[tuple[int, int]]:
    return [(ts, place) for item in out if isinstance(item, Page) for _, _, place, ts in item.rows.rows()]


def test_tuples_are_ranked_when_their_window_is_complete() -> None:
    operator = Rank(10, (), (RankOrder(V, True, False),), "row_number", "r", ("k", "v")).build()
    operator.on_page(0, page([(1, 1, 5), (3, 1, 9), (12, 1, 7), (8, 1, 5)]))
    assert operator.due() == 10
    assert list(operator.on_punctuation(0, Punctuation(9))) == [Punctuation(0)]
    out = list(operator.on_punctuation(0, Punctuation(11)))
    assert places(out) == [(1, 2), (3, 1), (8, 3)]
    assert out[-1] == Punctuation(10), "a result of the next window may still come"
    assert operator.held() == 1
    out = list(operator.on_punctuation(0, Punctuation(END)))
    assert places(out) == [(12, 1)]
    assert out[-1] == Punctuation(END)
    assert operator.state() == {}


def test_a_window_that_was_reported_before_a_reset_is_left_out() -> None:
    operator = Rank(10, (), (RankOrder(V, False, True),), "rank", "r", ("k", "v"), since=12).build()
    operator.on_page(0, page([(13, 1, 5), (19, 1, 9), (21, 1, 7)]))
    assert places(list(operator.on_punctuation(0, Punctuation(END)))) == [(21, 1)]


def test_the_order_is_shown_as_it_is_written() -> None:
    terms = (RankOrder(V, True, False), RankOrder(K, False, True), RankOrder(V, False, False))
    assert format_order(terms) == "v DESC, k, v NULLS LAST"
    spec = Rank(10_000_000, (K,), terms[:1], "rank", "r", ())
    assert spec.describe() == "rank of each k in 10 s by v DESC"


_VALUES = st.sampled_from([1, 2, None])
_TUPLES = st.lists(st.tuples(st.integers(0, 30), _VALUES, _VALUES), max_size=14)


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@settings(deadline=None, max_examples=30)
@given(rows=_TUPLES, size=st.sampled_from([1, 7]), keyed=st.booleans(), falling=st.booleans(), first=st.booleans())
def test_ranks_agree_with_the_oracle_and_keep_the_contract(
    function: Ranking, rows: list[Tuple], size: int, keyed: bool, falling: bool, first: bool
) -> None:
    by, order = (K,) if keyed else (), (RankOrder(V, falling, first),)
    found = check_operator(Rank(size, by, order, function, "r", ("k", "v")), [(0, page(rows))])
    # content decides ties, as in a stream that no source numbers
    derived = nodes.Union((nodes.Scan("s", SCHEMA), nodes.Scan("none", SCHEMA)))
    plan = nodes.Rank(derived, size, by, order, function, "r")
    expected = answer(plan, {"s": [Row(ts, {"k": k, "v": v}) for ts, k, v in rows], "none": []})
    assert as_multiset(found) == as_multiset(expected)
