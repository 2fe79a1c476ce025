"""The table of routes: each answers, needs its role, and is in the OpenAPI document."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.unit.server.conftest import Client

from headrace.control.migration_log import Migrated
from headrace.redaction import hide
from headrace.server import read
from headrace.server.openapi import document
from headrace.server.read import migration_view
from headrace.server.route import Route
from headrace.server.routes.table import ROUTES

NAMES = {"streams": "bids", "queries": "best", "rules": "none"}


def path_of(route: Route) -> str:
    parts = route.path.split("/")
    pairs = zip(["", *parts], parts, strict=False)
    return "/".join(NAMES.get(before, "x") if part == "{name}" else part for before, part in pairs)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "GET"], ids=lambda route: route.path)
def test_every_route_answers(shared: Client, route: Route) -> None:
    answer = shared.ask("GET", path_of(route))
    expected = 404 if "/rules/" in route.path else 200
    assert answer.status == expected, answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method != "WS"], ids=lambda route: route.path)
def test_every_route_with_a_role_needs_a_token(shared: Client, route: Route) -> None:
    nobody = Client(shared.server)
    nobody.token = None
    answer = nobody.ask(route.method, path_of(route), {} if route.method == "POST" else None)
    if route.role is None:
        assert answer.status in (200, 422), answer
    else:
        assert answer.status == 401
        assert answer.body["title"] == "NoToken"


def test_the_document_describes_every_route(shared: Client) -> None:
    shown = shared.get("openapi.json")
    assert {(path, method) for path, methods in shown["paths"].items() for method in methods} == {
        (route.path, route.method.lower()) for route in ROUTES if route.method != "WS"
    }
    assert shown["components"]["schemas"]["Beat"]["properties"]["batch"] == {"type": "integer"}
    assert shown["paths"]["/api/v1/statements"]["post"]["x-role"] == "read"
    operations = [
        method["operationId"] for methods in document(ROUTES)["paths"].values() for method in methods.values()
    ]
    assert len(set(operations)) == len(operations)


def test_the_page_about_the_server_lists_every_route() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "server.md").read_text()
    for route in ROUTES:
        assert f"| `{route.method} {route.path}` | {route.role or '-'} | {route.sentence} |" in page


def test_a_name_may_have_slashes_and_marks(client: Client) -> None:
    name = "a/b%2F?<c>#"
    client.run(f'CREATE QUERY "{name}" AS SELECT item FROM bids')
    path = f"queries/{quote(name, safe='')}"
    assert client.get(path)["name"] == name
    assert client.get(f"{path}/results")["query"] == name
    assert client.get(f"{path}/graph")["vertices"]
    assert client.ask("GET", "queries/a/b").status == 404


def test_a_stream_shows_its_newest_late_and_bad_records(client: Client, tmp_path: Path) -> None:
    hide("sesame-4711")
    folder = tmp_path / "probes"
    folder.mkdir()
    times = ["01:00", "00:59", "00:01", "00:02", "00:03", "00:04", "00:05"]
    lines = [f"2026-01-01T00:{time}Z,{n}" for n, time in enumerate(times)]
    (folder / "1.csv").write_text("\n".join(["at,n", *lines, "2026-01-01T00:01:01Z,sesame-4711", "never,7", ""]))
    columns = "(at TIMESTAMP, n INT) TIMESTAMP BY at SKEW 2 SECONDS"
    client.server.service.change(
        lambda: client.server.service.session.execute(
            f"CREATE STREAM probes {columns} FROM FILES (path '{folder}', format 'csv');"
            "CREATE QUERY seen AS SELECT n FROM probes"
        )
    ).result()
    found = client.until(lambda: (view := client.get("streams/probes"))["late"] and view)
    assert (found["late"]["total"], found["bad"]["total"]) == (5, 2)
    assert [row[1].rpartition("n=")[2] for row in found["late"]["rows"]] == ["6", "5", "4"], "the newest of a task"
    assert found["late"]["rows"][0][2] == "55 s behind the newest timestamp; the skew is 2 s"
    assert [column["name"] for column in found["bad"]["columns"]] == ["at", "record", "reason", "origin"]
    shown = str(found["bad"]["rows"])
    assert "sesame" not in shown
    assert "***" in shown
    assert "1.csv" in found["bad"]["rows"][0][3]
    assert all(stream["aside"] == [] for stream in client.get("counters")["streams"].values())


def test_calls_that_wait_and_those_that_were_given_up_are_shown(client: Client) -> None:
    hide("sesame-4712")
    with socket.socket() as silent:  # it takes connections and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/hook?note=sesame-4712"
        rule = f"CREATE RULE tell WITH (timeout '2 s', tries 2) ON dear DO CALL webhook ('{address}')"
        assert client.run(rule).status == 200
        client.push({"item": 1, "price": 200.0, "at": "2026-01-01T00:00:00Z"})
        [waiting] = client.until(lambda: client.get("outbox")["calls"])
        assert (waiting["rule"], waiting["most"]) == ("tell", 2)
    [failed] = client.until(lambda: client.get("outbox")["failed"])
    assert (failed["rule"], failed["key"], failed["tries"]) == ("tell", waiting["key"], 2)
    assert failed["at"] == 1767225600000
    assert "200.0" in failed["detection"]
    assert client.get("outbox")["calls"] == []
    assert "sesame" not in str([waiting, failed])
    found = client.get("rules/tell/detections")
    assert [row for batch in found["batches"] for row in batch["rows"]] == [[1, 200.0]]
    assert client.ask("GET", "rules/nobody/detections").status == 404


def test_while_a_server_starts_a_query_may_still_come(shared: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.server.service, "_state", "starting")
    answer = shared.ask("GET", "queries/later/results?follow=complete")
    assert (answer.status, answer.body["detail"]) == (503, "the server is starting")
    monkeypatch.setattr(shared.server.service, "_state", "running")
    assert shared.ask("GET", "queries/later/results?follow=complete").status == 404


def test_while_a_server_starts_a_query_may_still_become_durable(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.run("CREATE QUERY fleeting AS SELECT item FROM bids")
    monkeypatch.setattr(client.server.service, "_state", "starting")
    answer = client.ask("GET", "queries/fleeting/results?follow=complete")
    assert (answer.status, answer.body["detail"]) == (503, "the server is starting")
    monkeypatch.setattr(client.server.service, "_state", "running")
    assert client.ask("GET", "queries/fleeting/results?follow=complete").status == 409


def test_an_unknown_name_is_404_with_the_nearest_one(shared: Client) -> None:
    answer = shared.ask("GET", "queries/bets")
    assert answer.status == 404
    assert answer.body["hint"] == "did you mean 'best'?"
    assert shared.ask("GET", "nothing").status == 404
    assert shared.ask("DELETE", "queries/best").status in (403, 405)


@pytest.mark.parametrize(
    ("ended", "given_up", "state"),
    [(None, False, "running"), (5_000_000, False, "done"), (5_000_000, True, "given up")],
)
def test_a_change_of_plan_says_how_far_it_is(ended: int | None, given_up: bool, state: str) -> None:
    change = Migrated(
        vertex="multijoin-1", number=2, time=3_000_000, query="q", before="(a b) c", after="a (b c)", how="moving",
        ended=ended, given_up=given_up,
    )  # fmt: skip
    view = migration_view(change)
    assert (view.query, view.at, view.after, view.state) == ("q", 3000, "a (b c)", state)
    assert view.ended == (None if ended is None else 5000)


def test_panes_of_windows_are_shown_as_times() -> None:
    shown = read.with_times("__pane <= 4102444797000000, segment NOT IN (1, 2)")
    assert shown == "pane <= TIMESTAMP '2099-12-31 23:59:57', segment NOT IN (1, 2)"
    assert read.with_times("n < 5") == "n < 5"
