"""Smoothness: a promise about how even the rate of results is, measured over the seconds of a minute."""

from __future__ import annotations

from pathlib import Path

from headrace.control.observation import QueryObservation
from headrace.control.promise_checks import promise_checks
from headrace.control.suspension import has_must
from headrace.driver.waiting_times import Burstiness
from headrace.engine.statistics import QueryStatistics
from headrace.model.qos import Strictness, qos_of
from headrace.model.time import SECOND
from headrace.session import Listing, Session
from headrace.testing.watching import local_host


def test_an_even_rate_keeps_it_and_bursts_break_it() -> None:
    qos = qos_of({"smoothness": "1.5", "smoothness.class": "MUST"})
    for results, is_kept in (([100] * 30, True), ([90, 110] * 15, True), ([1000, 0, 0, 0, 0] * 6, False)):
        bursts, queries = Burstiness(), {"q": QueryStatistics()}
        for second, count in enumerate(results):
            queries = bursts.add(queries, {"q": count}, second * SECOND)
        observation = QueryObservation("q", smoothness=queries["q"].burstiness)
        (check,) = promise_checks(qos, observation, 0)
        assert (check.measure, check.strictness, check.is_kept) == ("smoothness", Strictness.MUST, is_kept)
    assert str(check) == "smoothness is 5.60, promised 1.50 MUST"
    assert has_must(qos)


def test_without_results_nothing_is_observed() -> None:
    assert promise_checks(qos_of({"smoothness": 2}), QueryObservation("q"), 0) == ()


def test_a_deployment_checks_it_and_alter_changes_it(tmp_path: Path) -> None:
    def settle(session: Session, *numbers: int) -> None:
        for number in numbers:
            session.push("s", [{"x": number}])
            while local_host(session).step():
                pass

    with Session(tmp_path, host="local") as session:
        session.execute(
            "CREATE STREAM s (x INT) FROM MEMORY; "
            "CREATE QUERY q WITH (smoothness 1.5 MUST, force) AS SELECT x FROM s INTO MEMORY"
        )
        settle(session, *range(3))
        session.execute("ALTER QUERY q SET (smoothness '0 s: 4, 60 s: 2')")
    with Session(tmp_path, host="local") as session:
        settle(session, 3)
        (described,) = session.execute("DESCRIBE q")
        assert isinstance(described, Listing)
        text = " ".join(map(str, (value for row in described.rows for value in row)))
        assert "smoothness '0 s: 4, 1 min: 2' BEST EFFORT" in text
        (query,) = session.running().queries
        assert query.qos.smoothness is not None
        assert query.qos.smoothness.curve.at(30 * SECOND) == 3
