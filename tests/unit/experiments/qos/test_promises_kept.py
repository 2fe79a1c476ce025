"""Experiments with promises: strategies that are chosen, errors that are borne, values that are shed."""

from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest

from headrace.control.observation import QueryObservation
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.engine.shedding.random import RandomShedder
from headrace.experiments.experiment import Trial
from headrace.experiments.qos import error_tolerance, shed_values, shedder_designs, strategy_choice
from headrace.experiments.qos.strategy_choice import CASES, CHOSEN, simulate
from headrace.experiments.qos.three_streams import Watched, feed, network
from headrace.experiments.qos.workload import utilization
from headrace.experiments.sample import Sample
from headrace.model.qos import Strictness
from headrace.model.schema import TS
from headrace.testing.simulation.stations import Processor, Seen

SMALL = strategy_choice.Size(0.2, 0.1)


def test_the_query_has_eight_operators_and_needs_the_wanted_share_of_the_processor() -> None:
    plan = network((2000, 1800, 2200), 0.85)
    assert len(plan.stations) == 8
    assert utilization(plan) == pytest.approx(0.85)
    assert plan.streams == {"s1": 2000, "s2": 1800, "s3": 2200}


def test_the_feed_pauses_and_doubles() -> None:
    plan = network((400, 100, 100), 0.5)
    times = feed(plan, (1, 0, 2), 2, 1)["s1"]
    assert np.histogram(times, (0, 2, 4, 6))[0] == pytest.approx([800, 0, 1600], rel=0.1)


def test_a_broken_latency_leads_to_path_capacity_and_it_stays() -> None:
    strict = replace(CASES[0], latency=(0.05, Strictness.BEST_EFFORT))
    watched = simulate(strict, CHOSEN, SMALL, 1)
    assert [name for _, name in watched.strategies] == ["segment", "path-capacity"]
    assert len(watched.seen.times) == len(
        simulate(CASES[0], "segment", SMALL, 1).seen.times
    )  # no result is lost by a switch


def test_m3_memory_alone_leads_to_segments_and_both_to_simplified_ones() -> None:
    size = strategy_choice.Size(1, 0.1)
    for latency, memory, wanted in ((2.0, 0.0, "path-capacity"), (0.1, 5e6, "segment"), (2.0, 5e6, "simplified")):
        judge = strategy_choice._Judge(strategy_choice.promises(CASES[2], size), size.every)
        judge._current = "round-robin"
        chosen = judge(None, 19.0, QueryObservation("q", latency, memory))  # type: ignore[arg-type]
        assert chosen == wanted


def test_m2_memory_that_nobody_cares_for_changes_nothing() -> None:
    size = strategy_choice.Size(1, 0.1)
    judge = strategy_choice._Judge(strategy_choice.promises(CASES[1], size), size.every)
    judge._current = "path-capacity"
    assert judge(None, 19.0, QueryObservation("q", 0.1, 5e6)) is None  # type: ignore[arg-type]


def test_a_tiny_run_of_choices_gives_the_table() -> None:
    outcome = strategy_choice.report(strategy_choice.Size(0.05, 0.03), Trial("quick", 1))
    assert len(outcome.panels) == 4
    assert msgspec.json.encode(outcome)


def test_more_tolerance_gives_lower_latency_and_memory_and_loses_no_more_than_that() -> None:
    size = error_tolerance.Size(1, 0.1)
    whole, some = (error_tolerance.simulate(tolerance, size, 1) for tolerance in (0.0, 0.3))
    assert whole.seen.dropped == 0
    assert some.latency() <= whole.latency()
    assert len(some.seen.times) >= 0.7 * len(whole.seen.times)


