from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.repeats import deduplicate
from headrace.operators.repeats.deduplicate import Deduplicate
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

SCHEMA = Schema.of(k=Type.INT, v=Type.BIGINT)
K = Column("k", Type.INT)
Tuple = tuple[int, int | None, int | None]  # ts, k, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])


def values(out: Sequence[object]) -> list[tuple[int, int, int]]:
    return [(ts, k, v) for item in out if isinstance(item, Page) for k, v, ts in item.rows.rows()]


def test_the_last_comes_when_no_other_can_follow_it_in_time() -> None:
    operator = Deduplicate((K,), 10, True, ("k", "v")).build()
    operator.on_page(0, page([(1, 1, 5), (3, 2, 9), (8, 1, 7)]))
    assert operator.due() == 12
    assert list(operator.on_punctuation(0, Punctuation(9))) == [Punctuation(-1)]
    assert operator.held() == 2, "of a key the newest is kept"
    out = list(operator.on_punctuation(0, Punctuation(14)))
    assert values(out) == [(3, 2, 9)]
    assert out[-1] == Punctuation(4), "a result may be so old"
    assert values(list(operator.on_punctuation(0, Punctuation(END)))) == [(8, 1, 7)]


def test_a_run_of_duplicates_that_is_longer_than_the_span_is_one() -> None:
    operator = Deduplicate((K,), 10, True, ("k", "v")).build()
    for ts in range(0, 100, 9):
        operator.on_page(0, page([(ts, 1, ts)]))
        assert values(list(operator.on_punctuation(0, Punctuation(ts + 1)))) == []
        assert operator.held() <= 3, "neighbors merge"
    assert values(list(operator.on_punctuation(0, Punctuation(END)))) == [(99, 1, 99)]


def test_the_first_comes_at_once_and_keys_are_forgotten_in_time() -> None:
    operator = Deduplicate((K,), 10, False, ("k", "v")).build()
    operator.on_page(0, page([(1, 1, 5), (3, 2, 9), (8, 1, 7)]))
    assert values(list(operator.on_punctuation(0, Punctuation(9)))) == [(1, 1, 5), (3, 2, 9)]
    list(operator.on_punctuation(0, Punctuation(30)))
    assert operator.held() == 0
    assert operator.state() == {}


_VALUES = st.sampled_from([1, 2, None])
_TUPLES = st.lists(st.tuples(st.integers(0, 30), _VALUES, _VALUES), max_size=14)


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplicate, "hash_columns", lambda columns: np.zeros(len(columns[0]), np.uint64))
    for last, expected in ((True, [(5, 1, 7), (6, 2, 8)]), (False, [(1, 1, 5), (2, 2, 6)])):
        operator = Deduplicate((K,), 10, last, ("k", "v")).build()
        operator.on_page(0, page([(1, 1, 5), (2, 2, 6), (5, 1, 7), (6, 2, 8)]))
        assert values(list(operator.on_punctuation(0, Punctuation(END)))) == expected


def test_a_key_that_is_named_twice_is_one() -> None:
    for last in (True, False):
        check_operator(Deduplicate((K, K), 3, last, ("k", "v")), [(0, page([(1, 1, 5), (2, 2, 6), (5, 1, 7)]))])


def test_the_state_of_an_earlier_version_had_its_keys_twice() -> None:
    operator, other = (Deduplicate((K,), 10, True, ("k", "v")).build() for _ in range(2))
    operator.on_page(0, page([(1, 1, 5), (3, 2, 9)]))
    list(operator.on_punctuation(0, Punctuation(4)))
    state = operator.state()
    assert not any("__by0" in rows.columns for rows in state.values())
    other.restore(state)
    assert all(rows is state[name] for name, rows in other.state().items()), "what has not changed is not written again"
    other.restore({name: rows.with_columns(pl.col("k").alias("__by0")) for name, rows in state.items()})
    other.on_page(0, page([(8, 1, 7)]))
    assert values(list(other.on_punctuation(0, Punctuation(END)))) == [(3, 2, 9), (8, 1, 7)]


@settings(deadline=None, max_examples=60)
@given(rows=_TUPLES, span=st.sampled_from([0, 3, 8]), last=st.booleans())
def test_what_comes_out_agrees_with_the_oracle_and_keeps_the_contract(rows: list[Tuple], span: int, last: bool) -> None:
    found = check_operator(Deduplicate((K,), span, last, ("k", "v")), [(0, page(rows))])
    # content decides ties, as in a stream that no source numbers
    derived = nodes.Union((nodes.Scan("s", SCHEMA), nodes.Scan("none", SCHEMA)))
    expected = answer(
        nodes.Deduplicate(derived, (K,), span, last),
        {"s": [Row(ts, {"k": k, "v": v}) for ts, k, v in rows], "none": []},
    )
    assert as_multiset(found) == as_multiset(expected)
