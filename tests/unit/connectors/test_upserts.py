"""Tables by key: MEMORY with a key, topics that are compacted, and a changelog in a database after a crash."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from tests.postgres.server import database, postgres

from headrace.catalog.definitions import Connector
from headrace.connectors.kafka.sink import KafkaSink, Records, target
from headrace.connectors.kinds import check_sink
from headrace.connectors.memory import MemorySink
from headrace.connectors.postgres.sink import PostgresSink
from headrace.errors import HeadraceError
from headrace.model.page import page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.testing.watching import local_host

__all__ = ["database", "postgres"]

LOG = Schema.of(k=Type.STRING, v=Type.BIGINT, change=Type.STRING)
STREAM = "CREATE STREAM bids (item STRING, price BIGINT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;"
#: Groups change, leave the results when they have four bids, and none comes back.
STANDINGS = (
    "CREATE QUERY standings AS SELECT item, count(*) AS n, sum(price) AS total FROM bids GROUP BY item "
    "HAVING count(*) < 4 EMIT CHANGES STATE TTL '1 day' INTO {}"
)


def bids(seed: int) -> Iterator[list[dict[str, Any]]]:
    draw, start = random.Random(seed), dt.datetime(2026, 1, 1)  # noqa: DTZ001
    for batch in range(6):
        yield [
            {"item": draw.choice("abcdefgh"), "price": draw.randrange(9), "at": start + dt.timedelta(seconds=batch)}
            for _ in range(4)
        ]


def standings(seed: int) -> list[tuple[str, int, int]]:
    """What the table holds at the end."""
    groups: dict[str, list[int]] = {}
    for bid in (bid for batch in bids(seed) for bid in batch):
        groups.setdefault(bid["item"], []).append(bid["price"])
    return sorted((item, len(prices), sum(prices)) for item, prices in groups.items() if len(prices) < 4)


def settle(session: Session) -> None:
    while local_host(session).step():
        pass


@pytest.mark.parametrize("seed", range(3))
def test_memory_with_a_key_holds_the_newest_row_of_each_key(seed: int) -> None:
    with Session(host="local") as session:
        session.execute(STREAM + STANDINGS.format("MEMORY (key 'item')"))
        for batch in bids(seed):
            session.push("bids", batch)
            settle(session)
        session.drain(60)
        rows = session.results("standings")
    assert sorted((row["item"], row["n"], row["total"]) for row in rows) == standings(seed)


IN_ORDER = """CREATE STREAM s (at TIMESTAMP, id INT, k INT, v INT) TIMESTAMP BY at SKEW 20 SECONDS FROM MEMORY;
CREATE STREAM t (at TIMESTAMP, k INT, w INT) TIMESTAMP BY at SKEW 20 SECONDS FROM MEMORY;
CREATE STREAM log (at TIMESTAMP, k INT, v INT, change STRING) TIMESTAMP BY at SKEW 20 SECONDS FROM MEMORY;
CREATE QUERY newest AS SELECT k, v FROM s INTO MEMORY (key 'k');
CREATE QUERY pairs AS SELECT s.k, s.v, t.w FROM s [RANGE 1 MINUTE] JOIN t [RANGE 1 MINUTE] ON s.id = t.w
  INTO MEMORY (key 'k');
CREATE QUERY largest AS SELECT k, v % 3 AS third, max(v) AS v FROM s [RANGE 5 SECONDS] GROUP BY k, v % 3
  INTO MEMORY (key 'k');
CREATE QUERY copied AS SELECT * FROM log INTO MEMORY (key 'k');
CREATE QUERY merged AS SELECT * FROM log UNION ALL SELECT at, k, v + 100 AS v, change FROM log WHERE v > 30
  INTO MEMORY (key 'k');
