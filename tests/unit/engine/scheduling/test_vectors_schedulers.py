"""Published and derived examples of scheduling, number by number."""

import pytest

from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Turn
from headrace.engine.scheduling.schedulers.threshold import Threshold
from headrace.engine.scheduling.units import Part, Stakes, units_of
from headrace.graph.graph import Vertex
from headrace.operators.specs import Union
from headrace.testing.simulation.units import TupleArrival, UnitSimulation, UnitTrace, line, part_of


def cost(capacity: float, selectivity: float = 1.0, size_in: float = 1.0, size_out: float = 1.0) -> Cost:
    return Cost(1e9 / capacity, selectivity, size_in, size_out)


def two_selects_and_a_join() -> Part:
    vertices = [Vertex("1", Union(1), ("s1",)), Vertex("2", Union(1), ("s2",)), Vertex("3", Union(1), ("1", "2"))]
    return part_of(vertices, {"1": cost(1, 0.2), "2": cost(1, 0.2), "3": cost(0.2, 0.8)})


INPUT = [TupleArrival(1, "1"), TupleArrival(2, "2"), TupleArrival(3, "1"), TupleArrival(3, "2"), TupleArrival(10, "1")]
#: t: what waits, the latency of what comes out then (None: nothing).
TABLE = {
    "fifo": {
        1: (1.0, None), 2: (1.2, None), 3: (3.0, 2), 4: (2.2, None), 5: (2.0, 3),
        6: (1.2, None), 7: (1.0, 4), 8: (0.2, None), 9: (0.0, 6), 10: (1.0, None),
    },
    "chain": {
        1: (1.0, None), 2: (1.2, None), 3: (2.4, None), 4: (1.6, None), 5: (0.8, None),
        6: (0.6, 5), 7: (0.4, 5), 8: (0.2, 5), 9: (0.0, 6), 10: (1.0, None),
    },
}  # fmt: skip


def run_table(name: str) -> UnitTrace:
    return UnitSimulation(two_selects_and_a_join(), SCHEDULERS[name]).run(INPUT, until=10)


@pytest.mark.parametrize(("name", "column"), [("fifo", "fifo"), ("chain", "chain"), ("memory-optimal", "chain")])
def test_x9_table_6_2_cell_by_cell(name: str, column: str) -> None:
    trace = run_table(name)
    came = {round(time): (one, time) for time, _, one in trace.results if time <= 10}
    for t, (waits, latency) in TABLE[column].items():
        assert trace.waiting_at(t) == pytest.approx(waits), f"what waits at {t}"
        assert (t in came) == (latency is not None), f"whether anything comes out at {t}"
        if latency is not None:
            assert came[t][1] - came[t][0].arrived == pytest.approx(latency)
            assert came[t][0].mass == pytest.approx(0.16)


def test_x9_means_and_peaks() -> None:
    fifo, chain, paths = run_table("fifo"), run_table("chain"), run_table("path-capacity")
    latencies = [[time - one.arrived for time, _, one in trace.results if time < 10] for trace in (fifo, chain, paths)]
    assert [sum(each) / len(each) for each in latencies] == pytest.approx([3.75, 5.25, 3.75])
    assert (fifo.peak, chain.peak, paths.peak) == pytest.approx((3.0, 2.4, 3.0))


def units(kind: str, part: Part) -> dict[tuple[str, ...], float]:
    return {unit.vertices: unit.release for unit in units_of((kind,), part)}  # type: ignore[arg-type]


def test_4_6_segments_of_two_selects_and_a_join() -> None:
    assert units("memory-optimal", two_selects_and_a_join()) == pytest.approx({("1",): 0.8, ("2",): 0.8, ("3",): 0.2})


def test_4_6_greedy_against_memory_optimal() -> None:
    part = part_of(
        line(*"ABCDE"), {"A": cost(10, 0.9), "B": cost(10, 0.8), "C": cost(10, 0.7), "D": cost(20, 0.95), "E": cost(10)}
    )
    assert units("memory-optimal", part) == pytest.approx({tuple("ABCDE"): 2.984}, abs=1e-3)
    assert units("greedy", part) == pytest.approx({tuple("ABC"): 1.893, tuple("DE"): 6.897}, abs=1e-3)
    assert units("envelope", part) == pytest.approx(
        dict.fromkeys([("A",), ("B",), ("C",), ("D",), ("E",)], 2.984), abs=1e-3
    )


