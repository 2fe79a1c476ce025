from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.schema import EXPIRY, TS
from headrace.model.time import END
from headrace.operators import arrays
from headrace.operators.arrays import KEY, matches
from headrace.operators.state import sorted_side
from headrace.operators.state.sorted_side import SortedSide


def rows(keys: list[int], ts: list[int], exp: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"v": list(range(len(keys))), TS: ts, EXPIRY: exp, KEY: keys}, schema_overrides={TS: pl.Int64, EXPIRY: pl.Int64}
    ).sort(KEY)


def side(*, preserved: bool = False) -> SortedSide:
    return SortedSide("L", ("v",), preserved=preserved)


def insert(store: SortedSide, keys: list[int], ts: list[int], span: int) -> None:
    done = np.zeros(len(keys), np.bool_) if store.preserved else None
    store.insert(rows(keys, ts, [at + span for at in ts]), done, -(10**6))


@pytest.mark.parametrize("portion", [1, 7, 1000])
@settings(deadline=None, max_examples=50)
@given(needles=st.lists(st.integers(0, 6), max_size=20), keys=st.lists(st.integers(0, 6), max_size=20))
def test_matches_are_all_pairs_of_equal_keys(portion: int, needles: list[int], keys: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PAIRS_AT_ONCE", portion)
        one, two = np.sort(np.array(needles, np.int64)), np.sort(np.array(keys, np.int64))
        portions = list(matches(one, two))
    assert all(len(i) <= max(portion, len(keys)) for i, _ in portions)
    found = [(int(a), int(b)) for i, j in portions for a, b in zip(i, j, strict=True)]
    assert found == [(a, b) for a in range(len(one)) for b in range(len(two)) if one[a] == two[b]]


def test_many_small_inserts_leave_few_chunks_and_move_each_row_seldom() -> None:
    store, copied = side(), 0
    known: set[str] = set()
    for i in range(1000):
        insert(store, [i * 7919 % 1000], [5], 1000)
        fresh = {chunk.name: len(chunk) for chunk in store.chunks() if chunk.name not in known}
        known |= fresh.keys()
        copied += sum(fresh.values())
        assert len(list(store.chunks())) <= 12
    assert len(store) == 1000
    assert copied <= 1000 * 20
    assert all((np.diff(chunk.keys) >= 0).all() for chunk in store.chunks())


def test_an_insert_leaves_large_chunks_alone() -> None:
    store = side()
    insert(store, list(range(100)), [5] * 100, 1000)
    before = store.state()
    insert(store, [1], [5], 1000)
    after = store.state()
    assert [after[name] is before[name] for name in before] == [True]
    assert len(after) == 2


def test_chunks_do_not_grow_beyond_their_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_side, "LARGEST", 16)
    store = side()
    insert(store, list(range(50)), [5] * 50, 1000)
    for i in range(50):
        insert(store, [i], [5], 1000)
    sizes = [len(chunk) for chunk in store.chunks()]
    assert sum(sizes) == 100
    assert max(sizes) <= 16
    assert len(sizes) <= 16


def test_the_dead_leave_as_whole_chunks_soon_after_their_expiry() -> None:
    store = side()
    for ts in range(0, 4000, 10):
        insert(store, list(range(10)), list(range(ts, ts + 10)), 800)
        store.purge(ts)
        assert len(store) <= 800 + 2 * 128 + 10
    store.purge(10**6)
    assert len(store) == 0
    assert store.state() == {}


def test_a_silent_other_side_does_not_scatter_the_state() -> None:
    store = side()
    for ts in range(0, 15_000, 10):
        insert(store, [1], [ts], 0)
    assert len(store) == 1500
    assert len(store.state()) <= 150


def test_a_page_that_spans_ages_falls_into_few_slices() -> None:
    store = side()
    insert(store, list(range(1000)), [i * 10**9 for i in range(1000)], 1)
    assert len(store.state()) <= 33


def test_rows_that_never_expire_stay_until_the_end() -> None:
    store = side()
    store.insert(rows([1, 2, 3], [0, 0, 0], [END, 5, END]), None, 0)
    store.purge(END - 1)
    assert len(store) == 2
    store.purge(END)
    assert len(store) == 0


def test_merging_forgets_the_dead() -> None:
    store = side()
    store.insert(rows([1, 2], [0, 9], [100, 109]), None, 0)
    store.insert(rows([3], [9], [110]), None, 105)
    assert sorted(key for chunk in store.chunks() for key in chunk.keys.tolist()) == [2, 3]


def test_each_lonely_row_expires_once_and_marked_ones_never() -> None:
    store = side(preserved=True)
    insert(store, [1, 2, 3], [0, 1, 2], 100)
    (chunk,) = store.chunks()
    chunk.mark(np.array([1]))
    assert store.oldest_waiting() == 0
    assert [frame[TS].to_list() for frame in store.expire(101)] == [[0]]
    assert store.oldest_waiting() == 2
    assert list(store.expire(101)) == []
    assert [frame[TS].to_list() for frame in store.expire(END)] == [[2]]
    assert store.oldest_waiting() == END


def test_marks_change_only_their_own_small_value() -> None:
    store = side(preserved=True)
    insert(store, list(range(20)), [10] * 20, 100)
    before = store.state()
    (chunk,) = store.chunks()
    chunk.mark(np.array([3, 9]))
    after = store.state()
    assert [name for name in after if after[name] is not before[name]] == [f"{chunk.name}/done"]
    chunk.mark(np.array([9]))
    assert all(store.state()[name] is after[name] for name in after)


def test_restored_side_holds_the_same_objects_and_goes_on() -> None:
    store = side(preserved=True)
    for ts in range(0, 50, 5):
        insert(store, [ts % 3, 4], [ts, ts], 40)
    next(store.chunks()).mark(np.array([0]))
    state = store.state()
    other = side(preserved=True)
    other.restore(dict(reversed(state.items())))
    assert {name: id(frame) for name, frame in other.state().items()} == {
        name: id(frame) for name, frame in state.items()
    }
    for one in (store, other):
        insert(one, [5, 6], [50, 51], 40)
    assert store.state().keys() == other.state().keys()
    assert all(frame.equals(other.state()[name]) for name, frame in store.state().items())
