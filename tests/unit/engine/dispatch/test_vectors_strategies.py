"""Emission times of the strategies: vectors 1.4, 1.5, 1.6, 3.2, V6, V7, V8."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.graph.graph import Graph
from headrace.testing.simulation.engine import Arrival, Costs, Simulation


def burst(cycles: Any, count: int, *, size: int = 1) -> list[Arrival]:
    """So many tuples at 0 in pages of `size`."""
    names = [(f"t{number}", 0) for number in range(count)]
    return [Arrival(0, "S", cycles.page(*names[start : start + size])) for start in range(0, count, size)]


@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        (("dfs", "dfs", "dfs"), [3, 6, 9]),
        (("bfs", "bfs", "bfs"), [7, 8, 9]),
        (("rr", "rr", "rr"), [7, 8, 9]),
        (("bfs", "dfs", "dfs"), [5, 7, 9]),
        (("dfs-1", "dfs-1", "dfs-1"), [3, 6, 9]),
        (("dfs-1000",) * 3, [7, 8, 9]),
    ],
)
def test_v8_strategies_and_mixtures_on_a_path_of_three(
    cycles: Any, strategies: tuple[str, ...], expected: list[int]
) -> None:
    engine = cycles.engine(cycles.path(3))
    for number, strategy in enumerate(strategies, 1):
        engine.dispatch.use_strategy(strategy, [f"q{number}"])
    trace = Simulation(engine, cycles.clock, Costs(1)).run(burst(cycles, 3))
    assert trace.times() == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("dfs", [2, 4, 6, 8, 10, 12]),
        ("bfs", [7, 8, 9, 10, 11, 12]),
        ("rr", [7, 8, 9, 10, 11, 12]),
        ("dfs-1", [2, 4, 6, 8, 10, 12]),
        ("dfs-2", [3, 4, 7, 8, 11, 12]),
        ("dfs-3", [4, 5, 6, 10, 11, 12]),
        ("dfs-6", [7, 8, 9, 10, 11, 12]),
    ],
)
def test_v8_batches_of_six_tuples_on_a_path_of_two(cycles: Any, strategy: str, expected: list[int]) -> None:
    assert cycles.simulate(cycles.path(2), burst(cycles, 6), cost=1, strategy=strategy).times() == expected


@pytest.mark.parametrize("strategy", ["dfs-2", "dfs-3"])
def test_v8_pages_are_cut_to_batches(cycles: Any, strategy: str) -> None:
    k = int(strategy[-1])
    last_of_batch = [k * 2 * n for n in range(1, 6 // k + 1)]
    trace = cycles.simulate(cycles.path(2), burst(cycles, 6, size=6), cost=1, strategy=strategy)
    assert sorted(set(trace.times())) == last_of_batch
    assert [emission.row["x"] for emission in trace.emissions] == [f"t{n}" for n in range(6)]


@pytest.mark.parametrize("n", [1, 2, 4, 10, 100])
def test_3_2_mean_latency_of_a_burst(cycles: Any, n: int) -> None:
    assert cycles.simulate(cycles.path(2), burst(cycles, n), cost=1).mean_latency() == n + 1
    assert cycles.simulate(cycles.path(2), burst(cycles, n), cost=1, strategy="bfs").mean_latency() == 1.5 * n + 0.5


@pytest.mark.parametrize("k", [2, 5])
def test_3_2_mean_latency_of_a_burst_in_batches(cycles: Any, k: int) -> None:
    assert (
        cycles.simulate(cycles.path(2), burst(cycles, 10), cost=1, strategy=f"dfs-{k}").mean_latency()
        == 10 + (k + 1) / 2
    )


def test_a_punctuation_ends_a_batch(cycles: Any) -> None:
    arrivals = [*burst(cycles, 2), *cycles.at("S", "@0"), *burst(cycles, 2)]
    trace = cycles.simulate(cycles.path(2), arrivals, cost=1, strategy="dfs-4")
    assert trace.times() == [4, 5, 9, 10]  # q1: two tuples and the bound (3), q2 the same (6), then the rest


def test_encore_is_bounded_by_what_was_there_at_entry(cycles: Any) -> None:
    arrivals = [Arrival(time, "S", cycles.page((f"t{time}", time))) for time in range(10)]
    assert cycles.simulate(cycles.path(2), arrivals, cost=2, strategy="bfs").times()[0] == 4


def test_1_5_a_virtual_break_runs_the_fragments_one_after_the_other(cycles: Any) -> None:
    engine = cycles.engine(cycles.path(2))
    assert Simulation(engine, cycles.clock, Costs(1)).run(burst(cycles, 3)).times() == [2, 4, 6]
    engine = cycles.engine(cycles.path(2))
    engine.dispatch.set_break("q2")
    assert Simulation(engine, cycles.clock, Costs(1)).run(burst(cycles, 3)).times() == [4, 5, 6]
    engine = cycles.engine(cycles.path(2))
    engine.dispatch.set_break("q2")
    engine.dispatch.use_breaks([])
    assert Simulation(engine, cycles.clock, Costs(1)).run(burst(cycles, 3)).times() == [2, 4, 6]


def test_1_4_tables_of_a_path_of_a_broken_path_and_of_a_fork(cycles: Any) -> None:
    engine = cycles.engine(cycles.path(2))
    assert engine.dispatch.table.text().splitlines() == [
        "state  pred  succ  selection",
        "S      -     q1    SOURCE",
        "q1     S     q2    DFS-NOS",
        "q2     q1    -     DFS-SINK",
    ]
    engine.dispatch.set_break("q2")
    assert engine.dispatch.table.text().splitlines()[1:] == [
        "S           -           q1    SOURCE",
        "q1          S           -     DFS-SINK",
        "break:q2:0  -           q2    SOURCE-VIRTUAL",
        "q2          break:q2:0  -     DFS-SINK",
    ]
    fork = Graph(
        (
            cycles.scan("S"),
            cycles.select("a", "S"),
            cycles.select("b", "S"),
            cycles.output("A", "a"),
            cycles.output("B", "b"),
        )
    )
    assert cycles.engine(fork, strategy="rr").dispatch.table.text().splitlines()[1:] == [
        "S       -       fork:S  SOURCE",
        "fork:S  S       a,b     FORK",
        "a       fork:S  -       RR-SINK",
        "b       fork:S  -       RR-SINK",
    ]


def forked(cycles: Any) -> Graph:
    a, b, c = cycles.select("a", "S"), cycles.select("b", "S"), cycles.select("c", "b")
    return Graph((cycles.scan("S"), a, b, c, cycles.output("A", "a"), cycles.output("C", "c")))


def test_v6_a_fork_shares_its_buffer(cycles: Any) -> None:
    engine = cycles.engine(forked(cycles))
    for arrival in burst(cycles, 3):
        engine.push("S", arrival.element)
    stored = []
    while (step := engine.step()) is not None:
        if step.vertex in "ab":
            stored.append((step.vertex, engine.network.stored("S")))
    assert stored == [("a", 3), ("a", 3), ("a", 3), ("b", 2), ("b", 1), ("b", 0)]
    trace = cycles.simulate(forked(cycles), burst(cycles, 3), cost=1)
    assert trace.times("A") == [1, 2, 3]
    assert trace.times("C") == [5, 7, 9]


def test_v6_with_a_page_of_three(cycles: Any) -> None:
    trace = cycles.simulate(forked(cycles), burst(cycles, 3, size=3), cost=1)
    assert trace.times("A") == [3, 3, 3]
    assert trace.times("C") == [9, 9, 9]


def test_v7_a_sibling_of_a_blocked_operator_is_not_stranded(cycles: Any) -> None:
    union = cycles.union("U", "S1", "S2")
    graph = Graph(
        (
            cycles.scan("S1"),
            cycles.scan("S2"),
            union,
            cycles.select("q", "S1"),
            cycles.output("out", "U"),
            cycles.output("Q", "q"),
        )
    )
    trace = cycles.simulate(graph, cycles.at("S1", "x@10"), cost=1)
    assert cycles.named(trace) == {"x": 11}
    assert trace.times("Q") == [11]
    assert cycles.last.network.stored("S1") == 1


def test_1_7_a_late_branch_begins_at_the_tail(cycles: Any) -> None:
    one = Graph((cycles.scan("S"), cycles.select("a", "S"), cycles.output("A", "a")))
    engine = cycles.engine(one)
    for name in ("1", "2"):
        engine.push("S", cycles.page((name, 0)))
    engine.use(Graph((*one.vertices, cycles.select("b", "S"), cycles.output("B", "b"))))
    assert "fork:S" in engine.dispatch.table.rows
    for name in ("3", "4"):
        engine.push("S", cycles.page((name, 0)))
    engine.run()
    names = {end: [x for page in pages for x in page.rows["x"]] for end, pages in engine.take_results().items()}
    assert names == {"A": ["1", "2", "3", "4"], "B": ["3", "4"]}
    engine.use(one)
    assert "fork:S" not in engine.dispatch.table.rows


def test_1_7_a_branch_that_goes_is_drained_first(cycles: Any) -> None:
    engine = cycles.engine(forked(cycles))
    engine.push("S", cycles.page(("1", 0)))
    engine.use(Graph((cycles.scan("S"), cycles.select("a", "S"), cycles.output("A", "a"))))
    engine.run()
    assert {end: sum(map(len, pages)) for end, pages in engine.take_results().items()} == {"A": 1, "C": 1}


def test_strategies_may_change_between_any_two_steps(cycles: Any) -> None:
    engine = cycles.engine(cycles.path(3), strategy="bfs")
    simulation = Simulation(engine, cycles.clock, Costs(1))
    trace = simulation.run(burst(cycles, 3), until=1)  # q1 has executed once or twice
    engine.dispatch.use_strategy("dfs")
    assert simulation.run(()).times() == sorted(trace.times())
    assert len(trace.emissions) == 3
    assert trace.times()[0] < 7


def test_an_unknown_strategy_is_refused(cycles: Any) -> None:
    for name in ("chain", "dfs-0", "dfs-<k>", "bfs-2", ""):
        with pytest.raises(Exception, match="no strategy"):
            cycles.engine(cycles.path(1), strategy=name)
