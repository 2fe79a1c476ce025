"""Shared segments and the load estimate."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.capacity.capacity import Path, PathOperator, path_cost
from headrace.analysis.capacity.load import excess, load
from headrace.analysis.capacity.sharing import PathTrie, Shared

CAPACITIES = {"A": 10000, "B": 8000, "C": 6000, "D": 5000, "E": 5000, "F": 4000, "G": 4000, "H": 4000}
SELECTIVITIES = {"A": 0.8, "B": 0.5, "C": 0.9, "D": 0.6, "E": 0.7}
STAGES = {name: PathOperator(name, capacity, SELECTIVITIES.get(name, 1.0)) for name, capacity in CAPACITIES.items()}


def test_7_load_of_three_queries_that_share_segments() -> None:
    paths = [(tuple(path), 2000.0) for path in ("ABDF", "ABCEH", "ABCEG")]
    assert path_cost(Path(tuple(STAGES[name] for name in "ABDF"))) == pytest.approx(3.40e-4)
    assert path_cost(Path(tuple(STAGES[name] for name in "ABCEH"))) == pytest.approx(4.0167e-4, rel=1e-4)
    assert load(paths, STAGES) == pytest.approx(1.20933, abs=5e-6)
    assert excess(load(paths, STAGES)) == pytest.approx(0.20933, abs=5e-6)
    assert sum(load([path], STAGES) for path in paths) == pytest.approx(2.28667, abs=5e-6)


def test_shared_segments_end_where_paths_part() -> None:
    trie = PathTrie()
    for path in ("ABDF", "ABCEH", "ABCEG"):
        trie.insert(path)
    assert trie.shared() == [Shared(("A", "B"), 3), Shared(("C", "E"), 2, ("A", "B"))]
    trie.delete("ABCEG")
    assert trie.shared() == [Shared(("A", "B"), 2)]
    trie.delete("ABCEH")
    assert trie.shared() == []
    with pytest.raises(KeyError):
        trie.delete("AB")


def test_a_path_that_ends_within_another_parts_from_it_there() -> None:
    trie = PathTrie()
    for path in ("AB", "ABC", "ABC"):
        trie.insert(path)
    assert trie.shared() == [Shared(("A", "B"), 3), Shared(("C",), 2, ("A", "B"))]


words = st.lists(st.text("ABC", min_size=1, max_size=4), min_size=1, max_size=8)


@given(words, words)
@settings(deadline=None)
def test_paths_that_came_and_went_leave_nothing(stay: list[str], go: list[str]) -> None:
    trie, fresh = PathTrie(), PathTrie()
    for path in [*go, *stay]:
        trie.insert(path)
    for path in go:
        trie.delete(path)
    for path in stay:
        fresh.insert(path)
    assert trie.shared() == fresh.shared()
    prefixes = Counter(path[:end] for path in stay for end in range(1, len(path) + 1))
    covered = [
        "".join((*shared.prefix, *shared.labels[: end + 1]))
        for shared in trie.shared()
        for end in range(len(shared.labels))
    ]
    assert sorted(covered) == sorted(
        prefix for prefix, count in prefixes.items() if count > 1
    )  # disjoint, and all of them


@given(st.lists(st.sampled_from(["ABDF", "ABCEH", "ABCEG", "AB", "DF", "DEH"]), min_size=1, max_size=6))
@settings(deadline=None)
def test_load_is_that_of_distinct_operators(paths: list[str]) -> None:
    rate = {"A": 300.0, "D": 100.0}
    distinct = {path[:end] for path in paths for end in range(1, len(path) + 1)}
    expected = 0.0
    for prefix in distinct:
        into = rate[prefix[0]]
        for name in prefix[:-1]:
            into *= STAGES[name].selectivity
        expected += into / STAGES[prefix[-1]].capacity
    assert load([(tuple(path), rate[path[0]]) for path in paths], STAGES) == pytest.approx(expected)