def test_shedders_are_added_one_by_one_and_end_in_reverse() -> None:
    plan = network(error_tolerance.RATES, error_tolerance.LOAD)
    relief = error_tolerance.Relief(plan, 0.2)
    relief._current = "path-capacity"
    processor = Processor(plan, feed(plan, (1,), 0.1, 1), SCHEDULERS["path-capacity"])
    counts = []
    for latency in (2.0, 2.0, 2.0, 2.0, 0.5, 0.5):
        relief(processor, 1.0, QueryObservation("q", latency, 0.0))
        counts.append(relief.active)
    assert counts == [1, 2, 3, 3, 2, 1]
    assert max(processor._shares.values()) == pytest.approx(0.2)


def test_tolerance_that_does_not_help_is_not_confirmed() -> None:
    same = Watched(Seen([1.0], [0.0], [0], waiting=[1.0]), strategies=[(0.0, "segment"), (1.0, "path-capacity")])
    verdicts = {
        finding.what: finding.verdict
        for finding in error_tolerance._findings(dict.fromkeys(error_tolerance.TOLERANCES, same))
    }
    assert verdicts["mean latency: 30 % to 0 %"] == "not confirmed"
    assert verdicts["tuples dropped, 0 % and 30 %"] == "not confirmed"


def test_random_shedding_hardly_changes_an_average_and_the_largest_first_do() -> None:
    chance = shed_values.errors(lambda share: RandomShedder(share).kept, 0.3, 2, 1)
    largest = shed_values.errors(lambda share: shed_values._semantic("LARGEST", share), 0.3, 2, 1)
    assert max(chance) < 0.01 < max(largest)
    assert largest[0] == 0  # nothing is shed while everything fits


def test_a_band_of_the_range_holds_few_tuples_at_its_ends_and_many_in_its_midst() -> None:
    rows = pl.DataFrame({"speed": shed_values.speeds(20_000, np.random.default_rng(1))})
    kept = {
        kind: shed_values._Band(kind, 0.1).kept(rows, np.random.default_rng(1)).mean() for kind in shed_values.BANDS
    }
    assert kept["LARGEST"] > 0.99
    assert kept["CENTER"] < kept["SMALLEST"]


def test_a_tiny_run_of_values_gives_the_table_and_wrong_errors_are_not_confirmed() -> None:
    outcome = shed_values.report(shed_values.Size(1, 2), Trial("quick", 1))
    assert msgspec.json.encode(outcome)
    bad = Sample((0.5,))
    kinds: dict[tuple[str, float], Sample] = {
        (kind, tolerance): bad for kind in shed_values.KINDS for tolerance in shed_values.TOLERANCES
    }
    found = list(shed_values._findings(dict.fromkeys(shed_values.TOLERANCES, bad), kinds, kinds))
    assert {finding.verdict for finding in found} == {"not confirmed"}


@pytest.mark.parametrize("design", shedder_designs.DESIGNS)
def test_every_design_of_a_shedder_drops_its_share(design: str) -> None:
    engine, chance = shedder_designs.build(design, 0.6), np.random.default_rng(1)
    rows = pl.DataFrame({"x": chance.random(500), TS: np.zeros(500, np.int64)})
    shedder_designs.feed(engine, design, rows, 30, 0.6, chance)
    passed = int((rows["x"] < 0.5).sum()) * 30
    assert engine.statistics["select"].tuples_out == pytest.approx(passed * (1.0 if design == "e" else 0.4), rel=0.05)
    assert shedder_designs.measure(design, 0.5, 10, 3, 1) > 0


def test_designs_are_judged_by_their_ratios() -> None:
    points = {
        (page, design, share): 100.0
        for page in shedder_designs.PAGES
        for design in shedder_designs.DESIGNS
        for share in shedder_designs.SHARES
    }
    even = {finding.what: finding.verdict for finding in shedder_designs._findings(points)}
    assert even["tuple by tuple: speed of d to a at 80 %"] == "not confirmed"
    fast = {key: value * (1 + 4 * key[2] * (key[1] == "d")) for key, value in points.items()}
    better = {finding.what: finding.verdict for finding in shedder_designs._findings(fast)}
    assert better["tuple by tuple: speed of d to a at 80 %"] == "confirmed"
    assert better["tuple by tuple: rises fastest with the share"] == "confirmed"
