"""Snapshots: SELECTs that end, over what is there now, in an engine that can reach nothing else."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from tests.unit.server.conftest import Client, end, serve
from tests.unit.server.test_shelf import SCHEMA, page, shelves

from headrace.connectors.shelf import ShelfFiles
from headrace.model.keep import Keep
from headrace.server import snapshot
from headrace.server.problems import Fault
from headrace.server.relations import Relation, relations_of
from headrace.server.service import Service
from headrace.server.snapshot import take_snapshot
from headrace.session import Session

SQL = """
CREATE STREAM bids (item INT, price DOUBLE) FROM MEMORY;
CREATE TABLE items (item INT, name STRING) FROM FILES (path '{folder}/items.csv', format 'csv');
CREATE QUERY every WITH (latency '1 ms' BEST EFFORT) AS SELECT item, price FROM bids;
CREATE QUERY "odd ""name" WITH (keep 'latest by item') AS SELECT item, price FROM bids;
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("snapshot")
    (folder / "items.csv").write_text("item,name\n1,pen\n2,ink\n")
    server = serve(folder / "state", SQL.format(folder=folder))
    client = Client(server)
    client.push(*({"item": n % 3, "price": float(n)} for n in range(30)))
    client.until(lambda: client.get("queries/every")["figures"]["results"] == 30)
    yield client
    end(server)


def ask(client: Client, text: str, **more: Any) -> Any:
    answer = client.ask("POST", "snapshot", {"text": text, **more})
    assert answer.status == 200, answer.body
    return answer.body


def test_queries_and_tables_are_joined(client: Client) -> None:
    text = "SELECT name, count(*) AS n, max(price) AS top FROM every JOIN items USING (item) GROUP BY name ORDER BY 1"
    found = ask(client, text)
    assert found["rows"] == [["ink", 10, 29.0], ["pen", 10, 28.0]]
    assert [column["name"] for column in found["columns"]] == ["name", "n", "top"]
    assert (found["batch"], found["cut"]) == (client.get("deployment")["beat"]["batch"], False)
    assert len(ask(client, 'SELECT * FROM "odd ""name"')["rows"]) == 3, "the newest row of each key"


def test_the_server_tells_of_itself(client: Client) -> None:
    client.until(lambda: ask(client, "SELECT kept FROM headrace.promises")["rows"])
    assert ask(client, "SELECT query FROM headrace.promises WHERE measure = 'latency'")["rows"] == [["every"]]
    listed = {name for (name,) in ask(client, "SELECT table_name FROM information_schema.tables")["rows"]}
    assert listed == set(), "only what a text mentions is there"
    assert ["every"] in ask(client, "SHOW TABLES")["rows"]
    for name in (
        "streams", "queries", "vertices", "decisions", "migrations", "feedback", "shedding", "rules", "partitions",
        "settings", "history",
    ):  # fmt: skip
        assert ask(client, f"SELECT * FROM headrace.{name}")["columns"], name
    assert ask(client, "SELECT tuples FROM headrace.streams WHERE name = 'bids'")["rows"] == [[30]]


def test_an_answer_has_at_most_so_many_rows_and_says_that_there_are_more(client: Client) -> None:
    found = ask(client, "SELECT * FROM every ORDER BY price", limit=4)
    assert ([row[1] for row in found["rows"]], found["cut"]) == ([0.0, 1.0, 2.0, 3.0], True)
    assert not ask(client, "SELECT * FROM every", limit=30)["cut"]


def test_other_forms_are_those_of_results(client: Client) -> None:
    text = {"text": "SELECT item, '=1+1' AS formula FROM every WHERE price = 7"}
    answer = client.ask("POST", "snapshot", text, {"Accept": "text/csv"})
    assert answer.body == b"item,formula\n1,'=1+1\n"
    answer = client.ask("POST", "snapshot", text, {"Accept": "application/vnd.apache.arrow.stream"})
    assert pl.read_ipc_stream(answer.body).rows() == [(1, "=1+1")]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM read_parquet('x.parquet')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM parquet_metadata('x.parquet')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'http://127.0.0.1/x.csv'",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''x''')",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "COPY every FROM '/etc/passwd'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 4",
        "RESET threads",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "EXPORT DATABASE '/tmp/x'",
        "IMPORT DATABASE '/tmp/x'",
        "CREATE TABLE t (a INT)",
        "CREATE MACRO f() AS 1",
        "CREATE SECRET (TYPE s3)",
        "INSERT INTO every VALUES (1, 2)",
        "DELETE FROM every",
        "DROP VIEW headrace.streams",
        "PREPARE p AS SELECT 1",
        "BEGIN",
        "VACUUM",
        "SELECT 1; SELECT 2",
        "",
        "SELECT * FROM relations",
        "SELECT * FROM client",
        "SELEC",
    ],
)
def test_nothing_outside_is_reached_and_nothing_changes(client: Client, text: str) -> None:
    answer = client.ask("POST", "snapshot", {"text": text})
    assert answer.status == 422, answer
    assert "root:" not in str(answer.body)
    assert "Traceback" not in str(answer.body)


