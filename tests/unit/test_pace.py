"""How fast streams come and how long micro-batches take, from looks at counters."""

from __future__ import annotations

import pytest

from headrace.analysis.facts import SERVICE
from headrace.runtime.statistics import Statistics, StreamStatistics, VertexStatistics
from headrace.session.pace import Looks


def seen(**tuples: int) -> Statistics:
    return Statistics(streams={name: StreamStatistics(tuples=count, late=count // 10) for name, count in tuples.items()})


def test_the_first_look_counts_from_the_beginning() -> None:
    assert Looks(100.0).look(110.0, seen(bids=50, asks=0)).rates == {"bids": 5.0, "bids.late": 0.5, "bids.bad": 0.0}


def test_no_time_gives_no_rates() -> None:
    assert Looks(100.0).look(100.0, seen(bids=50)).rates == {}


def test_only_the_last_minute_counts_once_there_are_looks() -> None:
    looks = Looks(0.0)
    looks.look(1000.0, seen(bids=1000))
    assert looks.look(1010.0, seen(bids=2000)).rates["bids"] == pytest.approx(2000 / 1010)
    assert looks.look(1060.0, seen(bids=7000)).rates["bids"] == pytest.approx(6000 / 60)
    assert looks.look(1070.5, seen(bids=7000, asks=21)).rates["bids"] == pytest.approx(5000 / 60.5)
    assert looks.look(2000.0, seen(bids=7000, asks=21)).rates["asks"] == 0


def test_a_stream_that_fell_silent_has_rate_zero_and_a_new_one_its_own() -> None:
    looks = Looks(0.0)
    looks.look(100.0, seen(bids=1000))
    found = looks.look(200.0, seen(bids=1000, asks=300)).rates
    assert (found["bids"], found["asks"]) == (0.0, 3.0)


def test_what_a_micro_batch_takes_beside_operators_and_reading_is_elsewhere() -> None:
    told = Statistics(batches=10, total_ms=5000.0, vertices={"f": VertexStatistics(busy_ns=10**9)}, streams={"s": StreamStatistics(tuples=10**6)})
    assert Looks(0.0).look(9.0, told).elsewhere == pytest.approx((5 - 1 - 10**6 * SERVICE["scan"]) / 10)
    assert Looks(0.0).look(9.0, told, cores=2).elsewhere == pytest.approx((5 - (1 + 10**6 * SERVICE["scan"]) / 2) / 10)
    assert Looks(0.0).look(9.0, seen(bids=5)).elsewhere == 0.0
