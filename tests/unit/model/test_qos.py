"""What a query promises, as written and as a value."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.option import Option
from headrace.model.qos import Curve, Promise, Qos, Shedding, Strictness, format_qos, parse_rate, parse_size, qos_of
from headrace.model.time import MINUTE, SECOND

ALL: dict[str, Option] = {
    "latency": "500 ms",
    "latency.class": "MUST",
    "memory": "64 MB",
    "memory.class": "BEST EFFORT",
    "throughput": "1000/s",
    "throughput.class": "DONT CARE",
    "smoothness": 1.5,
    "smoothness.class": "MUST",
    "error": 0.15,
    "shed": "random",
    "priority": 2,
}


def test_options_become_promises() -> None:
    assert qos_of(ALL) == Qos(
        latency=Promise(Curve(((0, 500_000.0),)), Strictness.MUST),
        memory=Promise(Curve(((0, 64 * 2**20),)), Strictness.BEST_EFFORT),
        throughput=Promise(Curve(((0, 1000.0),)), Strictness.DONT_CARE),
        error=0.15,
        shed=Shedding(),
        priority=2,
        smoothness=Promise(Curve(((0, 1.5),)), Strictness.MUST),
    )
    assert qos_of({}) == Qos()
    assert qos_of({"ordered": True}) == Qos()


def test_a_promise_is_best_effort_unless_it_says_otherwise() -> None:
    promise = qos_of({"latency": "1 s"}).latency
    assert promise is not None
    assert promise.strictness is Strictness.BEST_EFFORT
    assert not promise.is_must


def test_classes_weigh_as_in_the_decision_table() -> None:
    assert [strictness.weight for strictness in Strictness] == [1.0, 0.5, 0.01]


def test_a_value_is_linear_between_points_and_constant_outside() -> None:
    promise = qos_of({"latency": "10 s: 1 s, 60 s: 500 ms, 1 min 40 s: 700 ms"}).latency
    assert promise is not None
    curve = promise.curve
    assert [curve.at(second * SECOND) / SECOND for second in (0, 10, 35, 60, 80, 100, 1000)] == [
        1,
        1,
        0.75,
        0.5,
        0.6,
        0.7,
        0.7,
    ]
    assert (curve.least, curve.most) == (500_000, 1_000_000)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(1, 1e9)), min_size=1, max_size=5, unique_by=lambda point: point[0]
    ),
    st.integers(0, 10**9),
)
@settings(deadline=None)
def test_a_curve_never_leaves_the_range_of_its_points(points: list[tuple[int, float]], elapsed: int) -> None:
    curve = Curve(tuple(sorted(points)))
    assert curve.least * (1 - 1e-12) <= curve.at(elapsed) <= curve.most * (1 + 1e-12)
    assert all(curve.at(instant) == pytest.approx(value) for instant, value in points)


def test_promises_survive_as_json() -> None:
    qos = qos_of({**ALL, "shed": "OUTLIER", "shed.attribute": "speed", "shed.center": -40})
    assert msgspec.json.decode(msgspec.json.encode(qos), type=Qos) == qos


def test_promises_are_written_as_they_are_read() -> None:
    shown = dict(
        format_qos(
            qos_of(
                {
                    **ALL,
                    "latency": "0 s: 1 s, 500 s: 200 ms",
                    "shed": "CENTER",
                    "shed.attribute": "v",
                    "shed.center": 1.5,
                }
            )
        )
    )
    assert shown == {
        "latency": "'0 s: 1 s, 500 s: 200 ms' MUST",
        "memory": "'64 MB' BEST EFFORT",
        "throughput": "'1000/s' DONT CARE",
        "smoothness": "'1.5' MUST",
        "error": "0.15",
        "shed": "CENTER v 1.5",
        "priority": "2",
    }


@pytest.mark.parametrize(("text", "share"), [("p99", 0.99), ("P99.9", 0.999), ("p50", 0.5)])
def test_a_percentile_is_written_as_it_is_read(text: str, share: float) -> None:
    qos = qos_of({"latency": "2 s", "latency.percentile": text})
    assert qos.latency is not None
    assert qos.latency.percentile == share
    assert dict(format_qos(qos))["latency"] == f"{text.lower()} '2 s' BEST EFFORT"
    assert msgspec.json.decode(msgspec.json.encode(qos), type=Qos) == qos


def test_sizes_and_rates() -> None:
    assert (parse_size("1.5 kB"), parse_size("2GB"), parse_size("10 b")) == (1536, 2**31, 10)
    assert (parse_rate("1000/s"), parse_rate("60 per minute"), parse_rate("0.5/ms")) == (1000, 1, 500)
    assert parse_rate("1/min") == SECOND / MINUTE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latency": 5}, "expected a value in quotes"),
        ({"latency": "fast"}, "not a duration"),
        ({"latency": "0 s"}, "above zero"),
        ({"latency": "0 s: 1 s, 2 s"}, "not a point"),
        ({"latency": "5 s: 1 s, 5 s: 2 s"}, "must grow"),
        ({"latency": "1 s", "latency.percentile": "p100"}, "not a percentile"),
        ({"memory": "64"}, "not an amount of memory"),
        ({"throughput": "1000"}, "not a rate"),
        ({"smoothness": "even"}, "expected a number such as 1.5"),
        ({"smoothness": -1}, "expected a number such as 1.5"),
        ({"smoothness": True}, "expected a value in quotes"),
        ({"throughput": "10/fortnight"}, "not a rate"),
        ({"error": 1.5}, "share from 0 to 1"),
        ({"error": True}, "share from 0 to 1"),
        ({"priority": "high"}, "whole number"),
        ({"priority": -1}, "whole number"),
        ({"shed": "OLDEST"}, "OLDEST is not a way to shed"),
        ({"shed": "SMALLEST"}, "needs an attribute"),
        ({"shed": "RANDOM", "shed.attribute": "v"}, "takes no attribute"),
        ({"shed": "CENTER", "shed.attribute": "v"}, "needs a center"),
        ({"shed": "LARGEST", "shed.attribute": "v", "shed.center": 1}, "takes no center"),
    ],
)
def test_what_cannot_be_promised_is_explained(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        qos_of(options)  # type: ignore[arg-type]