"""


@pytest.mark.parametrize(("cut", "buckets"), [(60, 3), pytest.param(1, 1, marks=pytest.mark.slow), (7, 2)])
def test_disorder_and_the_cut_of_micro_batches_do_not_change_a_table(cut: int, buckets: int) -> None:
    draw, start = random.Random(5), dt.datetime(2026, 1, 1)  # noqa: DTZ001
    seconds = [max(0, n - draw.randrange(15)) for n in range(60)]
    rows: list[dict[str, Any]] = [
        {"at": start + dt.timedelta(seconds=at), "k": n % 5, "v": n} for n, at in enumerate(seconds)
    ]
    kinds = [draw.choice(["insert", "update_after", "update_before", "delete"]) for _ in rows]
    with Session(host="local", buckets=buckets) as session:
        session.execute(IN_ORDER)
        for begin in range(0, 60, cut):
            part = rows[begin : begin + cut]
            session.push("s", [{"id": row["v"] // 2, **row} for row in part])
            session.push("t", [{"at": row["at"], "k": row["k"], "w": row["v"]} for row in part])
            pairs = zip(part, kinds[begin:], strict=False)
            session.push("log", [{**row, "change": kind} for row, kind in pairs])
            settle(session)
        session.drain(60)
        tables = {
            name: {row["k"]: row["v"] for row in session.results(name)}
            for name in ("newest", "pairs", "largest", "copied", "merged")
        }
    in_time = sorted(rows, key=lambda row: row["at"])
    assert tables["newest"] == {row["k"]: row["v"] for row in in_time}
    paired = sorted((max(row["at"], rows[row["v"] // 2]["at"]), row["k"], row["v"]) for row in rows)
    assert tables["pairs"] == {k: v for _, k, v in paired}
    groups: dict[Any, int] = {}
    for row in rows:
        window = (row["at"] - start) // dt.timedelta(seconds=5)
        groups[window, row["k"], row["v"] % 3] = max(row["v"], groups.get((window, row["k"], row["v"] % 3), 0))
    assert tables["largest"] == {k: v for (_, k, _), v in sorted(groups.items())}
    changes = [(row["at"], kinds[row["v"]], row["k"], row["v"]) for row in in_time]
    assert tables["copied"] == applied(changes)
    added = [(at, kind, k, v + 100) for at, kind, k, v in changes if v > 30]
    merged = sorted(changes + added, key=lambda row: (row[0], row[1] in ("insert", "update_after"), *row[1:]))
    assert tables["merged"] == applied(merged), "of an instant, rows that are taken back come first"


def applied(changes: list[tuple[Any, str, int, int]]) -> dict[int, int]:
    table: dict[int, int | None] = {}
    for _, kind, k, v in changes:
        table[k] = None if kind in ("delete", "update_before") else v
    return {k: v for k, v in table.items() if v is not None}


PARTS = """
CREATE TABLE names (item STRING, name STRING) FROM FILES (path '{0}/names.csv') REFRESH '1 day';
CREATE VIEW totals AS SELECT item, count(*) AS n, sum(price) AS total FROM bids GROUP BY item
  EMIT CHANGES STATE TTL '1 day';
CREATE QUERY cheap AS SELECT * FROM totals WHERE total < 12 INTO MEMORY (key 'item');
CREATE QUERY named AS SELECT t.item, t.n, m.name, t.change FROM totals AS t LEFT JOIN names AS m ON t.item = m.item
  WHERE t.n < 3 INTO MEMORY (key 'item');
