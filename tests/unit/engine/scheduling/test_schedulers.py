"""The contract of every scheduler; eligibility, turns, weights, deadlines; what strategies gain on random plans."""

import math

import numpy as np
import pytest

from headrace.commands.command import Cost
from headrace.engine.scheduling.schedulers import SCHEDULERS, scheduler_named
from headrace.engine.scheduling.schedulers.fairness import Eligibility, Fairness
from headrace.engine.scheduling.schedulers.round_robin import RoundRobin, WeightedRoundRobin
from headrace.engine.scheduling.schedulers.scheduler import Candidate, Choice, Turn, UnitKind
from headrace.engine.scheduling.schedulers.threshold import Threshold
from headrace.engine.scheduling.units import Part, Stakes, units_of
from headrace.errors import NameFault
from headrace.testing.contract import check_scheduler
from headrace.testing.simulation.units import TupleArrival, UnitSimulation, UnitTrace, line, part_of


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_keeps_the_contract(name: str) -> None:
    check_scheduler(SCHEDULERS[name])


def test_the_contract_finds_a_scheduler_that_starves_somebody_whatever_the_guard() -> None:
    class Stubborn:
        kinds: tuple[UnitKind, ...] = ("path",)
        gated = True  # takes all that is there, and is asked again only when it is done

        def choose(self, candidates, turn):
            return Choice(candidates[0].unit, Turn(last=turn.last + 1))  # forgets when the oldest had a turn

    with pytest.raises(AssertionError):
        check_scheduler(Stubborn())


def test_names_are_found_with_their_memory() -> None:
    assert scheduler_named("none") is None
    assert scheduler_named("Threshold 10 MB") == Threshold(10 * 2**20)
    with pytest.raises(NameFault, match="no scheduler 'threshold 10 apples'"):
        scheduler_named("threshold 10 apples")
    with pytest.raises(NameFault, match="no scheduler 'best'") as raised:
        scheduler_named("best")
    assert "path-capacity-output" in str(raised.value.hint)


def test_a_unit_is_eligible_by_its_queue_by_its_age_or_if_there_is_nothing_else_to_do() -> None:
    rule = Eligibility(tuples=100, waited=1000)
    long = Candidate(0, "path", queued=201, oldest=90, operators=2)
    short = Candidate(1, "path", queued=200, oldest=90, operators=2)
    old = Candidate(2, "path", queued=1, oldest=0)
    assert rule.among([long, short], now=100) == [long]
    assert rule.among([long, short, old], now=1000) == [long, old]
    assert rule.among([short], now=100) == [short]


def test_the_oldest_has_a_turn_when_its_period_is_over() -> None:
    quick, old = Candidate(0, "path", capacity=9.0, oldest=5), Candidate(1, "path", capacity=1.0, oldest=1)
    fairness, scheduler = Fairness(100.0), SCHEDULERS["path-capacity"]
    assert fairness.choose(scheduler, [quick, old], Turn(since=99.0), 10).unit == 0
    choice = fairness.choose(scheduler, [quick, old], Turn(since=100.0), 10)
    assert (choice.unit, choice.turn.since) == (1, 0.0)


def test_dynamic_priority_grows_with_age_and_queue() -> None:
    quick, old = (
        Candidate(0, "path", queued=1, capacity=9.0, oldest=99),
        Candidate(1, "path", queued=50, capacity=1.0, oldest=0),
    )
    assert Fairness(dynamic=True).choose(SCHEDULERS["path-capacity"], [quick, old], Turn(), 100).unit == 1
    assert Fairness().choose(SCHEDULERS["path-capacity"], [quick, old], Turn(), 100).unit == 0


def test_weighted_round_robin_serves_each_as_often_as_it_counts() -> None:
    units = [
        Candidate(0, "operator", weight=1.0),
        Candidate(1, "operator", weight=3.0),
        Candidate(2, "operator", weight=2.0),
    ]
    turn, seen = Turn(), []
    for _ in range(12):
        choice = WeightedRoundRobin().choose(units, turn)
        turn = choice.turn
        seen.append(choice.unit)
    assert seen == [0, 1, 1, 1, 2, 2] * 2


