"""Tuples that have no place among the first of their group are left out before they are ranked, and no others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.rank import Ranking, RankOrder
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.order.leading import Leading, last_place
from headrace.operators.order.rank import Rank

SCHEMA = Schema.of(k=Type.INT, v=Type.DOUBLE)
K, V = Column("k", Type.INT), Column("v", Type.DOUBLE)
Tuple = tuple[int, int | None, float | None]  # ts, k, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])


def leading(spec: Leading, rows: Sequence[Tuple]) -> Page:
    (found,) = spec.build().on_page(0, page(rows))
    assert isinstance(found, Page)
    return found


def first_places(spec: Rank, pages: Sequence[Page], limit: int) -> list[str]:
    operator = spec.build()
    for each in pages:
        operator.on_page(0, each)
    out = [item for item in operator.on_punctuation(0, Punctuation(END)) if isinstance(item, Page)]
    return sorted(str(row) for item in out for row in item.rows.rows() if row[2] <= limit)


_VALUES = st.sampled_from([1.0, 2.0, 3.0, math.nan, -math.inf, None])
_TUPLES = st.lists(st.tuples(st.integers(0, 8), st.sampled_from([1, None]), _VALUES), max_size=30)


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@settings(deadline=None, max_examples=60)
@given(
    pages=st.lists(_TUPLES, min_size=1, max_size=2),
    limit=st.integers(1, 3),
    keyed=st.booleans(),
    falling=st.booleans(),
    first=st.booleans(),
)
def test_the_first_places_stay_the_same(
    function: Ranking, pages: list[list[Tuple]], limit: int, keyed: bool, falling: bool, first: bool
) -> None:
    by, order = (K,) if keyed else (), (RankOrder(V, falling, first), RankOrder(K, False, True))
    spec = Leading(7, by, order[0], limit, function == "dense_rank")
    ranking = Rank(7, by, order, function, "r", ("k", "v"))
    before, after = [page(rows) for rows in pages], [leading(spec, rows) for rows in pages]
    assert first_places(ranking, after, limit) == first_places(ranking, before, limit)


def test_of_many_tuples_few_are_left() -> None:
    rows: list[Tuple] = [(ts % 20, ts % 2, float(ts)) for ts in range(1000)]
    best = leading(Leading(10, (K,), RankOrder(V, True, False), 1, False), rows)
    assert sorted(best.rows["v"].to_list()) == [988.0, 989.0, 998.0, 999.0]
    least = leading(Leading(10, (), RankOrder(V, False, True), 3, False), rows)
    assert sorted(least.rows["v"].to_list()) == [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]


def test_where_groups_are_small_all_stay() -> None:
    rows: list[Tuple] = [(1, i, float(i)) for i in range(100)]
    assert len(leading(Leading(10, (K,), RankOrder(V, True, False), 1, False), rows)) == 100


def test_large_groups_are_cut_beside_small_ones_that_stay() -> None:
    rows: list[Tuple] = [(1, 1 if i % 2 else i, float(i)) for i in range(100)]
    found = leading(Leading(10, (K,), RankOrder(V, True, False), 2, False), rows)
    assert found.rows["v"].to_list() == [float(i) for i in range(100) if i % 2 == 0 or i > 96]


def test_where_three_of_four_would_stay_all_stay() -> None:
    for large, stay in ((27, 102), (28, 76)):
        rows: list[Tuple] = [(1, 0 if i < large else i, float(i)) for i in range(102)]
        found = leading(Leading(10, (K,), RankOrder(V, True, False), 2, False), rows)
        assert len(found) == stay, large


#: A comparison of a place with 3, whether the place is on the left, and the last place that satisfies it.
CONDITIONS = [
    ("=", True, 3), ("<=", True, 3), ("<", True, 2), (">=", True, None),
    ("=", False, 3), (">=", False, 3), (">", False, 2), ("<", False, None),
]  # fmt: skip


@pytest.mark.parametrize(("function", "left", "limit"), CONDITIONS)
def test_a_condition_says_the_last_place(function: str, left: bool, limit: int | None) -> None:
    place, three = Column("r", Type.BIGINT), Literal(3, Type.INT)
    args: tuple[Expr, Expr] = (place, three) if left else (three, place)
    term = Call(function, args, Type.BOOLEAN)
    other = Call("=", (K, Literal(1, Type.INT)), Type.BOOLEAN)
    assert last_place(Call("and", (other, term), Type.BOOLEAN), "r") == limit
    assert last_place(Call("or", (other, term), Type.BOOLEAN), "r") is None
    assert last_place(term, "q") is None
