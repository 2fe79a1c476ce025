"""The motivating plan of feedback: a join knows which segments are not congested, and spares their probe readings."""

import datetime as dt
import random
from operator import itemgetter

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM sensors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 MINUTE FROM MEMORY;
CREATE VIEW congested AS
  SELECT segment, avg(speed) AS speed FROM sensors [RANGE 1 MINUTE] GROUP BY segment HAVING avg(speed) < 45;
CREATE VIEW probed AS
  SELECT segment, avg(speed) AS speed, count(*) AS n FROM probes [RANGE 1 MINUTE] WHERE speed > 1 GROUP BY segment;
CREATE QUERY travel AS SELECT c.segment, c.speed AS fixed, p.speed AS driven, p.n, rowtime AS at
  FROM congested [NOW] AS c {manner} JOIN probed [NOW] AS p ON c.segment = p.segment INTO MEMORY
"""
MINUTES, SEGMENTS = 6, 50
#: Tuples of sensors, which are averaged in any case.
SENSED = 2 * SEGMENTS * MINUTES + 1


def congested(minute):
    """Two segments in each half of the time, one of them in both."""
    return (7, 11) if minute < MINUTES // 2 else (7, 13)


def rows(chance, each, minutes):
    return [
        {
            "at": EPOCH + dt.timedelta(minutes=minute, seconds=chance.randrange(60)),
            "segment": segment,
            "speed": (30.0 if segment in congested(minute) else 70.0) + chance.random(),
        }
        for minute in minutes
        for segment in range(SEGMENTS)
        for _ in range(each)
    ]


def run(manner, *, forgetful, buckets):
    chance = random.Random(5)
    with Session(host="local", buckets=buckets) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = forgetful
        session.deployment.clock = clock = VirtualClock(1_800_000_000 * SECOND)
        session.execute(SCRIPT.format(manner=manner))

        def push(stream, records):
            session.push(stream, sorted(records, key=itemgetter("at")))
            for _ in range(2):  # what is told takes effect in the next micro-batch
                clock.advance(2 * SECOND)
                while local_host(session).step():
                    pass

        for half in (range(MINUTES // 2), range(MINUTES // 2, MINUTES)):
            push("sensors", rows(chance, 2, half))
        push("sensors", [{"at": EPOCH + dt.timedelta(minutes=MINUTES), "segment": 0, "speed": 70.0}])
        for minute in range(MINUTES):
            push("probes", rows(chance, 20, [minute]))
        push("probes", [{"at": EPOCH + dt.timedelta(minutes=MINUTES, seconds=30), "segment": 0, "speed": 70.0}])
        counts = session.statistics()
        session.drain()
        seen = [v.tuples_in for name, v in counts.vertices.items() if name.startswith("partialaggregate")]
        results = [{name: value for name, value in row.items() if name != "__ts"} for row in session.results("travel")]
        return sorted(results, key=str), sum(seen) - SENSED, sum(guard.saved for guard in counts.guards.values())


@pytest.mark.parametrize(
    ("forgetful", "buckets"), [(False, 1), pytest.param(True, 3, marks=pytest.mark.slow)], ids=["kept", "restored"]
)
def test_a_join_spares_the_readings_of_segments_without_a_partner(forgetful, buckets):
    plain, all_readings, none = run("", forgetful=forgetful, buckets=buckets)
    thrifty, readings, saved = run("THRIFTY", forgetful=forgetful, buckets=buckets)
    assert thrifty == plain
    assert len(plain) == 2 * MINUTES
    assert (all_readings, none) == (20 * SEGMENTS * MINUTES + 1, 0)
    assert readings <= 20 * (2 * 2 + 3 * 3 + 1 * 2) + 1, "of the segments that are congested in a stretch that is told"
    assert saved == all_readings - readings, "all others are dropped where they are read"
