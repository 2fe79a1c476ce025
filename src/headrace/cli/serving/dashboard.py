"""`headrace dashboard`: a Grafana dashboard and alert rules for the metrics of a server."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import typer

from headrace.cli.help import examples

EXAMPLES = examples(
    ("a dashboard for Grafana", "dashboard grafana > headrace.json"),
    ("alert rules for Prometheus", "dashboard alerts > headrace.rules.yml"),
)
#: Panels: title, unit, and expressions with their legends.
PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Promises that hold", "bool", (("headrace_promise_kept", "{{query}} {{measure}}"),)),
    ("Load", "percentunit", (("headrace_load_ratio", "load"),)),
    ("Latency against promise", "s", (
        ("headrace_query_latency_seconds", "{{query}}"),
        ("headrace_promise_latency_seconds", "{{query}} promised"),
    )),
    ("Micro-batch", "s", (("headrace_batch_duration_seconds", "duration"),)),
    ("Tuples read", "ops", (("rate(headrace_stream_tuples_total[1m])", "{{stream}}"),)),
    ("Results", "ops", (("rate(headrace_query_results_total[1m])", "{{query}}"),)),
    ("Frontier lag", "s", (("headrace_stream_lag_seconds", "{{stream}}"),)),
    ("Unread input", "s", (("headrace_stream_behind_seconds", "{{stream}}"),)),
    ("Late and bad", "ops", (
        ("rate(headrace_stream_late_total[5m])", "{{stream}} late"),
        ("rate(headrace_stream_bad_total[5m])", "{{stream}} bad"),
    )),
    ("State", "bytes", (("headrace_query_state_bytes", "{{query}}"),)),
    ("Shed tuples", "ops", (("rate(headrace_shed_tuples_total[1m])", "{{query}}"),)),
    ("Busiest operators", "percentunit", (("topk(10, rate(headrace_vertex_busy_seconds_total[1m]))", "{{vertex}}"),)),
    ("Waiting tuples", "short", (("topk(10, headrace_vertex_queued_tuples)", "{{vertex}}"),)),
    ("Calls of rules that wait", "short", (("headrace_outbox_waiting_calls", "{{rule}}"),)),
)  # fmt: skip
#: Alerts: name, expression, for how long, and what it means.
ALERTS: tuple[tuple[str, str, str, str], ...] = (
    ("HeadracePromiseBroken", "headrace_promise_kept == 0", "5m",
     "query {{ $labels.query }} does not keep its promise of {{ $labels.measure }}"),
    ("HeadraceNoMicroBatch",
     "time() - headrace_batch_last_timestamp_seconds > 60 and on() headrace_ready == 1 and on() "
     "max(headrace_stream_behind_seconds) > 0", "1m",
     "records wait, and no micro-batch was delivered for a minute"),
    ("HeadraceNotReady", "headrace_ready == 0", "5m", "the server is not ready"),
    ("HeadraceOutboxGrows",
     "headrace_outbox_waiting_calls > 0 and deriv(headrace_outbox_waiting_calls[10m]) > 0", "10m",
     "calls of rule {{ $labels.rule }} wait, and more and more of them"),
    ("HeadraceShedding", "rate(headrace_shed_tuples_total[5m]) > 0", "15m",
     "tuples of query {{ $labels.query }} are shed to keep promises"),
    ("HeadraceBadRecords", "rate(headrace_stream_bad_total[5m]) > 0", "5m",
     "records of stream {{ $labels.stream }} cannot be read"),
)  # fmt: skip


class Kind(StrEnum):
    """What is printed."""

    grafana = "grafana"
    alerts = "alerts"


def dashboard(kind: Kind = typer.Argument(..., help="A dashboard for Grafana, or alert rules.")) -> None:
    """Print a Grafana dashboard or alert rules for Prometheus."""
    print(grafana() if kind is Kind.grafana else alerts(), end="")


def grafana() -> str:
    """Return the dashboard."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels: list[dict[str, Any]] = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [
                {"refId": chr(65 + place), "expr": expression, "legendFormat": legend, "datasource": source}
                for place, (expression, legend) in enumerate(targets)
            ],
        }
        for number, (title, unit, targets) in enumerate(PANELS)
    ]
    variable = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    board = {
        "uid": "headrace",
        "title": "Headrace",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [variable]},
        "panels": panels,
    }
    return json.dumps(board, indent=2) + "\n"


def alerts() -> str:
    """Return the alert rules."""
    lines = ["groups:", "  - name: headrace", "    rules:"]
    for name, expression, duration, summary in ALERTS:
        lines += [
            f"      - alert: {name}",
            f"        expr: {json.dumps(expression)}",
            f"        for: {duration}",
            "        annotations:",
            f"          summary: {json.dumps(summary)}",
        ]
    return "\n".join(lines) + "\n"
