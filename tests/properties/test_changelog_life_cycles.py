"""Changelogs, tables that change and inserts, created, dropped, replaced, stopped and started in any order.

DuckDB says what each stint of a query must give, over the rows that were read while it was on. A query is stopped
before it is dropped or replaced, since what waits for the frontier is dropped with it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import polars as pl
import pytest

from headrace.session import Session
from headrace.testing.watching import local_host

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("HEADRACE_EXAMPLES", "4"))
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SKEW = dt.timedelta(seconds=3)
SETUP = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 3 SECONDS FROM MEMORY;
CREATE STREAM t (at TIMESTAMP, k INT, w INT) TIMESTAMP BY at SKEW 3 SECONDS FROM MEMORY;
CREATE TABLE names (k INT, name STRING) FROM FILES (path '{folder}/names.csv') REFRESH '1 day';
CREATE TABLE newest (k INT, w INT, PRIMARY KEY (k)) FROM t;
CREATE VIEW per_key AS SELECT k, count(*) AS n FROM s GROUP BY k EMIT CHANGES STATE TTL '1 day';
CREATE VIEW pairs AS SELECT s.v, t.w FROM s LEFT JOIN t ON s.v = t.w EMIT CHANGES STATE TTL '1 day';
CREATE QUERY reads AS SELECT k FROM s UNION ALL SELECT k FROM t INTO MEMORY;
CREATE QUERY uses AS SELECT s.k FROM s JOIN names ON s.k = names.k INTO MEMORY;
"""
CHANGES = "EMIT CHANGES STATE TTL '1 day'"
AS_OF = 'SELECT arg_max(w, struct_pack(a := t."at", b := seq)) FROM t WHERE t.k = s.k AND t."at" <= s."at"'
#: Of each kind of query, its SELECT and what DuckDB answers.
SHAPES = {
    "counts": (
        f"SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k {CHANGES}",
        "SELECT k, count(*), sum(v) FROM s GROUP BY k",
    ),
    "few": (
        f"SELECT k, count(*) AS n, max(v) AS top FROM s GROUP BY k HAVING count(*) < 4 {CHANGES}",
        "SELECT k, count(*), max(v) FROM s GROUP BY k HAVING count(*) < 4",
    ),
    "left": (
        f"SELECT s.k, s.v, t.w FROM s LEFT JOIN t ON s.v = t.w {CHANGES}",
        "SELECT s.k, s.v, t.w FROM s LEFT JOIN t ON s.v = t.w",
    ),
    "full": (
        f"SELECT s.k, s.v, t.w FROM s FULL JOIN t ON s.v = t.w AND s.k = t.k {CHANGES}",
        "SELECT s.k, s.v, t.w FROM s FULL JOIN t ON s.v = t.w AND s.k = t.k",
    ),
    "inner": (
        f"SELECT s.k, s.v, t.k AS other FROM s JOIN t ON s.v = t.w {CHANGES}",
        "SELECT s.k, s.v, t.k FROM s JOIN t ON s.v = t.w",
    ),
    "named": ("SELECT s.k, s.v, n.name FROM s LEFT JOIN names AS n ON s.k = n.k", "SELECT k, v, name FROM s"),
    "known": (
        f"SELECT k, count(*) AS n FROM s WHERE k IN (SELECT k FROM names) GROUP BY k {CHANGES}",
        "SELECT k, count(*) FROM s WHERE name IS NOT NULL GROUP BY k",
    ),
    "as_of": (
        "SELECT s.k, s.v, r.w FROM s LEFT JOIN newest FOR SYSTEM_TIME AS OF s.at AS r ON s.k = r.k",
        f"SELECT s.k, s.v, ({AS_OF}) FROM s",
    ),
    "as_of_inner": (
        "SELECT s.k, s.v, r.w FROM s JOIN newest FOR SYSTEM_TIME AS OF s.at AS r ON s.k = r.k WHERE r.w > 3",
        f"SELECT k, v, w FROM (SELECT s.k, s.v, ({AS_OF}) AS w FROM s) WHERE w > 3",
    ),
    "right": (
        f"SELECT s.k, t.w, t.k AS other FROM s RIGHT JOIN t ON s.v = t.w AND s.k < 3 WHERE t.w < 9 {CHANGES}",
        "SELECT s.k, t.w, t.k FROM s RIGHT JOIN t ON s.v = t.w AND s.k < 3 WHERE t.w < 9",
    ),
    "known_left": (
        "SELECT x.k, x.name, t.w FROM (SELECT s.k, s.v, n.name FROM s JOIN names AS n ON s.k = n.k) AS x "
        f"LEFT JOIN t ON x.v = t.w {CHANGES}",
        "SELECT s.k, s.name, t.w FROM s LEFT JOIN t ON s.v = t.w WHERE s.name IS NOT NULL",
    ),
    "by_name": (
        "SELECT name, count(*) AS n, count(DISTINCT v) AS d FROM (SELECT n.name, s.v FROM s LEFT JOIN names AS n ON "
        f"s.k = n.k) AS x GROUP BY name HAVING count(DISTINCT v) > 1 {CHANGES}",
        "SELECT name, count(*), count(DISTINCT v) FROM s GROUP BY name HAVING count(DISTINCT v) > 1",
    ),
    "all": (
        f"SELECT min(v) AS low, count(*) FILTER (WHERE k = 1) AS ones FROM s {CHANGES}",
        "SELECT min(v), count(*) FILTER (WHERE k = 1) FROM s HAVING count(*) > 0",
    ),
    "of_counts": (
        "SELECT k, n, change FROM per_key WHERE n < 4 AND k IS DISTINCT FROM 2",
        "SELECT k, count(*) AS n FROM s WHERE k IS DISTINCT FROM 2 GROUP BY k HAVING count(*) < 4",
    ),
    "of_pairs": (
        "SELECT v, w, change FROM pairs WHERE w IS NULL OR w > 3",
        "SELECT s.v, t.w FROM s LEFT JOIN t ON s.v = t.w WHERE t.w IS NULL OR t.w > 3",
    ),
    "plain": ("SELECT k, v FROM s", "SELECT k, v FROM s"),
}
#: Columns of the rows of s and t as DuckDB sees them.
COLUMNS = {
    "s": {"at": pl.Datetime, "seq": pl.Int64, "k": pl.Int64, "v": pl.Int64, "name": pl.String},
    "t": {"at": pl.Datetime, "seq": pl.Int64, "k": pl.Int64, "w": pl.Int64},
}
Stint: TypeAlias = dict[str, list[tuple[Any, ...]]]


