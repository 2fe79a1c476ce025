"""Statements over HTTP: outcomes, all or none, and errors that point into the text."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from tests.unit.server.conftest import Client, end, serve

from headrace.server.fence import Policy
from headrace.server.server import Options

ROWS = [{"item": n, "price": 90.0 + n * 10, "at": f"2026-01-01T00:00:{n:02d}Z"} for n in range(1, 4)]


def test_statements_have_the_outcomes_of_a_session(client: Client) -> None:
    answer = client.run("CREATE VIEW v AS SELECT item FROM bids; SHOW TABLES; CREATE QUERY q AS SELECT item FROM v")
    assert answer.status == 200
    assert answer.body["outcomes"] == [
        {"kind": "message", "text": "view v created"},
        {"kind": "listing", "columns": ["table", "source", "refresh", "problem"], "rows": []},
        {"kind": "started", "query": "q", "follow": False},
    ]


def test_a_wrong_statement_leaves_nothing_of_the_others(client: Client) -> None:
    answer = client.run("CREATE VIEW v AS SELECT item FROM bids; CREATE QUERY q AS SELECT prise FROM bids")
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [query["name"] for query in client.get("queries")] == ["best", "dear"]


def test_a_problem_points_into_the_text_as_browsers_count(client: Client) -> None:
    text = "SHOW STREAMS;\nSELECT '😀' AS smile, prise FROM bids"
    problem = client.run(text).body
    assert problem["code"] == "HR102"
    span = problem["span"]
    units = text.encode("utf-16-le")
    assert units[2 * span["start"] : 2 * span["end"]].decode("utf-16-le") == "prise"
    assert (span["line"], span["column"], span["unit"]) == (2, 23, "utf-16")
    assert problem["excerpt"].splitlines()[1].endswith("^^^^^")
    assert problem["fix"] == {"start": span["start"], "end": span["end"], "text": "price"}
    fixed = units[: 2 * span["start"]].decode("utf-16-le") + "price" + units[2 * span["end"] :].decode("utf-16-le")
    assert client.ask("POST", "check", {"text": fixed}).body == {"problem": None, "changes": True}


def test_a_dry_run_changes_nothing(client: Client) -> None:
    assert client.run("CREATE QUERY q AS SELECT item FROM bids", dry=True).body["dry"]
    assert client.ask("GET", "queries/q").status == 404


def test_check_is_always_answered(client: Client) -> None:
    assert client.ask("POST", "check", {"text": ""}).body["problem"] is None
    wrong = client.ask("POST", "check", {"text": "SELEC item"})
    assert wrong.status == 200
    assert wrong.body["problem"]["title"] == "SyntaxFault"
    assert client.ask("POST", "check", {"text": "SHOW QUERIES"}).body == {"problem": None, "changes": False}


def test_explain_gives_text_and_plans(client: Client) -> None:
    answer = client.ask("POST", "explain", {"text": "SELECT item FROM bids; SELECT price FROM bids"})
    assert answer.body["text"].count("plan") == 2
    assert len(answer.body["plans"]) == 2
    assert client.get("queries/best/plan")["plans"][0]["graph"]["vertices"]
    assert client.get("queries/best/forecast")["queries"][0]["query"] == "best"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"Content-Type": "application/json"}, 422),
        (b"{", {"Content-Type": "application/json"}, 400),
        (b'{"text": 3}', {"Content-Type": "application/json"}, 422),
        (b'{"text": "SHOW QUERIES", "more": 1}', {"Content-Type": "application/json"}, 422),
        (b'{"text": "SHOW QUERIES"}', {"Content-Type": "text/plain"}, 415),
        (b"\xff\xfe", {"Content-Type": "application/json"}, 400),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 422),
    ],
)
def test_a_body_that_does_not_fit_is_refused(client: Client, body: bytes, headers: dict[str, str], status: int) -> None:
    assert client.ask("POST", "statements", body, headers).status in (status, 400)


def test_pushed_rows_become_results(client: Client) -> None:
    assert client.push(*ROWS).body == {"rows": 3, "repeated": False}
    found = client.until(lambda: client.get("queries/dear/results")["batches"])
    assert [row for batch in found for row in batch["rows"]] == [[2, 110.0], [3, 120.0]]
    client.until(lambda: client.get("streams/bids")["figures"]["tuples"] == 3)
    stream = client.get("streams/bids")
    assert (stream["can_push"], stream["readers"]) == (True, ["best", "dear"])


def test_a_repeated_push_with_its_key_adds_nothing(client: Client) -> None:
    key = {"Idempotency-Key": "one"}
    assert client.ask("POST", "streams/bids/rows", ROWS, key).body == {"rows": 3, "repeated": False}
    assert client.ask("POST", "streams/bids/rows", ROWS, key).body == {"rows": 3, "repeated": True}
    client.push(ROWS[2])
    client.until(lambda: client.get("streams/bids")["figures"]["tuples"] == 4)


def test_a_key_holds_after_a_restart(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "one"}
    first = serve(tmp_path)
    client = Client(first)
    client.ask("POST", "streams/bids/rows", ROWS, key)
    client.until(lambda: client.get("streams/bids")["figures"]["tuples"] == 3)  # they were read, and deleted
    end(first)
    second = serve(tmp_path, text="")
    client = Client(second)
    try:
        assert client.ask("POST", "streams/bids/rows", ROWS, key).body == {"rows": 3, "repeated": True}
    finally:
        end(second)


def test_a_push_is_refused_as_a_whole(client: Client) -> None:
    answer = client.push(ROWS[0], {"item": 1, "prise": 2})
    assert answer.status == 422
    assert answer.body["hint"] == "did you mean 'price'?"
    assert client.ask("POST", "streams/bidz/rows", ROWS).status == 404
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in ROWS[:2])
    other = client.ask("POST", "streams/bids/rows", lines, {"Content-Type": "application/x-ndjson"})
    assert other.body["rows"] == 2
    client.until(lambda: client.get("streams/bids")["figures"]["tuples"] == 2)


def test_an_unnamed_select_is_a_follow(client: Client) -> None:
    [outcome] = client.run("SELECT item FROM bids WHERE price > 100").body["outcomes"]
    assert outcome["follow"]
    assert client.run("SELECT item FROM bids WHERE price > 100").body["outcomes"] == [outcome]
    client.push(*ROWS)
    found = client.until(lambda: client.get(f"queries/{outcome['query']}/results")["batches"])
    assert [row for batch in found for row in batch["rows"]] == [[2], [3]]
    assert client.get(f"queries/{outcome['query']}")["kind"] == "follow"
    problem = client.ask("GET", f"queries/{outcome['query']}/plan")
    assert (problem.status, "/explain" in problem.body["hint"]) == (409, True)


def test_a_source_is_tried_without_effect(tmp_path: Path) -> None:
    lines = ["item,at", *(f"{n},2026-01-01 00:00:00" for n in range(100)), "x,never"]
    (tmp_path / "bids.csv").write_text("\n".join(reversed(lines[1:])).join(["item,at\n", "\n"]))
    server = serve(tmp_path / "state", "", Options(port=0, policy=Policy(tmp_path)))
    client = Client(server)
    try:
        text = "CREATE STREAM s (item INT, at TIMESTAMP) TIMESTAMP BY at FROM FILES (path '{}', format 'csv')"
        found = client.ask("POST", "try", {"text": text.format(tmp_path / "bids.csv")}).body
        assert found["stream"] == "s"
        assert [column["name"] for column in found["columns"]] == ["item", "at"]
        assert [row[0] for row in found["rows"]] == list(range(99, 80, -1))  # and one that does not fit
        [bad] = found["bad"]
        assert "x" in bad["record"]
        assert "item" in bad["reason"]
        outside = client.ask("POST", "try", {"text": text.format("/etc/passwd")})
        assert (outside.status, outside.body["title"]) == (403, "Fenced")
        text = "CREATE STREAM g (item INT) FROM GENERATOR (rate 50, seed 1)"
        assert len(client.ask("POST", "try", {"text": text}).body["rows"]) > 5
        for refused in ("CREATE STREAM m (a INT) FROM MEMORY", "SHOW QUERIES", text + ";" + text.replace("g", "h", 1)):
            assert client.ask("POST", "try", {"text": refused}).status == 422, refused
        assert client.get("streams") == []
        assert not list((tmp_path / "state").glob("sources/*"))
    finally:
        end(server)


def test_a_plan_has_the_operators_of_its_picture(shared: Client) -> None:
    answer = shared.ask("POST", "explain", {"text": "SELECT item, count(*) AS n FROM bids [ROWS 5] GROUP BY item"})
    assert answer.status == 200
    [graph] = answer.body["graphs"]
    titles = {vertex["id"]: (vertex["title"], vertex["half"]) for vertex in graph["vertices"]}
    assert any("bids" in title and half == "ingest" for title, half in titles.values())
    assert any("count" in title and half == "bucket" for title, half in titles.values())
    assert all(origin in titles for vertex in graph["vertices"] for origin in vertex["inputs"])


def test_what_only_reads_waits_for_nobody_and_changes_nothing(client: Client) -> None:
    before = client.get("deployment")["beat"]["catalog"]
    entered, goes_on = threading.Event(), threading.Event()

    def occupied() -> None:
        entered.set()
        goes_on.wait(20)

    busy = client.server.service.change(occupied)
    entered.wait(10)
    answer = client.run("SHOW QUERIES; DESCRIBE bids")
    assert (answer.status, len(answer.body["outcomes"])) == (200, 2)
    assert client.run("SHOW QUERIES", dry=True).status == 200
    assert client.server.service.beats.latest.catalog == before, "nobody has to look again"
    assert not busy.done()
    goes_on.set()
    busy.result(10)


def test_looking_at_a_deployment_that_has_failed_does_not_try_it_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = f"FILES (path '{out}', format 'json')"
    server = serve(
        tmp_path / "state", f"CREATE STREAM t (n INT) FROM MEMORY; CREATE QUERY q AS SELECT n FROM t INTO {sink}"
    )
    try:
        client = Client(server)
        out.rmdir()
        client.ask("POST", "streams/t/rows", [{"n": 1}])
        client.until(lambda: client.get("deployment")["state"] == "failed")
        states = client.run("SHOW QUERIES").body["outcomes"][0]["rows"]
        assert any("results cannot be written" in str(row) for row in states)
        assert client.get("deployment")["state"] == "failed"
        assert client.ask("GET", "/health/ready").status == 503
        out.mkdir()
        assert client.ask("POST", "retry", {}).status == 200
        client.until(lambda: list(out.glob("*")))
    finally:
        end(server)
