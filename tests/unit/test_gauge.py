"""How fast streams come, from looks at counters."""

from __future__ import annotations

import pytest

from headrace.runtime.statistics import Statistics, StreamStatistics
from headrace.session.gauge import Gauge


def seen(**tuples: int) -> Statistics:
    return Statistics(streams={name: StreamStatistics(tuples=count, late=count // 10) for name, count in tuples.items()})


def test_the_first_look_counts_from_the_beginning() -> None:
    assert Gauge(100.0).look(110.0, seen(bids=50, asks=0)) == {"bids": 5.0, "bids.late": 0.5, "bids.bad": 0.0}


def test_no_time_gives_no_rates() -> None:
    assert Gauge(100.0).look(100.0, seen(bids=50)) == {}


def test_only_the_last_minute_counts_once_there_are_looks() -> None:
    gauge = Gauge(0.0)
    gauge.look(1000.0, seen(bids=1000))
    assert gauge.look(1010.0, seen(bids=2000))["bids"] == pytest.approx(2000 / 1010)
    assert gauge.look(1060.0, seen(bids=7000))["bids"] == pytest.approx(6000 / 60)
    assert gauge.look(1070.5, seen(bids=7000, asks=21))["bids"] == pytest.approx(5000 / 60.5)
    assert gauge.look(2000.0, seen(bids=7000, asks=21))["asks"] == 0


def test_a_stream_that_fell_silent_has_rate_zero_and_a_new_one_its_own() -> None:
    gauge = Gauge(0.0)
    gauge.look(100.0, seen(bids=1000))
    found = gauge.look(200.0, seen(bids=1000, asks=300))
    assert (found["bids"], found["asks"]) == (0.0, 3.0)
