"""How fast streams come and how long micro-batches take, from looks at counters."""

from __future__ import annotations

import pytest

from headrace.analysis.facts import SERVICE
from headrace.runtime.statistics import BatchTimes, Statistics, StreamStatistics
from headrace.session.gauge import Gauge


def seen(**tuples: int) -> Statistics:
    return Statistics(streams={name: StreamStatistics(tuples=count, late=count // 10) for name, count in tuples.items()})


def test_the_first_look_counts_from_the_beginning() -> None:
    assert Gauge(100.0).look(110.0, seen(bids=50, asks=0)).rates == {"bids": 5.0, "bids.late": 0.5, "bids.bad": 0.0}


def test_no_time_gives_no_rates() -> None:
    assert Gauge(100.0).look(100.0, seen(bids=50)).rates == {}


def test_only_the_last_minute_counts_once_there_are_looks() -> None:
    gauge = Gauge(0.0)
    gauge.look(1000.0, seen(bids=1000))
    assert gauge.look(1010.0, seen(bids=2000)).rates["bids"] == pytest.approx(2000 / 1010)
    assert gauge.look(1060.0, seen(bids=7000)).rates["bids"] == pytest.approx(6000 / 60)
    assert gauge.look(1070.5, seen(bids=7000, asks=21)).rates["bids"] == pytest.approx(5000 / 60.5)
    assert gauge.look(2000.0, seen(bids=7000, asks=21)).rates["asks"] == 0


def test_a_stream_that_fell_silent_has_rate_zero_and_a_new_one_its_own() -> None:
    gauge = Gauge(0.0)
    gauge.look(100.0, seen(bids=1000))
    found = gauge.look(200.0, seen(bids=1000, asks=300)).rates
    assert (found["bids"], found["asks"]) == (0.0, 3.0)


def times(*batches: tuple[int, float, float]) -> Statistics:
    """Micro-batches of so many tuples, that took so many seconds, so many of them in operators."""
    told = BatchTimes()
    for batch in batches:
        told = told.after(*batch)
    return Statistics(times=told)


def test_the_cost_of_reading_and_of_a_micro_batch_are_told_apart_by_their_sizes() -> None:
    sizes = [1000 * number for number in range(20)]
    told = times(*((tuples, 0.05 + tuples * 3e-6 + tuples * 1e-6, tuples * 1e-6) for tuples in sizes))
    found = Gauge(0.0).look(9.0, told)
    assert (found.reading, found.elsewhere) == pytest.approx((3e-6, 0.05))
    told = times(*((tuples, 0.05 + tuples * 3e-6 + tuples * 1e-6, tuples * 2e-6) for tuples in sizes))  # two cores work side by side
    found = Gauge(0.0).look(9.0, told, cores=2)
    assert (found.reading, found.elsewhere) == pytest.approx((6e-6, 0.05))


def test_only_the_micro_batches_since_the_remembered_look_count() -> None:
    gauge = Gauge(0.0)
    before = [(1000 * number, 9.0, 0.0) for number in range(20)]
    gauge.look(1000.0, times(*before))
    found = gauge.look(1060.0, times(*before, *((1000 * number, 0.1 + number * 1e-3, 0.0) for number in range(20))))
    assert (found.reading, found.elsewhere) == pytest.approx((1e-6, 0.1))


def test_reading_is_assumed_where_all_micro_batches_are_alike() -> None:
    found = Gauge(0.0).look(9.0, times(*[(10_000, 0.2, 0.1)] * 20))
    assert found.reading is None
    assert found.elsewhere == pytest.approx(0.1 - 10_000 * SERVICE["scan"])
    few = Gauge(0.0).look(9.0, times((1000, 0.1, 0.0), (5000, 0.2, 0.0)))
    assert few.reading is None
    assert Gauge(0.0).look(9.0, seen(bids=5)).elsewhere == 0.0