def test_4_6_four_operator_path() -> None:
    part = part_of(
        line("O1", "O2", "O3", "O4"), {"O1": cost(100, 0.2), "O2": cost(20, 0.5), "O3": cost(10, 0.9), "O4": cost(40)}
    )
    cut = {("O1",): 80, ("O2",): 10, ("O3", "O4"): 8.163}
    assert units("greedy", part) == pytest.approx(cut, abs=1e-3)
    assert units("memory-optimal", part) == pytest.approx(cut, abs=1e-3)
    assert units("simplified", part) == pytest.approx({("O1",): 80, ("O2", "O3", "O4"): 8.989}, abs=1e-3)
    (path,) = units_of(("path",), part)
    assert path.capacity == pytest.approx(31.008, abs=1e-3)


def test_4_6_complex_path() -> None:
    names = {"S1": cost(100, 0.5), "S2": cost(50, 0.4), "B1": cost(40, 0.5), "B2a": cost(20, 0.3), "B2b": cost(10, 1.0)}
    inputs = {"S1": "s", "S2": "S1", "B1": "S2", "B2a": "S2", "B2b": "B2a"}
    part = part_of([Vertex(name, Union(1), (inputs[name],)) for name in names], names)
    cut = {("S1",): 50, ("S2", "B1"): 20, ("B2a",): 14, ("B2b",): 10}
    assert units("memory-optimal", part) == pytest.approx(cut)
    assert set(units("greedy", part)) == set(cut)
    assert set(units("simplified", part)) == {("S1",), ("S2", "B1", "B2a", "B2b")}
    (path,) = units_of(("path",), part)
    assert path.capacity == pytest.approx(24.390, abs=1e-3)
    assert path.vertices == ("S1", "S2", "B1", "B2a", "B2b")


@pytest.mark.parametrize(("name", "total"), [("path-capacity", 2.0), ("fifo", 2.5)])
def test_4_5_exchange_example(name: str, total: float) -> None:
    part = part_of([*line("slow"), *line("quick")], {"slow": cost(1), "quick": cost(2)})
    assert UnitSimulation(part, SCHEDULERS[name]).run(
        [TupleArrival(0, "slow"), TupleArrival(0, "quick")]
    ).residence == pytest.approx(total)


@pytest.mark.parametrize(("mean", "most", "least"), [(4.0, 12.0, 4.0), (18.0, 18.0, 16.2)])
def test_6_8_threshold_levels(mean: float, most: float, least: float) -> None:
    assert Threshold(20.0).levels(mean) == pytest.approx((most, least))


def test_threshold_switches_at_two_levels() -> None:
    def choose(used: float, turn: Turn) -> tuple[str, Turn]:
        found = [Candidate(0, "path", bytes=used), Candidate(1, "memory-optimal", bytes=used)]
        choice = Threshold(20.0).choose(found, Turn(tight=turn.tight, mean=4.0))
        return found[choice.unit].kind, choice.turn

    seen, turn = [], Turn(mean=4.0)
    for used in (5.0, 11.0, 12.5, 11.0, 5.0, 3.9, 11.0):
        kind, turn = choose(used, turn)
        seen.append(kind)
    assert seen == ["path", "path", "memory-optimal", "memory-optimal", "memory-optimal", "path", "path"]


@pytest.mark.parametrize(("name", "at_a", "at_b"), [("path-capacity", 0, 5), ("edf", 5, 2)])
def test_3_1_2_two_operator_burst(name: str, at_a: int, at_b: int) -> None:
    """One tuple a second to each for 5 s; what waits then depends on who is first: the quick or the promised one."""
    part = part_of(
        [*line("A"), *line("B")], {"A": cost(1, 1.0, 2, 1), "B": cost(0.5, 1.0, 2, 1)}, {"B": Stakes(1.0, 1)}
    )
    trace = UnitSimulation(part, SCHEDULERS[name]).run([TupleArrival(t, name) for t in range(5) for name in "AB"])
    in_service = 2 if name == "edf" else 0
    assert trace.waiting_at(5) - in_service == 2 * (at_a + at_b)


def test_interleaving_segments_of_equal_priority() -> None:
    """Memory-optimal runs a segment to its end before the other; chain takes the oldest operator by operator."""
    flat = dict.fromkeys("ABCDEFGH", cost(1, 1.0))
    part = part_of([*line(*"ABCD"), *line(*"EFGH")], flat)
    both = [TupleArrival(0, "A"), TupleArrival(0, "E")]
    whole = UnitSimulation(part, SCHEDULERS["memory-optimal"]).run(both)
    single = UnitSimulation(part, SCHEDULERS["chain"]).run(both)
    assert [time for time, _, _ in whole.results] == [4, 8]
    assert (whole.decisions, single.decisions) == (2, 8)
