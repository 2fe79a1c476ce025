"""METRICS: everything that Prometheus reads, as one literal table over what the server shows anyway.

Labels are names of things that exist: streams, queries, operators. Nothing is kept per key, user or text. Totals begin
with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace import __version__
from headrace.engine.statistics import Statistics
from headrace.hosts.local import LocalDeployment
from headrace.server.requests import BOUNDS
from headrace.server.views.figures import Beat

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from headrace.server.server import Server


@dataclass(frozen=True, slots=True)
class Look:
    """What metrics are read from."""

    server: Server
    beat: Beat
    statistics: Statistics


Sample: TypeAlias = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its name without `_total`: its kind, labels, what it says, and its values."""

    name: str
    kind: Literal["counter", "gauge", "info"]
    labels: tuple[str, ...]
    sentence: str
    values: Callable[[Look], Iterable[Sample]]


def _one(value: float | None) -> list[Sample]:
    return [] if value is None else [((), float(value))]


def _promised(measure: str, scale: float) -> Callable[[Look], Iterable[Sample]]:
    def values(look: Look) -> Iterator[Sample]:
        for standing in look.beat.promises:
            if standing.measure == measure:
                yield (standing.query, standing.strictness), standing.promised * scale

    return values


def _checkpoint(look: Look) -> Iterable[Sample]:
    service = look.server.service
    host = "local" if isinstance(service.session.deployment, LocalDeployment) else "spark"
    return [((__version__, host, service.directory.name), 1.0)]