CREATE QUERY of_total AS SELECT total, item, change FROM totals WHERE n = 2 INTO MEMORY (key 'total, item');
CREATE QUERY latest AS SELECT total, item, change FROM totals WHERE item = 'a' INTO MEMORY (key 'total');
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_table_by_key_of_a_part_of_a_changelog_keeps_no_row_that_was_taken_back(seed: int, tmp_path: Path) -> None:
    names = tmp_path / "names.csv"
    names.write_text("item,name\na,one\nb,two\n")
    draw = random.Random(seed)
    given = dict[str, str | None]()  # of each item, its name when its row changed
    with Session(host="local", buckets=3) as session:
        session.execute(STREAM + PARTS.format(tmp_path))
        known = {"a": "one", "b": "two"}
        for batch in bids(seed):
            session.push("bids", batch)
            settle(session)
            session.push("bids", [{"item": "z", "price": 99, "at": batch[0]["at"] + dt.timedelta(milliseconds=500)}])
            settle(session)  # the changes of the batch are out
            given |= {bid["item"]: known.get(bid["item"]) for bid in batch}
            known = {item: draw.choice(["one", "two"]) for item in draw.sample("abcdefgh", 5)}
            names.write_text("".join(f"{item},{name}\n" for item, name in [("item", "name"), *known.items()]))
            session.execute("REFRESH TABLE names")
            settle(session)
        session.drain(60)
        tables = {
            name: {*map(tuple, map(dict.values, session.results(name)))}
            for name in ("cheap", "named", "of_total", "latest")
        }
    groups: dict[str, list[int]] = {}
    for bid in (bid for batch in bids(seed) for bid in batch):
        groups.setdefault(bid["item"], []).append(bid["price"])
    assert tables["cheap"] == {(k, len(v), sum(v)) for k, v in groups.items() if sum(v) < 12}
    assert tables["named"] == {(k, len(v), given[k]) for k, v in groups.items() if len(v) < 3}
    assert tables["of_total"] == {(sum(v), k) for k, v in groups.items() if len(v) == 2}
    assert tables["latest"] == {(sum(v), k) for k, v in groups.items() if k == "a"}


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
def test_the_changes_of_an_outer_join_make_what_duckdb_joins_also_after_restarts(kind: str, tmp_path: Path) -> None:
    draw, start = random.Random(kind), dt.datetime(2026, 1, 1)  # noqa: DTZ001
    orders = [
        {"at": start + dt.timedelta(seconds=n), "id": draw.choice([n, n, 3, None]), "total": n} for n in range(40)
    ]
    payments = [
        {"at": start + dt.timedelta(seconds=n), "id": draw.choice([max(0, n - draw.randrange(12)), 3]), "paid": n}
        for n in range(40)
    ]
    for begin in range(0, 40, 8):
        with Session(tmp_path / "state", host="local", buckets=2) as session:
            if begin == 0:
                session.execute(
                    "CREATE STREAM orders (at TIMESTAMP, id INT, total INT) TIMESTAMP BY at FROM MEMORY; "
                    "CREATE STREAM payments (at TIMESTAMP, id INT, paid INT) TIMESTAMP BY at FROM MEMORY; "
                    f"CREATE QUERY q AS SELECT o.total, p.paid FROM orders AS o {kind} JOIN payments AS p "
                    f"ON o.id = p.id EMIT CHANGES STATE TTL '6 s' INTO FILES (path '{tmp_path / 'out'}')"
                )
            session.start()
            session.push("orders", orders[begin : begin + 8])
            session.push("payments", payments[begin : begin + 8])
            settle(session)
            if begin == 32:
                session.drain(60)
    changes = pl.read_parquet(tmp_path / "out" / "*.parquet")
    counted = Counter[tuple[Any, ...]]()
    for total, paid, change in changes.rows():
        counted[total, paid] += 1 if change == "insert" else -1
    with duckdb.connect() as db:
        for name, rows in (("orders", orders), ("payments", payments)):
            db.register(name, pl.DataFrame(rows).to_arrow())
        near = "abs(epoch(o.at) - epoch(p.at)) <= 6"
        text = f"SELECT total, paid FROM orders AS o {kind} JOIN payments AS p ON o.id = p.id AND {near}"
        assert +counted == Counter(db.execute(text).fetchall())
    assert "delete" in changes["change"]


def test_a_batch_that_is_written_again_replaces_what_it_left() -> None:
    sink = MemorySink("q", Connector("MEMORY", {"key": "k"}), LOG, Path())

    def write(batch: int, *rows: tuple[str, int, str]) -> None:
        sink.write(batch, [page_of(LOG, [dict(zip(LOG.names, row, strict=True)) for row in rows], [batch] * len(rows))])

    write(0, ("a", 1, "insert"), ("b", 1, "insert"))
    write(1, ("a", 1, "delete"))
    assert sink.rows() == [{"k": "b", "v": 1}]
    write(1, ("b", 1, "update_before"), ("b", 2, "update_after"))
    assert sink.rows() == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    sink.write(1, [])
    assert sink.rows() == [{"k": "a", "v": 1}, {"k": "b", "v": 1}]


