"""Metrics sent to a collector of OpenTelemetry: those that Prometheus reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.unit.server.conftest import Client

from headrace.errors import HostFault
from headrace.server.metrics import METRICS
from headrace.server.otlp import Otlp, name_of

#: What a collector got: paths, tokens and bodies.
Got = list[tuple[str, str | None, bytes]]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Got]]:
    """A collector on this machine that keeps what it gets."""
    got: Got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers.get("Authorization"), body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20collector")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", got
        server.shutdown()
        thread.join()


def test_a_collector_gets_what_prometheus_reads(client: Client, collector: tuple[str, Got]) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="./headrace setup otlp installs it")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    address, got = collector
    client.push({"item": 1, "price": 200.0, "at": "2026-01-01T00:00:00Z"})
    client.until(lambda: client.get("queries/dear")["figures"]["results"] == 1)
    Otlp(client.server, address, every=3600).close(patience=60)  # the end sends the last values
    path, token, body = got[-1]
    assert (path, token) == ("/v1/metrics", "Bearer collector")
    sent = ExportMetricsServiceRequest.FromString(body).resource_metrics[0]
    assert {each.key: each.value.string_value for each in sent.resource.attributes}["service.name"] == "headrace"
    found = {metric.name: metric for scope in sent.scope_metrics for metric in scope.metrics}
    assert found.keys() <= {name_of(metric)[0] for metric in METRICS}
    [point] = found["headrace.stream.tuples"].sum.data_points
    assert (point.attributes[0].value.string_value, point.as_int or point.as_double) == ("bids", 1)
    assert found["headrace.stream.tuples"].sum.is_monotonic
    assert found["headrace.batch.duration"].unit == "s"
    assert found["headrace.ready"].gauge.data_points[0].as_double == 1.0


def test_names_are_those_that_prometheus_would_make_of_them() -> None:
    for metric in METRICS:
        name, unit = name_of(metric)
        suffix = {"s": "_seconds", "By": "_bytes", "1": "_ratio", "": ""}[unit]
        assert name.replace(".", "_") + suffix == metric.name


def test_without_its_packages_the_option_says_what_to_install(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(HostFault, match="opentelemetry") as caught:
        Otlp(client.server, "http://127.0.0.1:4318")
    assert caught.value.hint == "./headrace setup otlp"
