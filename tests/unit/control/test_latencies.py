"""Percentiles of the latency of a query: exact over the last minute, and seen by the checks of its promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.analysis.forecast.solver import QueryForecast
from headrace.analysis.forecast.verification import check_of
from headrace.control.latencies import SPAN, Latencies
from headrace.control.observation import QueryObservation
from headrace.control.promise_checks import promise_checks
from headrace.model.qos import qos_of
from headrace.model.time import SECOND
from headrace.session import Listing, Session
from headrace.testing.watching import local_host

BATCHES = st.lists(st.tuples(st.integers(0, 20 * SECOND), st.floats(0.001, 9), st.integers(0, 50)), max_size=40)


@given(BATCHES, st.floats(0.01, 0.999))
def test_a_percentile_is_the_least_latency_that_the_share_had_at_most(
    batches: list[tuple[int, float, int]], share: float
) -> None:
    latencies, now, known = Latencies(), 0, []
    for pause, latency, tuples in batches:
        now += pause
        latencies.add(now, latency, tuples)
        known.append((now, latency, tuples))
    each = [latency for then, latency, tuples in known if now - then < SPAN for _ in range(tuples)]
    expected = float(np.quantile(each, share, method="inverted_cdf")) if each else None
    assert latencies.percentile(share) == expected


def test_one_slow_micro_batch_of_many_breaks_no_percentile() -> None:
    latencies = Latencies()
    for number in range(50):
        latencies.add(number * SECOND, 5.0 if number == 30 else 0.4, 100)
    assert (latencies.percentile(0.97), latencies.percentile(0.99)) == (0.4, 5.0)


def test_a_check_names_the_percentile() -> None:
    qos = qos_of({"latency": "2 s", "latency.percentile": "p99.9", "latency.class": "MUST"})
    (check,) = promise_checks(qos, QueryObservation("q", 2.5), 0)
    assert str(check) == "latency p99.9 is 2500 ms, promised 2000 ms MUST"
    assert not check.is_kept


def test_a_forecast_of_a_percentile_is_above_the_mean() -> None:
    qos = qos_of({"latency": "2 s", "latency.percentile": "p50", "latency.class": "MUST"})
    assert qos.latency is not None
    predicted = QueryForecast("q", 1.5, 0.0, 0.0, None)
    assert check_of(predicted, "latency", qos.latency).predicted == 1.5
    strict = qos_of({"latency": "2 s", "latency.percentile": "p99"}).latency
    assert strict is not None
    assert round(check_of(predicted, "latency", strict).predicted, 3) == 1.99


def test_a_deployment_checks_the_percentile_that_was_promised(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(
            "CREATE STREAM s (x INT) FROM MEMORY; CREATE QUERY q "
            "WITH (latency p99.9 '10 s' MUST, force) AS SELECT x FROM s INTO MEMORY"
        )
        for number in range(5):
            session.push("s", [{"x": number}])
            while local_host(session).step():
                pass
        (described,) = session.execute("DESCRIBE q")
        assert isinstance(described, Listing)
        assert "latency p99.9 '10 s' MUST" in " ".join(map(str, (value for row in described.rows for value in row)))
        latest = session.deployment.control.latest
        assert latest is not None
        qos = session.running().queries[0].qos
        (check,) = promise_checks(qos, latest.queries["q"], 0)
        assert (check.measure, check.percentile, check.is_kept) == ("latency", 0.999, True)
        session.execute("ALTER QUERY q SET (latency '5 s')")
        changed = session.running().queries[0].qos.latency
        assert changed is not None
        assert changed.percentile is None
