"""Metrics: the table, what Prometheus reads, and the dashboard and alerts that use it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.unit.server.conftest import Client
from tests.unit.server.test_statements import ROWS

from headrace.cli.serving.dashboard import ALERTS, PANELS, alerts, grafana
from headrace.server.metrics import METRICS

ROOT = Path(__file__).resolve().parents[3]
_NAME = re.compile(r"headrace_[a-z_]+")


def names() -> set[str]:
    return {metric.name + ("_total" if metric.kind == "counter" else "") for metric in METRICS}


def read(client: Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = client.ask("GET", "/metrics").body.decode()
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_names_are_of_us_and_say_their_unit() -> None:
    assert len(names()) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"headrace_[a-z]+(_[a-z]+)*", metric.name)
        assert not metric.name.endswith("_total")
        assert metric.sentence.endswith(".")


def test_a_scrape_has_the_totals_of_statistics_and_counters_never_fall(client: Client) -> None:
    client.push(*ROWS)
    client.until(lambda: client.get("streams/bids")["figures"]["tuples"] == 3)
    client.until(lambda: client.get("deployment")["beat"]["streams"])
    first = read(client)
    assert first["headrace_stream_tuples_total", (("stream", "bids"),)] == 3
    assert first["headrace_query_results_total", (("query", "dear"),)] == 2
    busy = [value for (name, _), value in first.items() if name == "headrace_vertex_tuples_in_total"]
    listed = client.get("statistics")
    assert sum(busy) == sum(row[listed["columns"].index("in")] for row in listed["rows"])
    client.push(ROWS[2])
    second = read(client)
    for key, value in first.items():
        if key[0].endswith("_total"):
            assert second[key] >= value


def test_a_scrape_needs_a_token(client: Client) -> None:
    client.token = None
    assert client.ask("GET", "/metrics").status == 401


def test_dashboard_and_alerts_name_metrics_that_exist() -> None:
    expressions = [expression for _, _, targets in PANELS for expression, _ in targets]
    expressions += [expression for _, expression, _, _ in ALERTS]
    assert {name for expression in expressions for name in _NAME.findall(expression)} <= names()
    board = json.loads(grafana())
    assert len(board["panels"]) == len(PANELS)


def test_the_files_are_what_the_command_prints() -> None:
    folder = ROOT / "deploy" / "monitoring"
    assert (folder / "headrace.grafana.json").read_text() == grafana()
    assert (folder / "headrace.rules.yml").read_text() == alerts()