METRICS: tuple[Metric, ...] = (
    Metric("headrace_info", "info", ("version", "host", "checkpoint"), "The server.", _checkpoint),
    Metric("headrace_ready", "gauge", (), "1 if queries run, or could.",
           lambda look: _one(look.beat.state in ("running", "idle", "ended"))),
    Metric("headrace_batches", "counter", (), "Micro-batches that were delivered.",
           lambda look: _one(look.statistics.batch + 1)),
    Metric("headrace_batch_duration_seconds", "gauge", (), "Duration of the last micro-batch.",
           lambda look: _one(None if look.beat.took_ms is None else look.beat.took_ms / 1e3)),
    Metric("headrace_batch_last_timestamp_seconds", "gauge", (), "When the last micro-batch was delivered.",
           lambda look: _one(look.beat.at / 1e3)),
    Metric("headrace_load_ratio", "gauge", (), "Share of the processor that is needed; above 1 there is congestion.",
           lambda look: _one(look.beat.load)),
    Metric("headrace_machine_speed_ratio", "gauge", (), "Busy seconds in a second that the machine gave.",
           lambda look: _one(look.beat.speed)),
    Metric("headrace_stream_tuples", "counter", ("stream",), "Tuples read.",
           lambda look: [((name,), s.tuples) for name, s in look.statistics.streams.items()]),
    Metric("headrace_stream_late", "counter", ("stream",), "Tuples that came too late.",
           lambda look: [((name,), s.late) for name, s in look.statistics.streams.items()]),
    Metric("headrace_stream_bad", "counter", ("stream",), "Records that could not be read.",
           lambda look: [((name,), s.bad) for name, s in look.statistics.streams.items()]),
    Metric("headrace_stream_skipped", "counter", ("stream",), "Records that no query needs, and that were not read.",
           lambda look: [((name,), s.skipped) for name, s in look.statistics.streams.items()]),
    Metric("headrace_stream_skipped_bytes", "counter", ("stream",), "Bytes of these.",
           lambda look: [((name,), s.skipped_bytes) for name, s in look.statistics.streams.items()]),
    Metric("headrace_stream_frontier_timestamp_seconds", "gauge", ("stream",), "Below this no more tuples come.",
           lambda look: [((s.name,), s.frontier / 1e3) for s in look.beat.streams if s.frontier is not None]),
    Metric("headrace_stream_lag_seconds", "gauge", ("stream",), "How far the frontier is behind the clock.",
           lambda look: [((s.name,), s.lag_ms / 1e3) for s in look.beat.streams if s.lag_ms is not None]),
    Metric("headrace_stream_behind_seconds", "gauge", ("stream",), "For how long unread records have been there.",
           lambda look: [((s.name,), s.behind_ms / 1e3) for s in look.beat.streams]),
    Metric("headrace_query_results", "counter", ("query",), "Results delivered.",
           lambda look: [((name,), q.results) for name, q in look.statistics.queries.items()]),
    Metric("headrace_query_failed_results", "counter", ("query",), "Results that a sink could not hold.",
           lambda look: [((name,), q.failed) for name, q in look.statistics.queries.items()]),
    Metric("headrace_query_burstiness_ratio", "gauge", ("query",),
           "Most less least results per second, by their mean, over a minute.",
           lambda look: [((name,), q.burstiness) for name, q in look.statistics.queries.items()
                         if q.burstiness is not None]),
    Metric("headrace_query_on", "gauge", ("query",), "1 if the query is on.",
           lambda look: [((q.name,), float(q.state == "on")) for q in look.beat.queries]),
    Metric("headrace_query_latency_seconds", "gauge", ("query",), "The longest that a tuple waited for delivery.",
           lambda look: [((q.name,), q.latency_ms / 1e3) for q in look.beat.queries if q.latency_ms is not None]),
    Metric("headrace_query_waiting_tuples", "gauge", ("query",), "Tuples that wait before its operators.",
           lambda look: [((q.name,), q.waiting) for q in look.beat.queries]),
    Metric("headrace_query_state_bytes", "gauge", ("query",), "State of its operators.",
           lambda look: [((q.name,), q.state_bytes) for q in look.beat.queries]),
    Metric("headrace_promise_latency_seconds", "gauge", ("query", "strictness"), "The latency promised now.",
           _promised("latency", 1e-6)),
    Metric("headrace_promise_memory_bytes", "gauge", ("query", "strictness"), "The memory promised now.",
           _promised("memory", 1.0)),
    Metric("headrace_promise_throughput_per_second", "gauge", ("query", "strictness"), "The throughput promised now.",
           _promised("throughput", 1.0)),
    Metric("headrace_promise_smoothness_ratio", "gauge", ("query", "strictness"), "The burstiness promised now.",
           _promised("smoothness", 1.0)),
    Metric("headrace_promise_kept", "gauge", ("query", "measure"), "1 if the promise holds.",
           lambda look: [((s.query, s.measure), float(s.kept)) for s in look.beat.promises if s.kept is not None]),
    Metric("headrace_shed_tuples", "counter", ("query",), "Tuples dropped on the way to its results.",
           lambda look: [((name,), q.shed) for name, q in look.statistics.queries.items()]),
    Metric("headrace_feedback_saved_tuples", "counter", ("vertex",), "Tuples that feedback dropped.",
           lambda look: _saved(look.statistics)),
    Metric("headrace_feedback_purged_rows", "counter", (), "Rows of state that feedback removed.",
           lambda look: _one(look.statistics.purged)),
    Metric("headrace_vertex_tuples_in", "counter", ("vertex",), "Tuples that an operator took.",
           lambda look: [((name,), v.tuples_in) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_vertex_tuples_out", "counter", ("vertex",), "Tuples that an operator gave.",
           lambda look: [((name,), v.tuples_out) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_vertex_busy_seconds", "counter", ("vertex",), "Processor time of an operator.",
           lambda look: [((name,), v.busy_ns / 1e9) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_vertex_queued_tuples", "gauge", ("vertex",), "Tuples that wait before an operator.",
           lambda look: [((name,), v.queued) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_vertex_queued_peak_tuples", "gauge", ("vertex",), "The most that waited before it at once.",
           lambda look: [((name,), v.peak) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_vertex_queue_seconds", "counter", ("vertex",), "Time in queue, added up over tuples.",
           lambda look: [((name,), v.queue_us / 1e6) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_vertex_idle_seconds", "counter", ("vertex",), "Time in which an operator waited for a bound.",
           lambda look: [((name,), v.idle_us / 1e6) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_queued_peak_tuples", "gauge", (), "The most tuples that waited at once between operators.",
           lambda look: _one(look.statistics.peak_tuples)),
    Metric("headrace_queued_peak_bytes", "gauge", (), "Bytes of these.",
           lambda look: _one(look.statistics.peak_bytes)),
    Metric("headrace_vertex_state_bytes", "gauge", ("vertex",), "State of an operator.",
           lambda look: [((name,), v.state_bytes) for name, v in look.statistics.vertices.items()]),
    Metric("headrace_decisions", "counter", (), "Decisions of the controller.",
           lambda look: _one(look.beat.decisions)),
    Metric("headrace_rule_detections", "counter", ("rule",), "Detections.",
           lambda look: [((name,), r.detections) for name, r in look.statistics.rules.items()]),
    Metric("headrace_rule_calls", "counter", ("rule", "outcome"), "Calls that were made, or given up.",
           lambda look: [(((name, "done"), r.done)) for name, r in look.statistics.rules.items()]
           + [((name, "given_up"), r.given_up) for name, r in look.statistics.rules.items()]),
    Metric("headrace_outbox_waiting_calls", "gauge", ("rule",), "Calls that wait.",
           lambda look: [((name,), r.waiting) for name, r in look.statistics.rules.items()]),
    Metric("headrace_live_clients", "gauge", (), "Pages with a live feed.",
           lambda look: _one(look.server.live.clients)),
    Metric("headrace_http_requests", "counter", ("route", "method", "code"), "Requests answered.",
           lambda look: [((path, method, str(code)), n)
                         for (path, method, code), n in list(look.server.requests.answers.items())]),
)  # fmt: skip


def _saved(statistics: Statistics) -> list[Sample]:
    saved: dict[str, int] = {}
    for (reader, _), guard in statistics.guards.items():
        saved[reader] = saved.get(reader, 0) + guard.saved
    return [((name,), count) for name, count in saved.items()]


class Collector:
    """Gives the metrics of a server to prometheus-client."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Family]:
        """Give each metric of the table, and the durations of requests."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        service = self._server.service
        look = Look(self._server, service.beats.latest, service.statistics)
        for metric in METRICS:
            samples = metric.values(look)
            match metric.kind:
                case "counter":
                    counter = CounterMetricFamily(metric.name, metric.sentence, labels=metric.labels)
                    for labels, value in samples:
                        counter.add_metric(labels, value)
                    yield counter
                case "gauge":
                    gauge = GaugeMetricFamily(metric.name, metric.sentence, labels=metric.labels)
                    for labels, value in samples:
                        gauge.add_metric(labels, value)
                    yield gauge
                case "info":
                    info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.sentence)
                    for labels, _ in samples:
                        info.add_metric((), dict(zip(metric.labels, labels, strict=True)))
                    yield info
        seconds = HistogramMetricFamily(
            "headrace_http_request_duration_seconds", "Durations of requests.", labels=("route", "method")
        )
        for (path, method), counts in list(self._server.requests.seconds.items()):
            total, buckets = 0.0, []
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=False):
                total += count
                buckets.append((bound, total))
            seconds.add_metric((path, method), buckets, counts[-1])
        yield seconds


def exposition(server: Server) -> tuple[bytes, str]:
    """Return the metrics of a server as text, and its media type."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    registry = CollectorRegistry()
    registry.register(Collector(server))
    return generate_latest(registry), CONTENT_TYPE_LATEST
