"""What events keep: the forecast beside what the operators hold after Poisson arrivals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from headrace.analysis.forecast.behavior import Behavior, Input, behavior
from headrace.analysis.forecast.facts import INSTANT, SERVICE, Facts
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.operators.capabilities import Holding
from headrace.operators.specs import Detect
from headrace.session import Session

pytestmark = pytest.mark.slow

STREAMS = "".join(f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;" for name in "abc")
KEYS = 20
PER_KEY = " WHERE a.k = b.k"
ALL_PER_KEY = " WHERE a.k = b.k AND b.k = c.k"


def detection(event: str) -> Detect:
    with Session(host="local") as session:
        session.execute(f"{STREAMS} CREATE EVENT e AS {event}; CREATE QUERY q AS SELECT * FROM e INTO MEMORY")
        (query,) = session._running().queries
    (spec,) = [vertex.spec for vertex in query.graph if isinstance(vertex.spec, Detect)]
    return spec


def forecast_of(spec: Detect, rates: Sequence[float], *, horizon: float = math.inf) -> Behavior:
    inputs = tuple(Input(rate, 20.0) for rate in rates)
    return behavior(spec, inputs, Facts(groups=float(KEYS)), horizon=horizon)


def tuples_kept(does: Behavior, rates: Sequence[float]) -> float:
    return does.kept + sum(rate * window for rate, window in zip(rates, does.windows, strict=True) if rate)


def mean_held(spec: Detect, rates: Sequence[float], *, seconds: int = 100) -> float:
    """Return how many tuples the operator holds on average over the second half of this time."""
    chance = np.random.default_rng(7)
    operator = spec.build()
    assert isinstance(operator, Holding)
    held = []
    for second in range(seconds):
        for port, rate in enumerate(rates):
            count = int(chance.poisson(rate))
            stamps = np.sort(chance.integers(second * SECOND, (second + 1) * SECOND, count))
            names = [field.name for field in spec.schemas[port] if field.name not in ("k", "at")]
            columns = {name: np.arange(count, dtype=np.int32) for name in names}
            keys = chance.integers(0, KEYS, count, dtype=np.int32)
            at = pl.Series("at", stamps).cast(pl.Datetime("us"))
            rows = pl.DataFrame({**columns, "k": keys, TS: stamps}).with_columns(at)
            list(operator.on_page(port, Page(rows)))
        for port in range(len(rates)):
            list(operator.on_punctuation(port, Punctuation((second + 1) * SECOND)))
        if second >= seconds // 2:
            held.append(operator.held())
    return float(np.mean(held))


@pytest.mark.parametrize(
    ("event", "rates"),
    [
        (f"a SEQUENCE b WITHIN 5 SECONDS {PER_KEY} CONTEXT UNRESTRICTED", (100.0, 100.0)),
        (f"a SEQUENCE b WITHIN 5 SECONDS {PER_KEY} CONTEXT RECENT", (100.0, 100.0)),
        (f"a SEQUENCE b WITHIN 5 SECONDS {PER_KEY} CONTEXT CHRONICLE", (60.0, 100.0)),
        (f"a SEQUENCE b WITHIN 5 SECONDS {PER_KEY} CONTEXT CONTINUOUS", (100.0, 20.0)),
        (f"a SEQUENCE b WITHIN 5 SECONDS {PER_KEY} CONTEXT CUMULATIVE", (100.0, 20.0)),
        (f"a SEQUENCE b WITHIN 5 SECONDS {PER_KEY} CONTEXT PROXIMAL", (100.0, 100.0)),
        (f"a AND b WITHIN 5 SECONDS {PER_KEY} CONTEXT UNRESTRICTED", (40.0, 20.0)),
        (f"NOT (b) [a, c] WITHIN 5 SECONDS {ALL_PER_KEY} CONTEXT UNRESTRICTED", (40.0, 80.0, 10.0)),
        (f"NOT (b) [a, c] WITHIN 5 SECONDS {ALL_PER_KEY} CONTEXT RECENT", (40.0, 200.0, 10.0)),
        (f"NOT (b) [a, c] WITHIN 5 SECONDS {ALL_PER_KEY} CONTEXT CONTINUOUS", (40.0, 80.0, 40.0)),
        (f"NOT (b) [a, '3 s'] {PER_KEY} CONTEXT CONTINUOUS", (20.0, 100.0)),
        (f"APERIODIC (a, b, c) WITHIN 5 SECONDS {ALL_PER_KEY} CONTEXT CONTINUOUS", (100.0, 50.0, 20.0)),
        (f"APERIODIC* (a, b, c) WITHIN 5 SECONDS {ALL_PER_KEY} CONTEXT CUMULATIVE", (100.0, 100.0, 20.0)),
        ("a PLUS '3 s'", (100.0,)),
    ],
)
def test_an_event_keeps_as_many_tuples_as_are_forecast(event: str, rates: tuple[float, ...]) -> None:
    spec = detection(event)
    assert tuples_kept(forecast_of(spec, rates), rates) == pytest.approx(mean_held(spec, rates), rel=0.15)


@pytest.mark.parametrize("mode", ["UNRESTRICTED", "CHRONICLE"])
def test_an_event_that_nothing_bounds_grows_without_end(mode: str) -> None:
    spec = detection(f"NOT (b) [a, c] {ALL_PER_KEY} CONTEXT {mode}")
    rates = (10.0, 20.0, 5.0)
    assert math.isinf(tuples_kept(forecast_of(spec, rates), rates))
    after_a_minute = tuples_kept(forecast_of(spec, rates, horizon=60.0), rates)
    assert after_a_minute == pytest.approx(10 * 60 + 20 * 60)


def test_keep_limits_what_waits() -> None:
    spec = detection(f"a SEQUENCE b WITHIN 1 HOUR {PER_KEY} CONTEXT RECENT (a KEEP 3)")
    assert tuples_kept(forecast_of(spec, (1000.0, 1.0)), (1000.0, 1.0)) == pytest.approx(3 * KEYS)


def test_a_port_without_tuples_leaves_nothing_undefined() -> None:
    for mode in ("UNRESTRICTED", "RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "PROXIMAL"):
        spec = detection(f"NOT (b) [a, c] {ALL_PER_KEY} CONTEXT {mode}")
        for rates in ((0.0, 0.0, 0.0), (0.0, 5.0, 5.0), (5.0, 0.0, 5.0), (5.0, 5.0, 0.0)):
            does = forecast_of(spec, rates)
            assert not any(math.isnan(value) for value in (*does.windows, *does.selectivities, does.kept))


def test_an_event_that_is_detected_instant_by_instant_costs_more_than_a_sequence() -> None:
    following, missing = f"a SEQUENCE b {PER_KEY} CONTEXT RECENT", f"NOT (b) [a, c] {ALL_PER_KEY} CONTEXT RECENT"
    assert forecast_of(detection(following), (1.0, 1.0)).service is None
    assert forecast_of(detection(missing), (1.0, 1.0, 1.0)).service == INSTANT > SERVICE["detect"]
