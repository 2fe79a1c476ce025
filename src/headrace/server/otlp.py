"""OTLP: the metrics of METRICS, sent to a collector of OpenTelemetry (`headrace serve --otlp`, extra `otlp`).

The same table as for Prometheus: `headrace_batch_duration_seconds` there is `headrace.batch.duration` in seconds here.
Headers for the collector, such as a token, are in OTEL_EXPORTER_OTLP_HEADERS, as OpenTelemetry has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headrace import __version__, extras
from headrace.server.metrics import METRICS, Look, Metric

if TYPE_CHECKING:
    from headrace.server.server import Server

#: Metrics are sent so often (seconds), and at the end.
EVERY = 10.0
#: How long the end of a server waits for the collector (seconds).
PATIENCE = 2.0
_UNITS = {"_seconds": "s", "_bytes": "By", "_ratio": "1"}


class Otlp:
    """Sends the metrics of a server until it is closed."""

    def __init__(self, server: Server, address: str, every: float = EVERY) -> None:
        metrics: Any = extras.load("opentelemetry.sdk.metrics", "otlp", "--otlp")
        export: Any = extras.load("opentelemetry.sdk.metrics.export", "otlp", "--otlp")
        sender: Any = extras.load("opentelemetry.exporter.otlp.proto.http.metric_exporter", "otlp", "--otlp")
        resources: Any = extras.load("opentelemetry.sdk.resources", "otlp", "--otlp")
        resource = resources.Resource.create(
            {
                "service.name": "headrace",
                "service.version": __version__,
                "service.instance.id": server.service.directory.name,
            }
        )
        reader = export.PeriodicExportingMetricReader(
            sender.OTLPMetricExporter(endpoint=_endpoint(address)), export_interval_millis=every * 1000
        )
        self._provider = metrics.MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("headrace", __version__)
        observation: Any = extras.load("opentelemetry.metrics", "otlp", "--otlp").Observation
        for metric in METRICS:
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            name, unit = name_of(metric)
            make(name, [_observed(server, metric, observation)], unit=unit, description=metric.sentence)

    def close(self, patience: float = PATIENCE) -> None:
        """Send the last values, and end. A collector that does not answer is waited for as long as `patience` says."""
        self._provider.shutdown(timeout_millis=patience * 1000)


def name_of(metric: Metric) -> tuple[str, str]:
    """Return the name and the unit of a metric in OpenTelemetry."""
    for suffix, unit in _UNITS.items():
        if metric.name.endswith(suffix):
            return metric.name.removesuffix(suffix).replace("_", "."), unit
    return metric.name.replace("_", "."), ""


def _observed(server: Server, metric: Metric, observation: Any) -> Callable[[Any], Iterator[Any]]:
    def values(_: Any) -> Iterator[Any]:
        look = Look(server, server.service.beats.latest, server.service.statistics)
        for labels, value in metric.values(look):
            yield observation(value, dict(zip(metric.labels, labels, strict=True)))

    return values


def _endpoint(address: str) -> str:
    """Return where metrics go: an address without a path is that of a collector."""
    host = address.rstrip("/")
    return host if host.endswith("/v1/metrics") else f"{host}/v1/metrics"
