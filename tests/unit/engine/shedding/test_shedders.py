"""Shedders on pages: how much they drop, what they drop, and that a replay drops the same."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.commands.command import ShedAt
from headrace.engine.engine import Engine
from headrace.engine.shedding.shedders import Shedders
from headrace.graph.graph import Graph, vertex
from headrace.model.expressions.expression import TRUE, Column
from headrace.model.page import Page
from headrace.model.qos import SHED_KINDS, Shedding, ShedKind
from headrace.model.schema import TS, WEIGHT
from headrace.model.types import Type
from headrace.operators.specs import Filter, Output, Project, Scan

ARC = ("reader", 0)
SEMANTIC = [kind for kind in SHED_KINDS if kind != "RANDOM"]


def shedders(share: float, shedding: Shedding | None = None, seed: int = 0) -> Shedders:
    made = Shedders()
    made.use({ARC: ShedAt(*ARC, share, shedding or Shedding())})
    made.begin(seed)
    return made


def by_value(kind: ShedKind) -> Shedding:
    return Shedding(kind, "x", 50.0 if kind in ("CENTER", "OUTLIER") else None)


def page(values: list[float | None]) -> Page:
    return Page(
        pl.DataFrame(
            {"x": pl.Series(values, dtype=pl.Float64), TS: range(len(values))}, schema_overrides={TS: pl.Int64}
        )
    )


def left(made: Shedders, values: list[float | None], cuts: list[int]) -> list[int]:
    """The positions that stay, the values cut into pages."""
    whole = page(values).rows
    edges = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    found: list[int] = []
    for start, end in pairwise(edges):
        found += made.screen(ARC, Page(whole[start:end])).rows[TS].to_list()
    return found


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.97])
def test_random_shedding_drops_the_share_within_binomial_bounds(share: float) -> None:
    made = shedders(share)
    for _ in range(20):
        made.screen(ARC, page([0.0] * 1000))
    (count,) = made.take_counts()
    assert count.seen == 20_000
    assert abs(count.dropped - share * 20_000) <= 5 * math.sqrt(20_000 * share * (1 - share))
    assert made.take_counts() == []


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 300), max_size=6), st.integers(0, 5))
def test_a_replay_drops_the_same_however_tuples_are_cut_into_pages(cuts: list[int], seed: int) -> None:
    values: list[float | None] = [float(i % 17) for i in range(300)]
    assert left(shedders(0.3, seed=seed), values, cuts) == left(shedders(0.3, seed=seed), values, [])
    assert left(shedders(0.3, seed=seed), values, []) != left(shedders(0.3, seed=seed + 1), values, [])


@pytest.mark.parametrize("kind", SEMANTIC)
@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 100), min_size=50, max_size=200), st.floats(0.05, 0.9))
def test_a_page_loses_those_that_go_first_and_just_the_share(kind: ShedKind, numbers: list[int], share: float) -> None:
    values = [float(number) for number in numbers]
    kept = set(left(shedders(share, by_value(kind)), list(values), []))
    rank = {
        "SMALLEST": lambda x: x,
        "LARGEST": lambda x: -x,
        "CENTER": lambda x: abs(x - 50),
        "OUTLIER": lambda x: -abs(x - 50),
    }[kind]
    gone = [rank(value) for i, value in enumerate(values) if i not in kept]
    stay = [rank(value) for i, value in enumerate(values) if i in kept]
    if gone and stay:
        assert max(gone) <= min(stay)
    # but for those just at the border, which go by coin
    border = sorted(map(rank, values))[min(int(share * len(values)), len(values) - 1)]
    assert sum(rank(v) < border for v in values) <= len(gone) <= sum(rank(v) <= border for v in values)


@pytest.mark.parametrize("kind", SEMANTIC)
@pytest.mark.parametrize("size", [1, 7, 200])
@pytest.mark.parametrize("shape", ["even", "few values", "growing"])
def test_the_share_is_reached_by_values_of_any_shape_in_pages_of_any_size(
    kind: ShedKind, size: int, shape: str
) -> None:
    chance = np.random.default_rng(3)
    made, count = shedders(0.3, by_value(kind)), 2400
    numbers = {
        "even": chance.uniform(0, 100, count),
        "few values": chance.integers(0, 3, count) * 50.0,
        "growing": np.linspace(0, 100, count),
    }[shape]
    left(made, numbers.tolist(), list(range(0, count, size)))
    (counted,) = made.take_counts()
    assert counted.dropped / counted.seen == pytest.approx(0.3, abs=0.05)  # where values only grow, by whole pages


def test_small_pages_still_lose_those_that_go_first() -> None:
    values = np.random.default_rng(5).uniform(0, 100, 3000).tolist()
    kept = left(shedders(0.25, by_value("SMALLEST")), values, list(range(0, 3000, 5)))
    assert np.mean([values[i] > 25 for i in kept if i > 500]) > 0.97


@pytest.mark.parametrize("cut", [1, 500, 1999])
def test_a_shedder_that_is_restored_goes_on_as_if_nothing_had_been(cut: int) -> None:
    values: list[float | None] = np.random.default_rng(7).uniform(0, 100, 2000).tolist()

    def second(made: Shedders) -> list[int]:
        made.begin("next")
        return left(made, values[cut:], list(range(0, 2000, 13)))

    one, other = shedders(0.3, by_value("CENTER")), shedders(0.3, by_value("CENTER"))
    left(one, values[:cut], [100, 200])
    other.restore(one.remembered())
    assert second(one) == second(other)


def test_a_missing_value_goes_by_chance_and_a_missing_column_too() -> None:
    made = shedders(0.4, by_value("LARGEST"))
    kept = left(made, [None] * 4000, [])
    assert len(kept) == pytest.approx(2400, abs=160)
    made.screen(ARC, Page(pl.DataFrame({TS: range(4000)}, schema={TS: pl.Int64})))
    assert made.take_counts()[0].dropped == pytest.approx(3200, abs=230)


def test_a_share_of_nothing_only_looks() -> None:
    made = shedders(0.0, by_value("SMALLEST"))
    assert len(left(made, list(np.linspace(0, 100, 500)), [])) == 500
    made.use({ARC: ShedAt(*ARC, 0.5, by_value("SMALLEST"))})
    assert len(made.screen(ARC, page([90.0]))) == 1
    assert len(made.screen(ARC, page([10.0]))) == 0  # known to be small from what was only looked at
    assert len(made.screen(ARC, page([10.0]))) == 1  # two of three would be more than the share


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.floats(0.05, 0.8), st.integers(0, 1000))
def test_weights_of_those_that_stay_count_for_those_that_went(share: float, seed: int) -> None:
    """The mean over many draws is the truth, within 5 standard errors, of a count and of a sum."""
    rows = pl.DataFrame({"x": np.arange(200.0), TS: np.arange(200), WEIGHT: np.ones(200)})
    counts, sums, draws = [], [], 300
    made = shedders(share)
    for number in range(draws):
        made.begin(seed, number)
        kept = made.screen(ARC, Page(rows)).rows
        counts.append(kept[WEIGHT].sum())
        sums.append((kept["x"] * kept[WEIGHT]).sum())
    spread = share / (1 - share)
    assert np.mean(np.array(counts, float)) == pytest.approx(200, abs=5 * math.sqrt(200 * spread / draws))
    assert np.mean(np.array(sums, float)) == pytest.approx(
        19900, abs=5 * math.sqrt(float((np.arange(200.0) ** 2).sum()) * spread / draws)
    )


def test_weights_multiply_along_a_path() -> None:
    rows = pl.DataFrame({TS: np.arange(100), WEIGHT: np.full(100, 2.0)})
    assert set(shedders(0.5).screen(ARC, Page(rows)).rows[WEIGHT]) == {4.0}
    assert set(
        shedders(0.5, by_value("SMALLEST")).screen(ARC, Page(rows.with_columns(x=pl.lit(1.0)))).rows[WEIGHT]
    ) == {2.0}


def test_a_fork_sheds_on_one_arc_what_its_neighbour_reads_and_a_switch_keeps_what_waits() -> None:
    scan = vertex(Scan("t", ("x",)))
    ones, others = vertex(Filter(TRUE), [scan]), vertex(Project((("x", Column("x", Type.DOUBLE)),)), [scan])
    graph = Graph((scan, ones, others, vertex(Output("a"), [ones]), vertex(Output("b"), [others])))
    engine = Engine(graph)
    engine.shedders.begin(0)
    engine.push(scan.id, page([1.0] * 100))
    engine.use_shedders({(ones.id, 0): ShedAt(ones.id, 0, 0.5)})  # what waits already stays
    engine.push(scan.id, page([2.0] * 100))
    engine.use_shedders({})
    engine.push(scan.id, page([3.0] * 100))
    engine.run()
    found = {
        name: [value for each in pages for value in each.rows["x"]] for name, pages in engine.take_results().items()
    }
    shed, whole = found[graph.vertices[3].id], found[graph.vertices[4].id]
    (count,) = engine.shedders.take_counts()
    assert (count.seen, whole.count(1.0), whole.count(2.0), whole.count(3.0)) == (100, 100, 100, 100)
    assert (shed.count(1.0), shed.count(2.0), shed.count(3.0)) == (100, 100 - count.dropped, 100)
    assert 25 < count.dropped < 75


def test_what_a_dropped_query_still_had_to_do_is_not_shed() -> None:
    scan = vertex(Scan("t", ("x",)))
    old, end = vertex(Filter(TRUE), [scan]), vertex(Output("a"), [scan])
    gone = vertex(Output("b"), [old])
    engine = Engine(Graph((scan, old, end, gone)))
    engine.shedders.begin(0)
    engine.use_shedders({(gone.id, 0): ShedAt(gone.id, 0, 0.5)})
    engine.push(scan.id, page([1.0] * 100))
    engine.use(Graph((scan, end)))
    assert engine.shedders.take_counts() == []
    assert engine.shedders.active


@pytest.mark.parametrize("kind", SEMANTIC)
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=200),
    st.lists(st.integers(0, 200), max_size=5),
    st.sampled_from([0.05, 0.3]),
)
def test_no_more_than_the_share_of_a_sum_is_dropped(
    kind: ShedKind, values: list[float | None], cuts: list[int], share: float
) -> None:
    made = shedders(share, replace(by_value(kind), bounds_sum=True))
    kept = set(left(made, values, cuts))
    sizes = [abs(value or 0.0) for value in values]
    lost = sum(size for place, size in enumerate(sizes) if place not in kept)
    assert lost <= share * sum(sizes) * (1 + 1e-9)


DRIFTS = {
    "growing": np.arange(6000.0),
    "shrinking": np.arange(6000.0, 0, -1),
    "jumping": np.where(np.arange(6000) // 800 % 2 == 0, 10.0, 1000.0),
    "with one jump": np.where(np.arange(6000) < 3100, 1.0, 1e4),
    "in teeth": np.arange(6000.0) % 900,
}


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("kind", SEMANTIC)
@pytest.mark.parametrize("size", [40, 500])
def test_no_window_loses_more_than_the_share_while_values_drift(kind: ShedKind, drift: str, size: int) -> None:
    values, window, restarts = DRIFTS[drift], 1000, (1700, 4300)
    shedding = replace(by_value(kind), bounds_sum=True, pane=window)
    made = shedders(0.4, shedding)
    stays = np.zeros(6000, bool)
    for start in range(0, 6000, size):
        if any(start <= place < start + size for place in restarts):
            made, kept = shedders(0.4, shedding), made.remembered()
            made.restore(kept)
        places = np.arange(start, min(start + size, 6000))
        rows = pl.DataFrame({"x": values[places], TS: places})
        stays[made.screen(ARC, Page(rows)).rows[TS].to_numpy()] = True
    lost = ~stays.reshape(-1, window)
    whole = values.reshape(-1, window)
    assert (lost.sum(axis=1) <= 0.4 * window).all()
    assert ((lost * whole).sum(axis=1) <= 0.4 * whole.sum(axis=1) * (1 + 1e-9)).all()
    assert lost.mean() > 0.2, "it still sheds"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.floats(-1e6, 1e6), st.integers(-30, 30)), min_size=1, max_size=150),
    st.lists(st.integers(0, 150), max_size=5),
    st.sampled_from(SEMANTIC),
    st.sampled_from([0.05, 0.3, 0.9]),
)
def test_no_pane_loses_more_than_the_share_whatever_comes(
    tuples: list[tuple[float | None, int]], cuts: list[int], kind: ShedKind, share: float
) -> None:
    made = shedders(share, replace(by_value(kind), pane=10))
    values, times = zip(*tuples, strict=True)
    edges = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    stay: list[int] = []
    for start, end in pairwise(edges):
        rows = page(list(values[start:end])).rows.with_columns(pl.Series(TS, times[start:end], pl.Int64))
        stay += made.screen(ARC, Page(rows)).rows[TS].to_list()
    for number in {time // 10 for time in times}:
        seen = sum(time // 10 == number for time in times)
        assert seen - sum(time // 10 == number for time in stay) <= share * seen + 1e-9


def test_a_shedder_that_keeps_to_the_sum_still_drops() -> None:
    made = shedders(0.1, Shedding("LARGEST", "x", bounds_sum=True))
    values = [1000.0 if place % 10 == 0 else 1.0 for place in range(1000)]
    kept = left(made, list(values), [100, 300, 700])
    assert 0.05 * sum(values) < sum(values) - sum(values[place] for place in kept) <= 0.1 * sum(values)
