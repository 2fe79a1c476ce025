"""Tables as a server shows them: stored, read again while queries use them, or fed by a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.conftest import Client, end, serve

SQL = """
CREATE STREAM updates (currency STRING, rate DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM bids (item INT, currency STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE TABLE rates (currency STRING, rate DOUBLE, at TIMESTAMP, PRIMARY KEY (currency)) FROM updates;
CREATE TABLE items (item INT, name STRING) FROM FILES (path '{path}', format 'csv') REFRESH '1 s';
CREATE AGGREGATE total(x DOUBLE, weight DOUBLE) RETURNS DOUBLE AS {{
  TABLE s(t DOUBLE);
  INITIALIZE: INSERT INTO s VALUES (x * weight);
  ITERATE: UPDATE s SET t = t + x * weight;
  TERMINATE: INSERT INTO RETURN SELECT t FROM s;
}};
CREATE QUERY converted AS SELECT b.item, b.price * r.rate AS value
  FROM bids AS b JOIN rates FOR SYSTEM_TIME AS OF b.at AS r ON b.currency = r.currency;
CREATE QUERY named AS SELECT i.name, b.price FROM bids AS b JOIN items AS i ON b.item = i.item;
CREATE QUERY changes AS SELECT item, count(*) AS n FROM bids GROUP BY item EMIT CHANGES STATE TTL '1 day';
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items.csv"


@pytest.fixture
def client(tmp_path: Path, path: Path) -> Iterator[Client]:
    path.write_text("item,name\n1,pen\n")
    server = serve(tmp_path / "state", SQL.format(path=path))
    yield Client(server)
    end(server)


def tables(client: Client) -> dict[str, Any]:
    return {table["name"]: table for table in client.get("tables")}


def test_tables_say_where_their_rows_come_from_and_why_they_are_old(client: Client, path: Path) -> None:
    rates, items = tables(client)["rates"], tables(client)["items"]
    assert (rates["origin"], rates["key"], rates["refresh_ms"], rates["readers"]) == (
        "updates", ["currency"], None, ["converted"],
    )  # fmt: skip
    assert (items["origin"], items["key"], items["refresh_ms"], items["problem"]) == (None, [], 1000.0, None)
    assert "rates" in next(stream for stream in client.get("streams") if stream["name"] == "updates")["readers"]
    arcs = {(arc["origin"], arc["reader"]) for arc in client.get("graph")["arcs"]}
    assert {("stream:updates", "table:rates"), ("table:rates", "query:converted")} <= arcs
    client.push({"item": 1, "currency": "EUR", "price": 2.0, "at": "2026-01-01T00:00:00Z"})  # refreshing begins
    path.unlink()
    client.until(lambda: "items.csv" in (tables(client)["items"]["problem"] or ""))
    path.write_text("item,name\n1,ink\n")
    client.until(lambda: tables(client)["items"]["problem"] is None)


def test_snapshots_read_stored_tables_and_list_all_that_they_can_read(client: Client, path: Path) -> None:
    listed = client.ask("POST", "snapshot", {"text": "SHOW ALL TABLES"})
    assert listed.status == 200
    names = {row[2] for row in listed.body["rows"]}
    assert {"items", "named", "changes", "promises"} <= names
    assert not any(name.startswith("__") for name in names)
    assert "rates" not in names, "it is state of its queries"
    fed = client.ask("POST", "snapshot", {"text": "SELECT * FROM rates"})
    assert (fed.status, "items" in fed.body["hint"]) == (422, True)
    assert client.ask("POST", "snapshot", {"text": "SELECT name FROM items"}).body["rows"] == [["pen"]]
    path.unlink()
    assert client.ask("POST", "snapshot", {"text": "SHOW ALL TABLES"}).status == 200, "lists read no files"
    gone = client.ask("POST", "snapshot", {"text": "SELECT name FROM items"})
    assert 400 <= gone.status < 500
    assert "items.csv" in gone.body["detail"]


def test_changes_and_aggregates_are_shown_as_what_they_are(client: Client) -> None:
    changes = client.get("queries/changes")
    assert [column["name"] for column in changes["columns"]] == ["item", "n", "change"]
    titles = [vertex["title"] for vertex in client.get("queries/changes/graph")["vertices"]]
    assert any("changes" in title for title in titles)
    words = client.get("words")
    signature = next(word["signature"] for word in words["functions"] if word["name"] == "total")
    assert signature == "total(x DOUBLE, weight DOUBLE) returns DOUBLE, in SQL"
    assert {"items", "changes", "headrace.promises"} <= set(words["snapshots"])
    assert "rates" not in words["snapshots"]
