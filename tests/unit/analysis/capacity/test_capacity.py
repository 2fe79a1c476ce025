"""Capacities and segments: the worked values of sections 4.2 and 4.6, and brute force."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.capacity.capacity import (
    Path,
    PathOperator,
    operator_release,
    path_capacity,
    path_cost,
    path_release,
    segment_release,
)
from headrace.analysis.capacity.segments import greedy_segments, memory_optimal_segments, prune, simplified_segments


def path(*operators: tuple[float, float], names: str = "ABCDEFGH") -> Path:
    """A simple path of (capacity, selectivity); sizes are 1."""
    return Path(tuple(PathOperator(name, *operator) for name, operator in zip(names, operators, strict=False)))


def last(simple: Path, start: int = 0) -> Path:
    return Path(simple.operators[start:])


FOUR = path((100, 0.2), (20, 0.5), (10, 0.9), (40, 0.0))
FIVE = path((10, 0.9), (10, 0.8), (10, 0.7), (20, 0.95), (10, 0.0))
COMPLEX = Path(
    (PathOperator("S1", 100, 0.5), PathOperator("S2", 50, 0.4)),
    (Path((PathOperator("B1", 40, 0.5),)), Path((PathOperator("B2a", 20, 0.3), PathOperator("B2b", 10, 1.0)))),
)


def test_4_2_capacity_of_a_select_and_a_join() -> None:
    assert path_capacity(path((1, 0.2), (0.2, 0.8))) == pytest.approx(0.5)


def test_4_2_four_operators() -> None:
    assert [operator_release(operator) for operator in FOUR.operators] == pytest.approx([80, 10, 1, 40])
    assert path_capacity(FOUR) == pytest.approx(31.008, abs=5e-4)
    assert path_release(FOUR) == pytest.approx(31.008, abs=5e-4)


def test_4_2_complex_path() -> None:
    assert path_cost(Path(COMPLEX.operators)) == pytest.approx(0.02)
    assert [path_cost(branch) for branch in COMPLEX.branches] == pytest.approx([0.025, 0.08])
    assert path_capacity(COMPLEX) == pytest.approx(24.390, abs=5e-4)


def test_4_6_segments_of_four_operators() -> None:
    cut = [("A",), ("B",), ("C", "D")]
    assert greedy_segments(FOUR) == cut
    assert memory_optimal_segments(FOUR) == cut
    assert simplified_segments(FOUR) == [("A",), ("B", "C", "D")]
    assert segment_release(Path(FOUR.operators[:1])) == pytest.approx(80)
    assert segment_release(last(FOUR, 2), last=True) == pytest.approx(8.163, abs=5e-4)
    assert segment_release(last(FOUR, 1), last=True) == pytest.approx(8.989, abs=5e-4)


def test_4_6_greedy_stops_too_early_where_memory_optimal_does_not() -> None:
    assert [operator_release(operator) for operator in FIVE.operators] == pytest.approx([1, 2, 3, 1, 10])
    prefixes = [segment_release(Path(FIVE.operators[:end]), last=end == 5) for end in range(1, 6)]
    assert prefixes == pytest.approx([1.0, 1.474, 1.893, 1.815, 2.984], abs=5e-4)
    assert greedy_segments(FIVE) == [("A", "B", "C"), ("D", "E")]
    assert segment_release(last(FIVE, 3), last=True) == pytest.approx(6.897, abs=5e-4)
    assert memory_optimal_segments(FIVE) == [("A", "B", "C", "D", "E")]


def test_4_6_segments_of_a_complex_path() -> None:
    cut = [("S1",), ("S2", "B1"), ("B2a",), ("B2b",)]
    assert memory_optimal_segments(COMPLEX) == cut
    assert greedy_segments(COMPLEX) == cut
    assert simplified_segments(COMPLEX) == [("S1",), ("S2", "B1", "B2a", "B2b")]
    assert operator_release(COMPLEX.operators[1], consumers=2) == pytest.approx(10)
    assert operator_release(COMPLEX.branches[0].operators[0], consumers=0) == pytest.approx(40)
    assert operator_release(COMPLEX.branches[1].operators[0]) == pytest.approx(14)
    shared = Path(
        (COMPLEX.operators[1],), (Path((PathOperator("B1", 40, 0.0),)), Path((PathOperator("to B2a", 1e12, 1.0),)))
    )
    assert segment_release(shared) == pytest.approx(
        20
    )  # (6.7): B1 gives its results away, the other branch stores a copy


def test_4_6_fifo_and_chain_paths_have_equal_capacities() -> None:
    assert path_capacity(path((1, 0.2), (0.2, 0.8))) == path_capacity(path((1, 0.2), (0.2, 0.8), names="XY")) == 0.5
    assert memory_optimal_segments(path((1, 0.2), (0.2, 0.0))) == [("A",), ("B",)]


def test_equal_releases_extend_a_segment() -> None:
    assert memory_optimal_segments(path((1, 0.5), (0.5, 0.0))) == [("A", "B")]
    assert memory_optimal_segments(path((1, 0.5), (0.4, 0.0))) == [("A",), ("B",)]


def test_segments_within_others_are_pruned() -> None:
    assert prune([("A",), ("A", "B"), ("C",), ("B",), ("A", "B")]) == [("A", "B"), ("C",)]
    assert prune([("A", "B"), ("A",)]) == prune([("A",), ("A", "B")])


trees = st.recursive(
    st.tuples(st.floats(1, 100), st.floats(0.05, 1.5), st.just(())),
    lambda inner: st.tuples(
        st.floats(1, 100), st.floats(0.05, 1.5), st.lists(inner, min_size=1, max_size=2).map(tuple)
    ),
    max_leaves=4,
)


def named(tree: Any, names: list[str]) -> Path:
    capacity, selectivity, children = tree
    names.append(f"o{len(names)}")
    return Path((PathOperator(names[-1], capacity, selectivity),), tuple(named(child, names) for child in children))


def best_first(tree: Path) -> float:
    """The fastest release of any first segment, by trying every order that respects the flow."""
    nodes: dict[str, tuple[str | None, float, float]] = {}

    def walk(part: Path, parent: str | None, reach: float) -> None:
        (operator,) = part.operators
        gain = reach * (1 - len(part.branches) * operator.selectivity)
        nodes[operator.name] = (parent, reach / operator.capacity, gain)
        for branch in part.branches:
            walk(branch, operator.name, reach * operator.selectivity)

    walk(tree, None, 1.0)
    best = float("-inf")
    for order in permutations(nodes):
        time = gain = 0.0
        for index, name in enumerate(order):
            if nodes[name][0] is not None and nodes[name][0] not in order[:index]:
                break
            time, gain = time + nodes[name][1], gain + nodes[name][2]
            best = max(best, gain / time)
    return best


@given(trees)
@settings(deadline=None, max_examples=60)
def test_the_first_memory_optimal_segment_is_the_best_of_all_orders(tree: object) -> None:
    names: list[str] = []
    whole = named(tree, names)
    if len(names) > 7:
        return
    segments = memory_optimal_segments(whole)
    assert sorted(name for segment in segments for name in segment) == sorted(names)
    operators = {operator.name: operator for operator in whole.run()}
    reach: dict[str, float] = {}

    def walk(part: Path, share: float) -> None:
        (operator,) = part.operators
        reach[operator.name] = share
        for branch in part.branches:
            walk(branch, share * operator.selectivity)

    walk(whole, 1.0)
    children = {part.operators[0].name: len(part.branches) for part in _parts(whole)}
    time = sum(reach[name] / operators[name].capacity for name in segments[0])
    gain = sum(reach[name] * (1 - children[name] * operators[name].selectivity) for name in segments[0])
    assert gain / time == pytest.approx(best_first(whole), rel=1e-9)


def _parts(part: Path) -> list[Path]:
    return [part, *(inner for branch in part.branches for inner in _parts(branch))]
