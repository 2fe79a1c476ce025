"""Shelves: what is kept of the newest results, and followers that miss nothing."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.server.conftest import Client, end, serve

from headrace.connectors.shelf import ShelfFiles
from headrace.model.keep import Keep, keep_of
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.server.shelf import Shelves

SCHEMA = Schema.of(item=Type.INT, price=Type.DOUBLE)
DURABLE = """
CREATE STREAM bids (item INT) FROM MEMORY;
CREATE QUERY every WITH (keep '1 day durable') AS SELECT item FROM bids;
"""


def page(*rows: tuple[int, float]) -> Page:
    frame = pl.DataFrame(list(rows), schema=SCHEMA.polars(), orient="row")
    return Page(frame.with_columns(pl.lit(0, pl.Int64).alias("__ts")))


def shelves(keep: Keep, **more: Any) -> Shelves:
    return Shelves(lambda query: keep, **more)


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("10000 rows", Keep(rows=10_000)),
        ("1 row", Keep(rows=1)),
        ("1 hour", Keep(seconds=3600)),
        ("1 day durable", Keep(seconds=86400, durable=True)),
        ("latest by item, other", Keep(by=("item", "other"))),
        ("NONE", Keep(rows=0)),
    ],
)
def test_the_option_is_read(text: str, keep: Keep) -> None:
    assert keep_of({"keep": text}) == keep


@pytest.mark.parametrize("text", ["0 rows", "much", "latest by item durable", "-1 hour"])
def test_a_wrong_option_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|not a limit|cannot"):
        keep_of({"keep": text})


def test_the_oldest_rows_give_way_and_are_counted() -> None:
    kept = shelves(Keep(rows=3))
    for batch in range(5):
        kept.take(batch, "q", SCHEMA, [page((batch, 1.0), (batch, 2.0))], 0)
    view = kept.view("q")
    assert view is not None
    assert (view.rows, view.dropped, view.first, view.last) == (4, 6, 3, 4)
    frame = kept.frame("q")
    assert frame is not None
    assert frame["item"].to_list() == [3, 4, 4]


def test_a_repeated_micro_batch_replaces_itself() -> None:
    kept = shelves(Keep(rows=100))
    kept.take(1, "q", SCHEMA, [page((1, 1.0))], 0)
    kept.take(2, "q", SCHEMA, [page((2, 1.0))], 5)
    kept.take(2, "q", SCHEMA, [page((2, 1.0))], 5)
    view = kept.view("q")
    assert view is not None
    assert (view.rows, view.hidden) == (2, 5)


def test_latest_by_keeps_the_newest_row_of_each_key() -> None:
    kept = shelves(Keep(by=("item",)))
    for batch in range(40):
        kept.take(batch, "q", SCHEMA, [page((batch % 3, float(batch)))], 0)
    frame = kept.frame("q")
    assert frame is not None
    assert sorted(frame.rows()) == [(0, 39.0), (1, 37.0), (2, 38.0)]
    view = kept.view("q")
    assert view is not None
    assert view.rows < 20


def test_all_shelves_share_a_limit_and_none_keeps_nothing() -> None:
    kept = shelves(Keep(rows=10_000), most=3000)
    for batch in range(50):
        kept.take(batch, "q", SCHEMA, [page(*((n, 1.0) for n in range(10)))], 0)
    view = kept.view("q")
    assert view is not None
    assert 0 < view.bytes <= 3000
    assert view.rows + view.dropped == 500
    none = shelves(Keep(rows=0))
    none.take(1, "q", SCHEMA, [page((1, 1.0))], 2)
    view = none.view("q")
    assert view is not None
    assert (view.rows, view.hidden) == (0, 3)


def test_what_a_lively_follower_gets_and_skips_is_what_was_delivered(client: Client) -> None:
    from headrace.server.follower import Follower

    client.run("CREATE QUERY few WITH (keep '5 rows') AS SELECT item FROM bids")
    service = client.server.service
    follower = Follower(service, "few", -1, most=3)
    received = skipped = 0
    for n in range(1, 30):
        client.push({"item": n, "price": 1.0, "at": f"2026-01-01T00:00:{n:02d}Z"})
        if n % 7 == 0:
            _until_results(client, n)
            for _, frame, missed in follower.take():
                received, skipped = received + frame.height, skipped + missed
    client.until(lambda: client.get("queries/few")["figures"]["results"] == 29)
    for _, frame, missed in follower.take():
        received, skipped = received + frame.height, skipped + missed
    assert received + skipped == 29
    assert skipped > 0


def lines(client: Client, path: str, count: int) -> list[Any]:
    """Return the first lines of a stream, as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=20)
    headers = {"Authorization": f"Bearer {client.token}", "Accept": "application/x-ndjson"}
    connection.request("GET", f"/api/v1/{path}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    found: list[Any] = []
    while len(found) < count:
        line = response.readline()
        assert line, "the stream has ended"
        if line.strip():
            found.append(json.loads(line))
    connection.close()
    return found


def items(found: list[Any]) -> list[int]:
    return [line["item"] for line in found if "item" in line]


def test_a_complete_follower_misses_nothing_over_restarts(tmp_path: Path) -> None:
    seen: list[int] = []
    after = -1
    for start in (0, 10, 20):
        server = serve(tmp_path / "state", DURABLE)
        client = Client(server)
        for n in range(start, start + 10):
            client.ask("POST", "streams/bids/rows", [{"item": n}])
        directory = tmp_path / "state"
        _until_stored(client, directory, start + 10)
        if start != 10:  # it was away meanwhile
            count = len(_batches(directory, after)) + len(_stored(directory, after))
            found = lines(client, f"queries/every/results?follow=complete&after={after}", count)
            seen += items(found)
            after = max(line["batch"] for line in found if "batch" in line)
        end(server)
    assert seen == list(range(30))


def _batches(directory: Path, after: int = -1) -> list[int]:
    return ShelfFiles("every", directory).batches(after)


def _stored(directory: Path, after: int = -1) -> list[int]:
    kept = ShelfFiles("every", directory)
    return [row for batch in kept.batches(after) for row in (kept.read(batch) or [pl.DataFrame()])[0]["item"].to_list()]


@pytest.mark.parametrize("kind", ["lively", "complete"])
def test_nobody_sees_what_a_failed_delivery_left_on_a_shelf(tmp_path: Path, kind: str) -> None:
    from headrace.server.follower import CompleteFollower, Follower

    server = serve(tmp_path / "state", DURABLE)
    try:
        client, service = Client(server), server.service
        client.ask("POST", "streams/bids/rows", [{"item": 1}])
        client.until(lambda: (kept := _batches(service.directory)) and service.shelves.settled >= kept[-1])
        follower = Follower(service, "every", -1) if kind == "lively" else CompleteFollower(service, "every", -1)
        assert [frame["item"].to_list() for _, frame, _ in follower.take()] == [[1]]
        rows = page((2, 0.0)).rows.select("item", "__ts")
        half = service.shelves.settled + 1  # a micro-batch that another sink refuses: only shelves have it
        service.shelves.take(half, "every", Schema.of(item=Type.INT), [Page(rows)], 0)
        ShelfFiles("every", service.directory).write(half, rows.select("item"))
        assert follower.take() == []
        service.shelves.settle(half)
        assert [frame["item"].to_list() for _, frame, _ in follower.take()] == [[2]]
    finally:
        end(server)


def test_followers_hear_of_results_when_all_sinks_have_them() -> None:
    kept, heard = shelves(Keep(rows=3)), []
    kept.listen = heard.append
    kept.take(1, "q", SCHEMA, [page((1, 1.0))], 0)
    assert heard == []
    kept.settle(1)
    kept.settle(1)
    assert heard == ["q"]


def test_a_complete_follower_of_what_is_not_durable_is_refused_with_the_remedy(client: Client) -> None:
    answer = client.ask("GET", "queries/best/results?follow=complete")
    assert answer.status == 409
    assert "keep '1 day durable'" in answer.body["hint"]


def test_a_follower_that_fell_behind_is_told_where_to_go_on(tmp_path: Path) -> None:
    server = serve(tmp_path / "state", DURABLE.replace("1 day", "1 row"))
    try:
        client = Client(server)
        for n in range(200):
            client.ask("POST", "streams/bids/rows", [{"item": n}])
        client.until(lambda: (about := ShelfFiles("every", server.service.directory).about()) and about.gone > 0)
        answer = client.ask("GET", "queries/every/results?follow=complete&after=-1")
        assert answer.status == 410
        assert answer.body["first"] >= 0
    finally:
        end(server)


def test_a_dropped_query_leaves_no_shelf(tmp_path: Path) -> None:
    server = serve(tmp_path / "state", DURABLE)
    try:
        client = Client(server)
        client.ask("POST", "streams/bids/rows", [{"item": 1}])
        client.until(lambda: _stored(server.service.directory))
        assert client.run("DROP QUERY every").status == 200
        assert _batches(server.service.directory) == []
    finally:
        end(server)


def test_a_wrong_keep_is_an_error_at_its_place(client: Client) -> None:
    problem = client.run("CREATE QUERY q WITH (keep 'much') AS SELECT item FROM bids").body
    assert "'10000 rows'" in problem["detail"]
    assert problem["span"]["start"] == len("CREATE QUERY q WITH (keep ")
    problem = client.run("CREATE QUERY q WITH (keep 'latest by itm') AS SELECT item FROM bids").body
    assert problem["hint"] == "did you mean 'item'?"


def _until_results(client: Client, count: int) -> None:
    client.until(lambda: client.get("queries/few")["figures"]["results"] == count)


def _until_stored(client: Client, directory: Path, count: int) -> None:
    client.until(lambda: len(_stored(directory)) >= count)