def test_an_unknown_name_is_told_with_those_that_there_are(client: Client) -> None:
    problem = client.ask("POST", "snapshot", {"text": "SELECT * FROM nothing"}).body
    assert "nothing does not exist" in problem["detail"]
    assert "every" in problem["hint"]
    assert "headrace.promises" in problem["hint"]


def test_a_snapshot_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SECONDS", 0.2)
    with pytest.raises(Fault, match="took more than"):
        take_snapshot("SELECT max(sin(a.range)) FROM range(100000000000) AS a", {})


def test_a_snapshot_that_needs_too_much_memory_ends() -> None:
    with pytest.raises(Fault, match=r"needs more than|took more than"):
        take_snapshot("SELECT list(a.range) FROM range(100000000) AS a", {})


def test_only_a_few_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_running", threading.BoundedSemaphore(1))
    began, goes_on = threading.Event(), threading.Event()

    def slow() -> pl.DataFrame:
        began.set()
        goes_on.wait(10)
        return pl.DataFrame({"a": [1]})

    found: list[Any] = []
    relations = {"slow": Relation(slow, slow)}
    thread = threading.Thread(target=lambda: found.append(take_snapshot("SELECT * FROM slow", relations)))
    thread.start()
    began.wait(10)
    with pytest.raises(Fault, match="too many"):
        take_snapshot("SELECT 1", {})
    goes_on.set()
    thread.join()
    assert found[0].frame.rows() == [(1,)]
    assert take_snapshot("SELECT 1 AS a", {}).frame.rows() == [(1,)]


def test_shelves_are_read_at_one_micro_batch() -> None:
    kept = shelves(Keep(rows=100))
    for query in ("a", "b"):
        kept.take(1, query, SCHEMA, [page((1, 1.0))], 0)
    kept.take(2, "a", SCHEMA, [page((2, 1.0))], 0)  # b follows later in the same delivery
    frames = [kept.frame(query, 1) for query in ("a", "b")]
    assert [None if frame is None else frame["item"].to_list() for frame in frames] == [[1], [1]]


def test_keys_of_the_micro_batch_before_stay_while_the_next_is_delivered() -> None:
    kept = shelves(Keep(by=("item",)))
    for batch in range(40):
        kept.take(batch, "q", SCHEMA, [page((1, float(batch)))], 0)
        frame = kept.frame("q", batch - 1)
        assert frame is not None
        assert batch == 0 or frame.rows() == [(1, float(batch - 1))]


def test_two_queries_over_one_stream_fit_together_under_load(tmp_path: Path) -> None:
    text = """
    CREATE STREAM ticks (at TIMESTAMP, n INT) TIMESTAMP BY at FROM GENERATOR (rate 5000, seed 1);
    CREATE QUERY one WITH (keep '1 hour') AS SELECT n FROM ticks;
    CREATE QUERY two WITH (keep '1 hour') AS SELECT n FROM ticks WHERE n IS NOT NULL;
    """
    server = serve(tmp_path / "state", text)
    try:
        client = Client(server)
        counted = "SELECT (SELECT count(*) FROM one), (SELECT count(*) FROM two)"
        counts = []
        deadline = time.monotonic() + 20
        while len(counts) < 10 and time.monotonic() < deadline:
            counts.append(tuple(ask(client, counted)["rows"][0]))
        assert all(one == two for one, two in counts), counts
        assert counts[-1][0] > counts[0][0], "rows came meanwhile"
    finally:
        end(server)


def test_of_a_micro_batch_nothing_is_read_before_all_sinks_have_it(tmp_path: Path) -> None:
    end(serve(tmp_path / "state", "CREATE STREAM s (item INT, price DOUBLE) FROM MEMORY; CREATE QUERY q AS FROM s"))
    service = Service(lambda: Session(tmp_path / "state", host="local"))
    service.own()
    server: Any = SimpleNamespace(service=service)  # nothing is started, so no micro-batch ends by itself
    try:
        for batch in (7, 8):
            service.shelves.take(batch, "q", SCHEMA, [page((batch, 2.0))], 0)
            assert relations_of(server)["q"].make()["item"].to_list() == list(range(7, batch))
            service.shelves.settle(batch)
            assert relations_of(server)["q"].make()["item"].to_list() == list(range(7, batch + 1))
    finally:
        service.session.stop()


def test_what_an_earlier_server_has_kept_is_read_at_once(tmp_path: Path) -> None:
    files = ShelfFiles("q", tmp_path)
    for batch in (3, 5):
        files.write(batch, page((batch, 1.0)).visible())
    kept = shelves(Keep(rows=100))
    kept.restore({"q": (SCHEMA, files), "none": (SCHEMA, ShelfFiles("none", tmp_path))})
    assert kept.settled == 5
    kept.settle(6)
    files.write(7, page((7, 1.0)).visible())  # and then the delivery to another sink failed
    kept.restore({"q": (SCHEMA, files)})
    assert kept.settled == 6
    assert shelves(Keep()).settled == -1