def test_push_up_serves_a_plan_level_by_level_from_right_to_left() -> None:
    part = part_of([*line("a", "b"), *line("c", "d")], {})
    (plan,) = units_of(("plan",), part)
    assert plan.vertices == ("c", "a", "d", "b")
    both = Part(part.graph, part.vertices, {}, {}, [{"a", "b"}, {"c", "d"}])
    assert [unit.vertices for unit in units_of(("plan",), both)] == [("a", "b"), ("c", "d")]


def test_earliest_deadline_keeps_promises_that_path_capacity_breaks() -> None:
    """A quick path without haste comes in a burst; a slow one promises 10 ms. There is time for both."""
    part = part_of(
        [*line("quick"), *line("slow")],
        {"quick": Cost(1e6, 1, 1, 1), "slow": Cost(4e6, 1, 1, 1)},
        {"slow": Stakes(1.0, 10_000)},
    )
    arrivals = [TupleArrival(0.0, "quick")] * 60 + [TupleArrival(number * 0.02, "slow") for number in range(4)]

    def missed(trace: UnitTrace) -> int:
        return sum(time - one.arrived > 0.010 for time, name, one in trace.results if name == "slow")

    assert missed(UnitSimulation(part, SCHEDULERS["edf"]).run(arrivals)) == 0
    assert missed(UnitSimulation(part, SCHEDULERS["path-capacity"]).run(arrivals)) > 0


def random_plan(seed: int) -> tuple[Part, list[TupleArrival]]:
    """Paths with quick and selective leaves, for a while at twice the rate that they can take, then at a quarter."""
    rng = np.random.default_rng(seed)
    paths = [[f"{path}.{place}" for place in range(int(rng.integers(4, 7)))] for path in range(6)]
    costs = {}
    for names in paths:
        for place, name in enumerate(names):
            quick = place == 0
            service = float(rng.uniform(2e6, 6e6) if quick else rng.uniform(10e6, 50e6))
            costs[name] = Cost(service, float(rng.uniform(0.2, 0.5) if quick else rng.uniform(0.4, 1.0)), 1.0, 1.0)
    part = part_of([vertex for names in paths for vertex in line(*names)], costs)
    rate = 0.9 / sum(1 / unit.capacity for unit in units_of(("path",), part))
    arrivals = []
    for names in paths:
        for begin, factor in ((0.0, 2.0), (10.0, 1.0), (20.0, 0.25)):
            times = begin + np.cumsum(rng.exponential(1 / (rate * factor), round(40 * rate * factor) + 20))
            arrivals += [TupleArrival(float(time), names[0]) for time in times if time <= begin + 10.0]
    return part, arrivals


@pytest.mark.parametrize("seed", range(3))
def test_4_7_orderings_on_random_plans(seed: int) -> None:
    part, arrivals = random_plan(seed)
    schedulers = {**SCHEDULERS, "path-round-robin": RoundRobin(("path",), gated=False)}
    seen = {
        name: UnitSimulation(part, scheduler, seed=seed).run(arrivals)
        for name, scheduler in schedulers.items()
        if name != "threshold"
    }
    capacity = seen["path-capacity"]
    assert len({len(trace.results) for trace in seen.values()}) == 1, "a scheduler changes when, never what"
    assert capacity.residence <= min(seen["fifo"].residence, seen["path-round-robin"].residence)
    assert seen["path-capacity-output"].mean_latency() < capacity.mean_latency()
    optimal = seen["memory-optimal"].peak
    assert math.isclose(optimal, seen["chain"].peak, rel_tol=0.02)
    for name in ("memory-optimal", "chain", "segment", "simplified"):
        assert seen[name].peak < capacity.peak
    assert all(optimal <= trace.peak + 3 for trace in seen.values()), "but for tuples in hand nobody needs less memory"
    assert capacity.decisions < seen["simplified"].decisions < seen["chain"].decisions


@pytest.mark.parametrize("seed", range(2))
def test_threshold_lies_between_path_capacity_and_memory_optimal(seed: int) -> None:
    part, arrivals = random_plan(seed)
    paths, segments = (
        UnitSimulation(part, SCHEDULERS[name], seed=seed).run(arrivals) for name in ("path-capacity", "memory-optimal")
    )
    memory = (paths.peak + segments.peak) / 2
    between = UnitSimulation(part, Threshold(memory), seed=seed).run(arrivals)
    assert segments.peak - 3 <= between.peak < paths.peak
    assert between.decisions < segments.decisions
