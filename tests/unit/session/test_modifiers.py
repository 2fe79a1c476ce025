"""Modifiers, suppressors and GFILTER from text to results in a session."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.model.time import MINUTE, SECOND, format_instant
from headrace.session import Session
from headrace.testing.clock import VirtualClock

CARS = "CREATE STREAM cars (at TIMESTAMP, id INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY"


def answers(query: str, *rows: tuple[int, int, float | None]) -> list[dict[str, Any]]:
    with Session(host="local", buckets=3) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = True
        session.execute(f"{CARS}; CREATE QUERY q AS {query} INTO MEMORY")
        for second, car, speed in rows:
            session.push("cars", [{"at": format_instant(second * SECOND), "id": car, "speed": speed}])
            while session.deployment.step():
                pass
        session.drain(timeout=30)
        return session.results("q")


def test_vector_3_7_a_relative_difference_is_negative_when_the_car_slows_down() -> None:
    found = answers(
        "SELECT RDIFF(speed PSEUDO 0.01) OVER (PARTITION BY id) AS r FROM cars",
        (1, 7, 60),
        (2, 8, 1),
        (3, 7, 40),
        (4, 7, 60),
    )
    assert [round(row["r"], 4) for row in found] == [-0.4996, 0.3334]


def test_vector_3_7_a_drop_of_thirty_percent_is_found() -> None:
    query = "SELECT id, WRDIFF(speed PSEUDO 0.0000001) AS c FROM cars [RANGE 10 SECONDS] GROUP BY id"
    (row,) = answers(query, (1, 7, 100), (2, 7, 10), (3, 7, 70), (4, 8, 70))
    assert (row["id"], round(row["c"], 4)) == (7, -0.4286)


def test_gfilter_is_having_over_groups() -> None:
    tuples = [(1, 1, 10.0), (2, 1, 10.0), (3, 1, 10.0), (4, 1, 10.0), (5, 2, 10.0), (6, 2, 20.0)]
    grouped = "SELECT id, speed, count(*) AS tot_count FROM cars [RANGE 2 MINUTES] GROUP BY id, speed"
    immobile = [{"id": 1, "speed": 10.0, "tot_count": 4}]
    assert answers(f"{grouped} HAVING count(*) > 3", *tuples) == immobile
    assert answers(f"{grouped} HAVING tot_count > 3", *tuples) == immobile
    assert answers(f"SELECT * FROM ({grouped}) WHERE tot_count > 3", *tuples) == immobile


def test_vector_2_4_an_alarm_fires_on_an_idle_stream_after_five_minutes_and_a_pair_within_four_is_silent() -> None:
    with Session(host="local") as session:
        assert isinstance(session.deployment, LocalDeployment)
        clock = session.deployment.clock = VirtualClock(1_000_000 * MINUTE)

        def work(minutes: float) -> list[int]:
            clock.advance(round(minutes * MINUTE))
            for _ in range(20):
                if not session.deployment.step():  # type: ignore[attr-defined]
                    return sorted(row["id"] for row in session.results("q"))
            raise AssertionError("micro-batches do not end")

        session.execute("CREATE STREAM alarms (at TIMESTAMP, id INT, action STRING) TIMESTAMP BY at FROM MEMORY")
        session.execute(
            "CREATE QUERY q AS SELECT id FROM alarms [RANGE 9 MINUTES] GROUP BY id HAVING TSUPPRESS(5 MINUTES) "
            "INTO MEMORY"
        )
        work(0)
        for number in (1, 2):
            session.push("alarms", [{"at": format_instant(clock.now()), "id": number, "action": "new"}])
            work(0)
        work(4)
        session.push("alarms", [{"at": format_instant(clock.now()), "id": 2, "action": "clean"}])
        assert work(0) == []
        assert work(0.9) == []
        assert work(0.2) == [1]
        assert work(30) == [1]


def test_modifiers_of_different_partitions_need_queries_of_their_own() -> None:
    with pytest.raises(NotSupported, match="the same PARTITION BY"):
        answers("SELECT DIFF(speed) OVER (PARTITION BY id), DIFF(speed) FROM cars")
