"""Where, how much and when to shed: the worked example cell by cell, and what holds of all plans."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.capacity.capacity import PathOperator
from headrace.analysis.capacity.load import excess, load
from headrace.analysis.shedding.allocation import allocate, shares
from headrace.analysis.shedding.decision import MARGIN, ActiveSheds, decide
from headrace.analysis.shedding.places import QueryPath, choose_places, places_of

CAPACITY = {"A": 10_000, "B": 8000, "C": 6000, "D": 5000, "E": 5000, "F": 4000, "G": 4000, "H": 4000}
SELECTIVITY = {"A": 0.8, "B": 0.5, "C": 0.9, "D": 0.6, "E": 0.7}
STAGES = {name: PathOperator(name, capacity, SELECTIVITY.get(name, 1.0)) for name, capacity in CAPACITY.items()}
PATHS = (
    QueryPath("Q1", tuple("ABDF"), 2000, 0.15),
    QueryPath("Q2", tuple("ABCEH"), 2000, 0.25),
    QueryPath("Q3", tuple("ABCEG"), 2000, 0.5),
)
TEST = 1e-6


def phi(paths: tuple[QueryPath, ...], operators: dict[str, PathOperator]) -> float:
    return load([(path.labels, path.rate) for path in paths], operators)


def test_7_5_worked_example_load() -> None:
    assert phi(PATHS, STAGES) == pytest.approx(1.20933, abs=5e-6)
    assert excess(phi(PATHS, STAGES)) == pytest.approx(0.20933, abs=5e-6)


@pytest.mark.parametrize(
    ("place", "weight"),
    [
        ("A", 0.39867),
        ("B", 0.33289),
        ("C", 0.26307),
        ("E", 0.19656),
        ("D", 0.27467),
        ("F", 0.11680),
        ("G", 0.12499),
        ("H", 0.12398),
    ],
)
def test_7_9_worked_example_place_weight(place: str, weight: float) -> None:
    assert places_of(PATHS, STAGES, test=TEST)[place].weight == pytest.approx(weight, abs=5e-6)


def test_7_5_worked_example_merging_leaves_a_c_and_g() -> None:
    chosen = {place.label: place.error for place in choose_places(PATHS, STAGES, test=TEST)}
    assert chosen == {"A": pytest.approx(0.15), "C": pytest.approx(0.10), "G": pytest.approx(0.25)}


def test_7_5_worked_example_allocation() -> None:
    found = allocate(excess(phi(PATHS, STAGES)), choose_places(PATHS, STAGES, test=TEST))
    first, second = found.sheds
    assert (first.place.label, second.place.label, found.shortfall) == ("A", "C", 0.0)
    assert (first.share, first.freed) == pytest.approx((0.15, 0.17940))
    assert second.share * second.place.rate == pytest.approx(46.4, abs=0.1)
    assert second.share == pytest.approx(0.058, abs=5e-4)
    assert shares(found.sheds) == {"A": pytest.approx(0.15), "C": pytest.approx(0.068, abs=5e-4)}  # C sees 680 a second


def test_7_6_the_text_s_example_sheds_a_quarter_of_the_processor() -> None:
    assert excess(1.25) == 0.25


shares_of_one = st.floats(0.05, 1.0)


@st.composite
def chains(draw: st.DrawFn) -> tuple[dict[str, PathOperator], tuple[str, ...]]:
    names = tuple("abcdef"[: draw(st.integers(1, 6))])
    return {name: PathOperator(name, draw(st.floats(100, 1e5)), draw(shares_of_one)) for name in names}, names


@st.composite
def clusters(draw: st.DrawFn) -> tuple[tuple[QueryPath, ...], dict[str, PathOperator]]:
    """Paths of one stream that share beginnings; labels are prefixes, so equal beginnings are the same operators."""
    rate = draw(st.floats(10, 5000))
    ways = draw(st.lists(st.text("xy", min_size=1, max_size=4), min_size=1, max_size=5, unique=True))
    paths = []
    for number, way in enumerate(ways):
        labels = ("s", *(way[: end + 1] for end in range(len(way))), f"out{number}")
        paths.append(QueryPath(f"q{number}", labels, rate, draw(st.floats(0, 0.9))))
    operators = {
        label: PathOperator(label, draw(st.floats(100, 1e5)), draw(shares_of_one))
        for path in paths
        for label in path.labels
    }
    return tuple(paths), operators


@settings(deadline=None, max_examples=60)
@given(chains(), st.floats(1, 1e4), st.floats(0.01, 1))
def test_the_leaf_wins_if_a_shedder_costs_nothing(
    chain: tuple[dict[str, PathOperator], tuple[str, ...]], rate: float, error: float
) -> None:
    operators, names = chain
    found = places_of((QueryPath("q", names, rate, error),), operators)
    assert max(place.weight for place in found.values()) == pytest.approx(found["a"].weight)


@settings(deadline=None, max_examples=60)
@given(chains(), st.floats(1, 1e4), st.floats(1, 1e4), st.floats(0.01, 1), st.floats(0, 1e-4))
def test_the_order_of_places_on_a_path_does_not_depend_on_the_rate(
    chain: tuple[dict[str, PathOperator], tuple[str, ...]], rate: float, other: float, error: float, test: float
) -> None:
    operators, names = chain
    one = places_of((QueryPath("q", names, rate, error),), operators, test=test)
    two = places_of((QueryPath("q", names, other, error),), operators, test=test)
    for name in names:
        assert two[name].weight == pytest.approx(one[name].weight * other / rate, abs=1e-9)


def test_a_later_place_wins_if_the_test_costs_more_than_is_freed_before_it() -> None:
    operators = {"a": PathOperator("a", 1e6, 0.01), "b": PathOperator("b", 100.0)}
    found = places_of((QueryPath("q", ("a", "b"), 1000, 0.1),), operators, test=2e-5)
    assert found["a"].weight < 0 < found["b"].weight
    assert [place.label for place in choose_places((QueryPath("q", ("a", "b"), 1000, 0.1),), operators, test=2e-5)] == [
        "b"
    ]


def test_no_place_where_every_shedder_costs_more_than_it_frees() -> None:
    path = QueryPath("q", ("a",), 1000, 0.1)
    operators = {"a": PathOperator("a", 1e6)}
    assert choose_places((path,), operators, test=1e-5) == ()
    assert all(place.weight <= 0 for place in places_of((path,), operators, test=1e-5).values())


@settings(deadline=None, max_examples=100)
@given(clusters())
def test_phi_is_the_sum_over_distinct_operators(cluster: tuple[tuple[QueryPath, ...], dict[str, PathOperator]]) -> None:
    paths, operators = cluster
    rates = {"s": paths[0].rate}
    for path in paths:
        for before, after in pairwise(path.labels):
            rates[after] = rates[before] * operators[before].selectivity
    assert phi(paths, operators) == pytest.approx(
        sum(rate / operators[label].capacity for label, rate in rates.items())
    )


@settings(deadline=None, max_examples=150)
@given(clusters(), st.floats(0, 1e-5), st.floats(0.01, 3))
def test_no_query_loses_more_than_it_bears(
    cluster: tuple[tuple[QueryPath, ...], dict[str, PathOperator]], test: float, missing: float
) -> None:
    paths, operators = cluster
    barred = frozenset({"s"})
    places = choose_places(paths, operators, test=test, barred=barred)
    found = allocate(missing, places)
    for path in paths:
        kept = 1.0
        assert sum(place.error for place in places if place.label in path.labels) <= path.error + 1e-9
        for label, share in shares(found.sheds).items():
            assert label != "s"
            kept *= 1 - share if label in path.labels else 1
        assert 1 - kept <= path.error + 1e-9


@settings(deadline=None, max_examples=100)
@given(clusters(), st.floats(0.001, 3))
def test_what_is_freed_and_what_is_short_are_what_is_missing(
    cluster: tuple[tuple[QueryPath, ...], dict[str, PathOperator]], missing: float
) -> None:
    places = choose_places(*cluster)
    found = allocate(missing, places)
    assert sum(shed.freed for shed in found.sheds) + found.shortfall == pytest.approx(missing)
    if found.shortfall:
        assert all(shed.share == shed.place.error for shed in found.sheds)


@settings(deadline=None, max_examples=60)
@given(clusters(), st.floats(0.01, 1), st.randoms(use_true_random=False))
def test_the_greedy_choice_costs_no_more_than_any_other_order(
    cluster: tuple[tuple[QueryPath, ...], dict[str, PathOperator]], missing: float, random: Random
) -> None:
    """With free tests what is freed is proportional to the error, so a fractional knapsack is solved exactly."""
    places = list(choose_places(*cluster))
    best = allocate(missing, places)
    random.shuffle(places)
    freed, harm = 0.0, 0.0  # of places in another order
    for place in places:
        share = min(place.error, max(0.0, missing - freed) / (place.rate * place.cost))
        freed, harm = freed + place.freed(share), harm + share * place.paths
    assert best.shortfall == pytest.approx(max(0.0, missing - freed), abs=1e-9)
    assert sum(shed.share * shed.place.paths for shed in best.sheds) <= harm + 1e-9


PLACES = choose_places(PATHS, STAGES, test=TEST)


def test_shedding_begins_above_the_limit_and_ends_last_first() -> None:
    plan = decide(ActiveSheds(), 0.99, PLACES)
    assert plan == ActiveSheds()
    plan = decide(plan, 1.23, PLACES)
    assert [shed.place.label for shed in plan.sheds] == ["A", "C"]
    assert decide(plan, 1.23, PLACES) == plan
    plan = decide(plan, 1.05, PLACES)  # without C there is room to spare
    assert [shed.place.label for shed in plan.sheds] == ["A"]
    plan = decide(plan, 0.94, PLACES)
    assert plan.sheds == ()


def test_shedding_says_what_is_missing_when_no_query_bears_more() -> None:
    plan = decide(ActiveSheds(), 2.0, PLACES)
    assert len(plan.sheds) == 3
    assert plan.shortfall == pytest.approx(1.0 - sum(shed.freed for shed in plan.sheds))


def test_a_share_falls_with_the_load_before_its_shedder_ends() -> None:
    plan = decide(ActiveSheds(), 1.17, PLACES)
    before = plan.sheds[0].share
    plan = decide(plan, 1.05, PLACES)
    assert plan.sheds[0].place.label == "A"
    assert 0 < plan.sheds[0].share < before
    assert 1 - MARGIN < 1.05 - plan.sheds[0].freed <= 1


@settings(deadline=None, max_examples=60)
@given(st.floats(0.7, 0.94), st.floats(1.01, 1.2))
def test_a_square_wave_switches_once_per_edge(low: float, high: float) -> None:
    plan, changes = ActiveSheds(), 0
    for estimate in [*[high] * 5, *[low] * 5, *[high] * 5, *[low] * 5]:
        after = decide(plan, estimate, PLACES)
        changes += bool(plan.sheds) != bool(after.sheds)
        plan = after
    assert changes == 4


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(1 - MARGIN + 0.001, 1.0), max_size=20))
def test_a_load_that_hovers_below_the_limit_changes_nothing(estimates: list[float]) -> None:
    plan = began = decide(ActiveSheds(), 1.001, PLACES)
    for estimate in estimates:
        plan = decide(plan, estimate, PLACES)
    assert [shed.place.label for shed in plan.sheds] == [shed.place.label for shed in began.sheds]
