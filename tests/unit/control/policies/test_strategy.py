"""The decision table, its scores, and the guard against going in circles."""

from __future__ import annotations

import pytest

from headrace.control.observation import QueryObservation
from headrace.control.policies.strategy import (
    Change,
    Considered,
    Keep,
    Past,
    UseStrategy,
    judge,
    scores,
    weigh,
)
from headrace.control.promise_checks import PromiseCheck, promise_checks, promise_phase
from headrace.model.qos import Curve, Metric, Promise, Qos, Strictness

MUST, BEST, DONT = Strictness.MUST, Strictness.BEST_EFFORT, Strictness.DONT_CARE


def broken(measure: Metric, strictness: Strictness = MUST) -> PromiseCheck:
    return (
        PromiseCheck(measure, strictness, 2.0, 1.0)
        if measure == "throughput"
        else PromiseCheck(measure, strictness, 1.0, 2.0)
    )


def kept(measure: Metric, strictness: Strictness = MUST) -> PromiseCheck:
    return PromiseCheck(measure, strictness, 1.0, 1.0)


def worth(*found: PromiseCheck) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in scores(weigh(found)).values())


def test_table_10_2_memory_alone_best_effort() -> None:
    assert worth(broken("memory", BEST)) == (0.25, 0.125, 0.5, 0.375)


def test_table_10_3_all_three_must_hold() -> None:
    assert worth(broken("latency"), broken("memory"), broken("throughput")) == (1.5, 2.25, 1.5, 2.25)


def test_table_10_5_a_kept_latency_of_a_stricter_class_counts_at_a_reduced_weight() -> None:
    latency = PromiseCheck("latency", MUST, 2e6, 1e6)
    assert weigh([latency, broken("memory", BEST)]) == (Considered("memory", 0.5), Considered("latency", 0.75))
    assert worth(latency, broken("memory", BEST)) == (0.625, 0.875, 0.6875, 0.9375)


def test_latency_and_memory_both_must_hold_and_do_not() -> None:
    assert worth(broken("latency"), broken("memory")) == (1.0, 1.25, 1.25, 1.5)


@pytest.mark.parametrize(
    ("measures", "chosen"),
    [
        (("latency",), {"path-capacity"}),
        (("throughput",), {"path-capacity"}),
        (("smoothness",), {"path-capacity"}),
        (("memory", "smoothness"), {"simplified"}),
        (("latency", "throughput"), {"path-capacity"}),
        (("memory",), {"segment"}),
        (("latency", "memory"), {"simplified"}),
        (("latency", "memory", "throughput"), {"path-capacity", "simplified"}),
    ],
)
def test_table_10_1_what_is_broken_says_what_is_chosen(measures: tuple[Metric, ...], chosen: set[str]) -> None:
    verdict = judge([broken(measure) for measure in measures], "round-robin", Past())
    assert isinstance(verdict, UseStrategy)
    assert verdict.strategy in chosen


def test_kept_measures_of_the_same_class_do_not_count() -> None:
    verdict = judge([kept("latency"), broken("memory")], "path-capacity", Past())
    assert isinstance(verdict, UseStrategy)
    assert verdict.strategy == "segment"


def test_what_nobody_cares_about_does_not_change_what_must_hold() -> None:
    found = [broken("latency", MUST), broken("memory", DONT)]
    assert judge(found, "path-capacity", Past()) == Keep(scores(weigh(found)), must_is_broken=True)


def test_only_what_must_hold_is_shed_for() -> None:
    for strictness, is_must in ((BEST, False), (MUST, True)):
        verdict = judge([broken("latency", strictness)], "path-capacity", Past())
        assert isinstance(verdict, Keep)
        assert verdict.must_is_broken == is_must


def test_when_all_holds_nothing_changes() -> None:
    assert judge([kept("latency")], "path-capacity", Past()) == Keep()


def test_after_two_rounds_of_back_and_forth_a_strategy_for_both_is_taken() -> None:
    past, strategy, taken = Past(), "round-robin", []
    for turn in range(6):
        found = [broken("latency"), kept("memory")] if turn % 2 == 0 else [kept("latency"), broken("memory")]
        verdict = judge(found, strategy, past)
        assert isinstance(verdict, UseStrategy)
        strategy, past = verdict.strategy, verdict.past
        taken.append(strategy)
        if verdict.in_circles:
            break
    assert taken == ["path-capacity", "segment", "path-capacity", "segment", "simplified"]


def test_the_past_is_forgotten_when_another_phase_of_the_promises_begins() -> None:
    qos = Qos(memory=Promise(Curve(((0, 10.0), (500, 10.0), (501, 1.0))), MUST))
    assert [promise_phase(qos, elapsed) for elapsed in (0, 499, 500, 700)] == [1, 1, 2, 3]
    past = Past((Change("segment", frozenset({"memory"}), frozenset()),), 1)
    assert past.at(1) is past
    assert past.at(2) == Past((), 2)


def test_the_promise_of_a_little_later_is_what_is_looked_at() -> None:
    qos = Qos(latency=Promise(Curve(((0, 2e6), (10_000_000, 1e6))), MUST))
    now = promise_checks(qos, QueryObservation("q", latency=1.5), 4_000_000)
    later = promise_checks(qos, QueryObservation("q", latency=1.5), 4_000_000, lookahead=3_000_000)
    assert [each.is_kept for each in (*now, *later)] == [True, False]
