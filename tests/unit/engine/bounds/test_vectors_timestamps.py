"""Emission times of merging operators: vectors V1 to V5, V10, V12, 1.7, 2.5, 2.7."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headrace.graph.graph import Graph, Vertex
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Range
from headrace.operators.specs import PaneAggregate, PartialAggregate, Union
from headrace.testing.simulation.engine import Arrival, heartbeats

BOUNDED = ["literal", "absorb", "registers"]
STRATEGIES = ["dfs", "bfs", "rr", "dfs-2"]


def merged(cycles: Any, *sources: str) -> Graph:
    return Graph((*(cycles.scan(name) for name in sources), cycles.union("U", *sources), cycles.output("out", "U")))


def v1(cycles: Any) -> list[Arrival]:
    return cycles.at("A", "a1@1", "a2@4", "a3@4", "a4@7") + cycles.at("B", "b1@2", "b2@4", "b3@9")


def test_v1_a_basic_union_strands_simultaneous_tuples(cycles: Any) -> None:
    trace = cycles.simulate(merged(cycles, "A", "B"), v1(cycles), relaxed=False)
    assert cycles.named(trace) == {"a1": 2, "b1": 4, "a2": 4, "a3": 4, "b2": 7, "a4": 9}


def test_v1_registers_release_simultaneous_tuples(cycles: Any) -> None:
    trace = cycles.simulate(merged(cycles, "A", "B"), v1(cycles))
    assert cycles.named(trace) == {"a1": 2, "b1": 4, "a2": 4, "a3": 4, "b2": 4, "a4": 9}
    assert cycles.last.registers("U") == (7, 9)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("mode", BOUNDED)
def test_v1_with_bounds_on_demand(cycles: Any, mode: Any, strategy: str) -> None:
    trace = cycles.simulate(merged(cycles, "A", "B"), v1(cycles), mode, strategy=strategy)
    assert cycles.named(trace) == {"a1": 1, "b1": 2, "a2": 4, "a3": 4, "b2": 4, "a4": 7, "b3": 9}
    assert trace.asked == 4


def test_v1_latent_tuples_do_not_wait(cycles: Any) -> None:
    graph = Graph((cycles.scan("A"), cycles.scan("B"), Vertex("U", Union(2), ("A", "B")), cycles.output("out", "U")))
    trace = cycles.simulate(graph, v1(cycles))
    assert cycles.named(trace) == {"a1": 1, "b1": 2, "a2": 4, "a3": 4, "b2": 4, "a4": 7, "b3": 9}


def test_v1_with_larger_pages(cycles: Any) -> None:
    engine = cycles.engine(merged(cycles, "A", "B"))
    engine.push("A", cycles.page(("a1", 1), ("a2", 4), ("a3", 4), ("a4", 7)))
    engine.push("B", cycles.page(("b1", 2), ("b2", 4), ("b3", 9)))
    engine.run()
    rows = pl.concat([page.rows for page in engine.take_results()["out"]])
    assert rows["x"].to_list() == ["a1", "b1", "a2", "a3", "b2", "a4"]
    assert engine.registers("U") == (7, 9)
    engine.push("A", Punctuation(9))
    engine.run()
    assert engine.take_results()["out"][0].rows["x"].to_list() == ["b3"]


@pytest.mark.parametrize("mode", ["literal", "absorb"])
def test_v1b_periodic_bounds(cycles: Any, mode: Any) -> None:
    arrivals = cycles.at("A", "a@1", "b@4", "c@7") + heartbeats("B", 3, 9)
    trace = cycles.simulate(merged(cycles, "A", "B"), arrivals, mode, skews={})
    assert cycles.named(trace) == {"a": 3, "b": 6, "c": 9}
    assert cycles.last.registers("U") == (7, 9)


def selected(cycles: Any, drop: tuple[str, ...] = ()) -> Graph:
    selections = (cycles.select("sA", "A"), cycles.select("sB", "B", drop))
    return Graph(
        (cycles.scan("A"), cycles.scan("B"), *selections, cycles.union("U", "sA", "sB"), cycles.output("out", "U"))
    )


def test_v1c_a_dropped_tuple_advances_nothing(cycles: Any) -> None:
    arrivals = cycles.at("A", "a1@1") + cycles.at("B", "b@2", "b2@5")
    assert cycles.named(cycles.simulate(selected(cycles, ("b",)), arrivals)) == {"a1": 5}
    for mode in BOUNDED:
        assert cycles.named(cycles.simulate(selected(cycles, ("b",)), arrivals, mode)) == {"a1": 1, "b2": 5}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", {"a1": 27, "a2": 28, "b": 32}),
        ("literal", {"a1": 13, "a2": 24, "b": 29, "a3": 34}),
        ("absorb", {"a1": 13, "a2": 23, "b": 28, "a3": 33}),  # stale punctuation costs no step
        ("registers", {"a1": 12, "a2": 22, "b": 27, "a3": 32}),
    ],
)
def test_v2_costs(cycles: Any, mode: Any, expected: dict[str, int]) -> None:
    arrivals = cycles.at("A", "a1@10", "a2@20", "a3@30") + cycles.at("B", "b@25")
    assert cycles.named(cycles.simulate(selected(cycles), arrivals, mode, cost=1)) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("mode", BOUNDED)
def test_v3_every_silent_input_is_asked(cycles: Any, mode: Any, strategy: str) -> None:
    trace = cycles.simulate(merged(cycles, "A", "B", "C"), cycles.at("A", "a@10"), mode, strategy=strategy)
    assert cycles.named(trace) == {"a": 10}
    assert trace.asked == 2


def v4(cycles: Any) -> list[Arrival]:
    return cycles.at("B", "b1@1", "b2@6", "b3@13") + cycles.at("A", "a1@3", "a2@6", "a3@12")


def joined(cycles: Any) -> Graph:
    return Graph((cycles.scan("A"), cycles.scan("B"), cycles.join("J", "A", "B", 5), cycles.output("out", "J")))


def pairs(trace: Any) -> list[tuple[str, str, int, int]]:
    return [(emission.row["x"], emission.row["y"], emission.row[TS], emission.time) for emission in trace.emissions]


@pytest.mark.parametrize("mode", BOUNDED)
def test_v4_a_join_drops_what_has_expired_first(cycles: Any, mode: Any) -> None:
    found = pairs(cycles.simulate(joined(cycles), v4(cycles), mode))
    expected = [("a1", "b1", 3, 3), ("a2", "b1", 6, 6), ("a1", "b2", 6, 6), ("a2", "b2", 6, 6), ("a3", "b3", 13, 13)]
    assert sorted(found) == sorted(expected)
    assert [ts for *_, ts, _ in found] == sorted(ts for *_, ts, _ in found)


def test_v4_without_bounds(cycles: Any) -> None:
    found = pairs(cycles.simulate(joined(cycles), v4(cycles)))
    assert sorted(found) == [("a1", "b1", 3, 6), ("a1", "b2", 6, 6), ("a2", "b1", 6, 6), ("a2", "b2", 6, 6)]
    assert cycles.last.network.queued("J") == 1


def test_v4_with_larger_pages(cycles: Any) -> None:
    engine = cycles.engine(joined(cycles))
    engine.push("A", cycles.page(("a1", 3), ("a2", 6), ("a3", 12)))
    engine.push("B", cycles.page(("b1", 1), ("b2", 6), ("b3", 13)))
    engine.push("A", Punctuation(13))
    engine.run()
    rows = pl.concat([page.rows for page in engine.take_results()["out"]])
    assert rows[TS].is_sorted()
    assert sorted(rows.select("x", "y").rows()) == [
        ("a1", "b1"),
        ("a1", "b2"),
        ("a2", "b1"),
        ("a2", "b2"),
        ("a3", "b3"),
    ]


def test_v4b_a_join_promises_what_no_tuple_says(cycles: Any) -> None:
    graph = Graph(
        (
            cycles.scan("A"),
            cycles.scan("B"),
            cycles.join("J", "A", "B", 5),
            cycles.scan("C"),
            cycles.union("U", "J", "C"),
            cycles.output("out", "U"),
        )
    )
    engine = cycles.engine(graph, "absorb", skews={"A": None, "B": None})
    promised = []
    for arrival in [*cycles.at("B", "b1@1"), *cycles.at("A", "a1@3", "a2@12")]:
        cycles.clock.sleep_until(arrival.time)
        engine.push(arrival.source, arrival.element)
        engine.run()
        promised.append(engine.bounds.reached["J"])
    assert promised == [1, 1, 12]  # the pair at 3 says enough
    # C never speaks, so what came after the first bound is still at the union's input
    pair, last = engine.network.elements(("U", 0))
    assert (pair.rows["x"][0], pair.rows["y"][0], pair.rows[TS][0]) == ("a1", "b1", 3)
    assert last == Punctuation(12)
    assert engine.registers("U") == (3, BEGIN)


@pytest.mark.parametrize(
    ("mode", "expected", "asked"),
    [
        ("none", {"z": 43}, 0),
        ("literal", {"z": 13, "x": 23, "y": 44}, 6),
        ("absorb", {"z": 12, "x": 23, "y": 43}, 6),
        ("registers", {"z": 11, "x": 23, "y": 43}, 6),
    ],
)
def test_v5_nested_unions(cycles: Any, mode: Any, expected: dict[str, int], asked: int) -> None:
    arrivals = cycles.at("S3", "z@10") + cycles.at("S1", "x@20") + cycles.at("S2", "y@40")
    trace = cycles.simulate(nested(cycles), arrivals, mode, cost=1)
    assert cycles.named(trace) == expected
    assert trace.asked == asked
    if mode == "registers":
        assert cycles.last.registers("U1") == (40, 40)
        assert cycles.last.registers("U2") == (40, 42)


def nested(cycles: Any) -> Graph:
    scans = (cycles.scan("S1"), cycles.scan("S2"), cycles.scan("S3"))
    return Graph(
        (
            *scans,
            cycles.union("U1", "S1", "S2"),
            cycles.select("s", "U1"),
            cycles.union("U2", "s", "S3"),
            cycles.output("out", "U2"),
        )
    )


def test_v10_a_register_is_not_written_past_tuples_on_the_way(cycles: Any) -> None:
    engine = cycles.engine(nested(cycles), "registers", skews={})
    engine.dispatch.set_break("s")
    engine.push("U1", cycles.page(("x", 15)))
    for source in ("S1", "S2"):
        engine.push(source, Punctuation(20))
    # stage: U1 hands on its 20 while x is in the break's buffer
    engine.registers("U1")
    assert engine.bounds.hand_on("U1", 20, with_tuples=False) is None
    assert engine.registers("U2") == (BEGIN, BEGIN)
    engine.push("S3", cycles.page(("z", 18)))
    assert not engine.network.more("U2")
    engine.run()
    rows = pl.concat([page.rows for page in engine.take_results()["out"]])
    assert rows["x"].to_list() == ["x", "z"]
    assert engine.registers("U2") == (20, 18)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("b", "a", "c")])
def test_v12_a_tie_in_a_join_gives_each_pair_once(cycles: Any, order: tuple[str, ...]) -> None:
    arrivals = [Arrival(5, "B" if name == "b" else "A", cycles.page((name, 5))) for name in order]
    for mode in ("none", *BOUNDED):
        found = pairs(cycles.simulate(joined(cycles), arrivals, mode))
        assert sorted(found) == [("a", "b", 5, 5), ("c", "b", 5, 5)]


def test_1_7_removing_a_silent_input_releases_what_it_blocked(cycles: Any) -> None:
    engine = cycles.engine(merged(cycles, "A", "B", "C"))
    engine.push("A", cycles.page(("a", 1)))
    engine.push("B", cycles.page(("b", 2)))
    engine.run()
    assert engine.take_results() == {}
    engine.use(merged(cycles, "A", "B"))
    engine.run()
    assert [page.rows["x"].to_list() for page in engine.take_results()["out"]] == [["a"]]
    assert engine.registers("U") == (1, 2)
    engine.use(merged(cycles, "A", "B", "C"))
    assert engine.registers("U") == (1, 2, BEGIN)


def test_2_5_external_bounds_and_wake_ups(cycles: Any) -> None:
    engine = cycles.engine(merged(cycles, "A", "B"), "absorb", skews={"A": 3})
    cycles.clock.sleep_until(104)
    engine.push("A", cycles.page(("a", 100)))
    told = {}
    for now in range(104, 112):
        cycles.clock.sleep_until(now)
        told[now] = engine.ets("A")
    assert told == {104: 100, 105: 100, 106: 100, 107: 100, 108: 101, 109: 102, 110: 103, 111: 104}
    arrivals = cycles.at("A", "a@100>104") + cycles.at("B", "b@105>105")
    trace = cycles.simulate(merged(cycles, "A", "B"), arrivals, "absorb", skews={"A": 3})
    assert cycles.named(trace) == {"a": 105, "b": 112}


def counting(cycles: Any) -> Graph:
    calls = (AggregateCall("n", "count", None, Type.BIGINT),)
    window = Range(10, 10)
    partial, total = PartialAggregate(window, (), calls), PaneAggregate(window, (), calls)
    return Graph(
        (cycles.scan("S"), Vertex("p", partial, ("S",)), Vertex("w", total, ("p",)), cycles.output("out", "w"))
    )


@pytest.mark.parametrize(
    ("mode", "expected"), [("none", [(2, 12)]), ("absorb", [(2, 10), (1, 20)]), ("registers", [(2, 10), (1, 20)])]
)
def test_2_7_a_window_ends_by_the_clock_if_its_input_falls_silent(
    cycles: Any, mode: Any, expected: list[tuple[int, int]]
) -> None:
    arrivals = cycles.at("S", "t1@1", "@1", "t4@4", "@4", "t12@12", "@12")  # a tuple of an ordered stream is a bound
    trace = cycles.simulate(counting(cycles), arrivals, mode)
    assert [(emission.row["n"], emission.time) for emission in trace.emissions] == expected


def test_a_tuple_below_its_own_register_is_late(cycles: Any) -> None:
    for keep in (False, True):
        engine = cycles.engine(merged(cycles, "A", "B"), keep_late=keep)
        engine.push("A", Punctuation(5))
        engine.push("A", cycles.page(("late", 3), ("in", 6), ("later", 4), ("on", 6)))
        engine.push("B", Punctuation(9))
        engine.run()
        assert [x for page in engine.take_results()["out"] for x in page.rows["x"]] == ["in", "on"]
        assert engine.network.registers["U"].late == 2
        late = [x for page in engine.take_late().get("U", []) for x in page.rows["x"]]
        assert late == (["late", "later"] if keep else [])


def test_blocked_tuples_and_registers_survive_a_restart(cycles: Any) -> None:
    engine = cycles.engine(merged(cycles, "A", "B"))
    engine.push("A", cycles.page(("a1", 1), ("a2", 5)))
    engine.push("A", Punctuation(7))
    engine.push("B", cycles.page(("b1", 2)))
    engine.run()
    saved, again = engine.state(), engine.state()
    assert all(saved[name][chunk] is again[name][chunk] for name in saved for chunk in saved[name])
    other = cycles.engine(merged(cycles, "A", "B"))
    other.restore(
        {
            name: {chunk: Page.decode(Page(frame).encode()).rows for chunk, frame in chunks.items()}
            for name, chunks in saved.items()
        }
    )
    assert other.registers("U") == engine.registers("U") == (5, 2)
    for each in (engine, other):
        each.take_results()
        each.push("B", Punctuation(6))
        each.run()
        assert [x for page in each.take_results()["out"] for x in page.rows["x"]] == ["a2"]
        assert each.bounds.reached["out"] == 6