@dataclass
class Life:
    """A session, and the rows that each stint of its queries has seen."""

    folder: Path
    draw: random.Random
    stints: dict[tuple[str, str], list[Stint]] = field(default_factory=dict)  # by name and shape of a query
    queries: dict[str, str] = field(default_factory=dict)  # shapes by name
    running: set[str] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=lambda: {1: "one", 2: "two"})
    newest: dict[str, dt.datetime] = field(default_factory=lambda: {"s": START, "t": START})
    second: int = 0
    pushed: int = 0

    def begin(self) -> None:
        self.write()
        self.open()
        self.do(SETUP.format(folder=self.folder))

    def open(self) -> None:
        self.session = Session(self.folder / "state", host="local", buckets=2)
        self.session.start()
        self.settle()

    def settle(self) -> None:
        while local_host(self.session).step():
            pass

    def do(self, text: str) -> None:
        self.session.execute(text)
        self.settle()

    def push(self) -> None:
        for _ in range(self.draw.randrange(1, 6)):
            self.second += self.draw.random() < 0.6
            self.pushed += 1
            at = START + dt.timedelta(seconds=max(0, self.second - self.draw.randrange(4)))
            name, key = self.draw.choice("sst"), self.draw.choice([None, 0, 1, 2, 3])
            if at < self.newest[name] - SKEW:
                continue  # late
            self.newest[name] = max(at, self.newest[name])
            value = self.draw.randrange(12)
            self.session.push(name, [{"at": at, "k": key, "v" if name == "s" else "w": value}])
            row = (at, self.pushed, key, value)
            for query in self.running:
                stint = self.stints[query, self.queries[query]][-1]
                stint[name].append((*row, self.names.get(key)) if name == "s" else row)  # type: ignore[arg-type]
        self.settle()

    def create(self) -> None:
        name, shape = self.draw.choice("abc"), self.draw.choice(list(SHAPES))
        if name in self.queries:
            self.stop(name)
        verb = "CREATE OR REPLACE QUERY" if name in self.queries else "CREATE MATERIALIZED VIEW"
        path = self.folder / f"{name}-{shape}"
        if self.queries.get(name) == shape:
            return
        self.do(f"{verb} {name} AS {SHAPES[shape][0]} INTO FILES (path '{path}', format 'json')")
        self.queries[name] = shape
        self.turned_on(name)

    def turned_on(self, name: str) -> None:
        self.running.add(name)
        self.stints.setdefault((name, self.queries[name]), []).append({"s": [], "t": []})

    def start(self) -> None:
        for name in sorted({*self.queries} - self.running):
            self.do(f"START QUERY {name}")
            self.turned_on(name)

    def stop(self, name: str) -> None:
        if name in self.running:
            self.do(f"STOP QUERY {name}")
            self.running.remove(name)

    def drop(self) -> None:
        name = self.draw.choice("abc")
        if name in self.queries:
            self.stop(name)
            self.do(f"DROP QUERY {name}")
            del self.queries[name]

    def restart(self) -> None:
        self.session.stop()
        self.open()

    def change_table(self) -> None:
        damage = self.draw.choice([None, None, "", "other,name\n1,2\n", "k,name\nx,y\n"])
        if damage is not None:  # queries go on with the rows before, also after a restart
            (self.folder / "names.csv").write_text(damage)
            self.do("REFRESH TABLE names")
            if self.draw.random() < 0.5:
                self.restart()
            self.push()
            self.write()
            self.do("REFRESH TABLE names")
            return
        self.names = {k: self.draw.choice(["one", "two", "three"]) for k in range(4) if self.draw.random() < 0.7}
        self.write()
        self.do("REFRESH TABLE names")

    def write(self) -> None:
        lines = ["k,name", *(f"{k},{name}" for k, name in self.names.items()), ""]
        (self.folder / "names.csv").write_text("\n".join(lines))

    def given(self, name: str, shape: str) -> Counter[tuple[Any, ...]]:
        counted = Counter[tuple[Any, ...]]()
        for path in (self.folder / f"{name}-{shape}").glob("*.json"):
            for row in map(json.loads, path.read_text().splitlines()):
                change = row.pop("change", "insert")
                counted[tuple(row.values())] += 1 if change in ("insert", "update_after") else -1
        assert all(count >= 0 for count in counted.values()), "a row was taken back that was not there"
        return +counted

    def due(self, name: str, shape: str) -> Counter[tuple[Any, ...]]:
        counted = Counter[tuple[Any, ...]]()
        for stint in self.stints[name, shape]:
            with duckdb.connect() as db:
                for stream, rows in stint.items():
                    db.register(stream, pl.DataFrame(rows, schema=COLUMNS[stream], orient="row").to_arrow())
                counted.update(db.execute(SHAPES[shape][1]).fetchall())
        return counted


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_stint_gives_what_duckdb_gives_over_its_rows(seed: int, tmp_path: Path) -> None:
    life = Life(tmp_path, random.Random(seed))
    life.begin()
    actions = [life.push] * 5 + [life.create] * 4 + [life.start, life.drop, life.restart] + [life.change_table] * 2
    for _ in range(30):
        life.draw.choice(actions)()
    life.session.drain(60)
    life.session.stop()
    assert life.stints
    for name, shape in life.stints:
        assert life.given(name, shape) == life.due(name, shape), f"{name}: {shape}"