def test_changes_of_an_unknown_name_are_no_rows_of_a_table_in_memory() -> None:
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM log (at TIMESTAMP, k INT, change STRING) TIMESTAMP BY at FROM MEMORY;"
            "CREATE QUERY copied AS SELECT k, change FROM log INTO MEMORY (key 'k');"
            "CREATE QUERY refused AS SELECT reason FROM copied.failed INTO MEMORY"
        )
        changes = ((1, "insert"), (2, "upsert"), (None, "insert"), (3, None), (4, "update_before"))
        session.push("log", [{"at": "2026-01-01", "k": k, "change": change} for k, change in changes])
        session.drain(60)
        assert session.results("copied") == [{"k": 1}, {"k": None}]
        assert [row["reason"].partition(", ")[0] for row in session.results("refused")] == [
            "column 'change' is 'upsert'",
            "column 'change' is NULL",
        ]


def test_a_topic_gets_the_newest_row_of_a_key_and_no_value_for_one_that_is_gone() -> None:
    options: dict[str, Any] = {"bootstrap": "localhost:9092", "topic": "t", "key": "k", "upsert": True}
    records = Records(target(Connector("KAFKA", options), LOG), LOG)
    rows = [
        ("a", 1, "insert"),
        ("a", 1, "update_before"),
        ("a", 2, "update_after"),
        ("b", 5, "delete"),
        ("c", 7, "insert"),
    ]
    page = page_of(LOG, [dict(zip(LOG.names, row, strict=True)) for row in rows], [0] * len(rows))
    sent = [(key, None if value is None else json.loads(value)) for key, value, _ in records.of(page.visible())]
    assert sent == [("a", {"k": "a", "v": 2}), ("b", None), ("c", {"k": "c", "v": 7})]


def test_what_is_no_change_of_a_key_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka", reason="the client of Kafka is not installed: tests/kafka/setup")
    options: dict[str, Any] = {"bootstrap": "localhost:9092", "topic": "t", "key": "k", "upsert": True}
    sink = KafkaSink("q", Connector("KAFKA", options), LOG, Path())
    monkeypatch.setattr(Records, "largest", lambda self: 1_000_000)
    rows = [("a", 1, "insert"), (None, 1, "insert"), ("a", 1, None), ("b" * 200_000, 1, "update_before")]
    page = page_of(LOG, [dict(zip(LOG.names, row, strict=True)) for row in rows], [0] * len(rows))
    why = sink.refused(page.visible())
    assert why is not None
    assert why.to_list() == [
        None,
        "column 'k' is NULL, and a record has no other key",
        "column 'change' is NULL, none of insert, update_before, update_after, delete",
        None,
    ]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("KAFKA", {"upsert": True}, "upsert needs the option 'key'"),
        ("KAFKA", {"upsert": True, "key": "k", "publishers": 2}, "upsert takes no publishers"),
        ("KAFKA", {"upsert": "perhaps", "key": "k"}, "option 'upsert' is 'perhaps'"),
        ("MEMORY", {"key": "change"}, "the query has no column 'change'"),
        ("MEMORY", {"keys": "k"}, "MEMORY has no option 'keys'"),
    ],
)
def test_wrong_options_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    place = {"bootstrap": "localhost:9092", "topic": "t"} if kind == "KAFKA" else {}
    with pytest.raises(HeadraceError) as caught:
        check_sink("q", Connector(kind, {**place, **options}), LOG)
    assert message in str(caught.value)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_table_is_the_same_after_a_crash(
    when: str, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    psycopg = pytest.importorskip("psycopg")
    sink = f"POSTGRES (url '{database}', table 'standings', key 'item')"
    batches, write, crashes = [*bids(7)], PostgresSink.write, iter([False, True, False, True])

    def dying(self: PostgresSink, batch: int, pages: Any) -> None:
        dies = any(map(len, pages)) and next(crashes, False)
        if not dies or when == "after":
            write(self, batch, pages)
        if dies:
            self.close()
            raise KeyboardInterrupt

    monkeypatch.setattr(PostgresSink, "write", dying)
    died = 0
    for number, batch in enumerate(batches):
        for attempt in range(3):
            try:
                with Session(tmp_path / "state", host="local") as session:
                    if number == attempt == 0:
                        session.execute(STREAM + STANDINGS.format(sink))
                    session.start()
                    if attempt == 0:
                        session.push("bids", batch)
                    settle(session)
                    if number == len(batches) - 1:
                        session.drain(60)
                break
            except KeyboardInterrupt:
                died += 1
    assert died == 2
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT item, n, total FROM standings ORDER BY 1").fetchall()
    assert rows == standings(7)
