"""What is told from counters that only grow."""

from __future__ import annotations

import pytest

from headrace.commands.running import Running
from headrace.control.monitor import STARTING, Monitor
from headrace.control.observation import Observation
from headrace.engine.statistics import Statistics, StreamCounts, VertexCounts
from headrace.model.time import SECOND
from headrace.worker.wire import BucketNote, Report

FIXED, SERVICE = 0.2, 1e-4


class Deployment:
    """Micro-batches one after the other, each of so many tuples, on one core."""

    def __init__(self) -> None:
        self.monitor, self.now = Monitor(), 0
        self.stream, self.vertex = StreamCounts(), VertexCounts()
        self.others: StreamCounts | None = None  # of a second stream

    def batch(self, tuples: int, *, late: int = 0, longer: float = 0.0) -> Observation:
        planned, busy = self.now, round(tuples * SERVICE * 1e9)
        self.now += round((FIXED + longer + busy / 1e9) * SECOND)
        self.stream.add(StreamCounts(tuples=tuples, late=late))
        self.vertex.add(VertexCounts(tuples_in=tuples, tuples_out=tuples // 2, busy_ns=busy))
        report = Report(buckets=[BucketNote(0, busy)], time=planned, vertices={"filter": VertexCounts(busy_ns=busy)})
        streams = {"bids": self.stream.total()} | ({} if self.others is None else {"asks": self.others.total()})
        seen = Statistics(streams=streams, vertices={"filter": self.vertex.total()})
        return self.monitor.look(seen, [report], Running(), self.now, 1)


def test_what_is_usual_is_that_of_half_a_minute_without_the_start() -> None:
    deployment = Deployment()
    for _ in range(STARTING):
        deployment.batch(100_000, longer=10.0)
    for _ in range(50):
        seen = deployment.batch(3000, late=30)
    assert seen.usual.rates["bids"] == pytest.approx(6000, rel=0.01)
    assert seen.usual.rates["bids.late"] == pytest.approx(60, rel=0.01)
    assert (seen.usual.costs["filter"].service, seen.usual.costs["filter"].selectivity) == pytest.approx((SERVICE, 0.5))
    assert (seen.usual.fixed, seen.machine.fixed) == pytest.approx((FIXED, FIXED))


def test_rates_follow_at_once_and_what_is_usual_later() -> None:
    deployment = Deployment()
    for _ in range(80):
        deployment.batch(1000)
    for _ in range(8):
        seen = deployment.batch(3000)
    assert seen.rates["bids"] == pytest.approx(6000, rel=0.05)
    assert 3400 < seen.usual.rates["bids"] < 4500


def test_a_new_stream_has_its_usual_rate_since_it_began() -> None:
    deployment = Deployment()
    for _ in range(60):
        deployment.batch(3000)
    deployment.others = StreamCounts()
    for _ in range(12):
        deployment.others.add(StreamCounts(tuples=1000))
        seen = deployment.batch(3000)
    assert seen.usual.rates["bids"] == pytest.approx(6000, rel=0.01)
    assert seen.usual.rates["asks"] == pytest.approx(2000, rel=0.01)


def test_a_forecast_of_what_happens_now_is_what_happens_now() -> None:
    """The fixed part and the work of a second tell how long a micro-batch takes, whatever a busy second costs."""
    deployment = Deployment()
    for _ in range(40):
        seen = deployment.batch(3000)
    load = seen.usual.rates["bids"] * seen.usual.costs["filter"].service / seen.machine.speed
    assert seen.usual.fixed / (1 - load) == pytest.approx(FIXED + 3000 * SERVICE, rel=0.02)
