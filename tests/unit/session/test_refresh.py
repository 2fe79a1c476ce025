"""Tables that are read again: new rows count from a micro-batch on, for all queries, whatever happens to the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND
from headrace.session import Listing, Session
from headrace.testing.clock import VirtualClock

BEGINNING = 1_800_000_000 * SECOND
SETUP = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;
CREATE TABLE names (k INT, name STRING) FROM FILES (path '{path}') REFRESH '10 s';
CREATE QUERY joined AS SELECT s.k, n.name FROM s LEFT JOIN names AS n ON s.k = n.k INTO MEMORY;
CREATE QUERY known AS SELECT k FROM s WHERE k IN (SELECT k FROM names) INTO MEMORY;
CREATE QUERY filled AS SELECT k, IMPUTE(nullif(k, k) USING names.k ON v = names.k) AS other FROM s INTO MEMORY;
CREATE QUERY counted AS SELECT c.k, n.name, c.n FROM
  (SELECT k, count(*) AS n FROM s [RANGE 1 SECOND] GROUP BY k) AS c JOIN names AS n ON c.k = n.k INTO MEMORY;
"""


class World:
    """A session on a clock of its own, and the file of a table."""

    def __init__(self, directory: Path) -> None:
        self.path, self.checkpoint = directory / "names.csv", directory / "checkpoint"
        self.clock = VirtualClock(BEGINNING)
        self.second = 0
        self.write("1,one")
        self.session = self.start()
        self.session.execute(SETUP.format(path=self.path))

    def start(self) -> Session:
        return Session(self.checkpoint, host=lambda directory: LocalDeployment(directory, clock=self.clock, buckets=2))

    def write(self, *rows: str) -> None:
        self.path.write_text("\n".join(["k,name", *rows, ""]))

    def settle(self) -> None:
        assert isinstance(self.session.deployment, LocalDeployment)
        while self.session.deployment.step():
            pass

    def later(self, seconds: int = 10) -> None:
        self.clock.advance(seconds * SECOND)
        self.settle()

    def push(self, *keys: int) -> None:
        self.second += 2
        at = f"2026-01-01 00:00:{self.second:02d}"
        self.session.push("s", [{"at": at, "k": key, "v": key} for key in keys])
        self.settle()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.session.results(query)]

    def problem(self) -> Any:
        (listing,) = self.session.execute("SHOW TABLES")
        assert isinstance(listing, Listing)
        return dict(zip(listing.columns, listing.rows[0], strict=True))["problem"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.session.stop()


def test_all_operators_go_on_with_the_new_rows_and_earlier_results_stay(world: World) -> None:
    world.push(1, 2)
    world.write("2,two")
    world.push(1, 2)  # it is not time yet
    world.later()
    world.push(1, 2)
    world.push(3)  # ends the windows before
    assert world.rows("joined")[:6] == [(1, "one"), (2, None), (1, "one"), (2, None), (1, None), (2, "two")]
    assert world.rows("known") == [(1,), (1,), (2,)]
    assert world.rows("filled")[:6] == [(1, 1), (2, None), (1, 1), (2, None), (1, None), (2, 2)]
    assert world.rows("counted") == [(1, "one", 1), (2, "two", 1), (2, "two", 1)], (
        "a window meets it when it is complete"
    )


def test_a_file_that_cannot_be_read_changes_nothing_and_is_shown(world: World) -> None:
    world.write("x,one")
    world.later()
    assert "'x' is not an INT" in world.problem()
    world.push(1)
    world.path.unlink()
    world.later()
    assert "there is no file" in world.problem()
    world.push(1)
    world.path.write_text("")  # as a program leaves it that is about to write it
    world.later()
    assert "is empty: it has no line that names the columns" in world.problem()
    world.push(1)
    world.write()  # an empty table is one
    world.later()
    assert world.problem() is None
    world.push(1)
    assert world.rows("joined") == [(1, "one"), (1, "one"), (1, "one"), (1, None)]


def test_a_table_that_stays_the_same_sends_no_command(world: World) -> None:
    world.push(1)
    before = world.session._deployments.count()
    for _ in range(3):
        world.later()
    assert world.session._deployments.count() == before


def test_a_query_that_comes_later_brings_the_rows_that_it_has_read(world: World) -> None:
    world.push(1)
    world.write("1,uno")
    world.session.execute("CREATE QUERY late AS SELECT s.k, n.name FROM s JOIN names AS n ON s.k = n.k INTO MEMORY")
    world.push(1)
    assert world.rows("late") == [(1, "uno")]
    assert world.rows("joined") == [(1, "one"), (1, "uno")], "all queries use one version"


def test_a_session_that_continues_reads_the_tables_at_once(world: World) -> None:
    world.push(1)
    world.session.stop()
    world.write("1,uno")
    world.session = world.start()
    world.session.start()
    world.push(1)
    assert world.rows("joined") == [(1, "uno")]


def test_a_table_that_is_dropped_and_created_again_is_another_one(world: World, tmp_path: Path) -> None:
    world.push(1)
    world.session.execute(
        "DROP QUERY joined; DROP QUERY known; DROP QUERY filled; DROP QUERY counted; DROP TABLE names"
    )
    (tmp_path / "others.csv").write_text("k,name\n1,eins\n")
    world.session.execute(
        SETUP.replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS").format(path=tmp_path / "others.csv")
    )
    world.push(1)
    world.write("1,uno")
    world.later()
    world.push(1)
    assert world.rows("joined")[1:] == [(1, "eins"), (1, "eins")]
    assert len(world.session._running().tables) == 1


def test_versions_and_tables_that_nothing_needs_are_deleted_while_queries_run(world: World, tmp_path: Path) -> None:
    kept = world.checkpoint / "tables"
    large = tmp_path / "large.csv"
    large.write_text("k,name\n" + "".join(f"{n},name {n}\n" for n in range(5_000)))
    world.session.execute(
        f"CREATE TABLE large (k INT, name STRING) FROM FILES (path '{large}');"
        "CREATE QUERY other AS SELECT s.k, n.name FROM s JOIN large AS n ON s.k = n.k INTO MEMORY"
    )
    for number in range(4):
        world.write(f"{number},name")
        world.later()
        world.push(number)
    assert len(list(kept.iterdir())) == 3, "the large one, and the version with which queries began, and the newest"
    assert set(world.session._running().tables.values()) < {path.name for path in kept.iterdir()}
    world.session.execute("STOP QUERY other; STOP QUERY joined")
    world.push(1)
    assert len(list(kept.iterdir())) == 3, "they may be started again"
    world.session.execute("DROP QUERY other; START QUERY joined")
    world.push(3)
    assert len(list(kept.iterdir())) == 2
    assert world.rows("joined")[-1] == (3, "name")


def test_rows_that_come_back_after_another_query_has_read_newer_ones_are_used(world: World) -> None:
    world.write("1,uno")
    world.later()
    world.write("1,eins")
    world.session.execute("CREATE QUERY late AS SELECT s.k, n.name FROM s JOIN names AS n ON s.k = n.k INTO MEMORY")
    world.push(1)
    world.write("1,uno")
    world.later()
    world.push(1)
    assert world.rows("joined") == [(1, "eins"), (1, "uno")]


def test_a_table_is_read_at_once_if_a_user_asks_for_it(world: World) -> None:
    world.push(1)
    world.write("1,uno")
    assert [str(outcome) for outcome in world.session.execute("REFRESH TABLE names")]
    world.settle()
    world.push(1)
    assert world.rows("joined") == [(1, "one"), (1, "uno")]


def test_a_query_that_failed_is_started_again_with_the_newest_rows(world: World) -> None:
    world.session.execute(
        """DROP QUERY joined; DROP QUERY known; DROP QUERY filled; DROP QUERY counted;
        CREATE AGGREGATE fussy(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Fussy';
        CREATE QUERY all_keys AS SELECT k FROM s INTO MEMORY;
        CREATE QUERY bad AS
          SELECT s.k, n.name, fussy(v) AS f FROM s [RANGE 1 SECOND] JOIN names AS n ON s.k = n.k GROUP BY s.k, n.name
          INTO MEMORY"""
    )
    world.write("-1,minus one", "1,one")
    world.later()
    world.push(-1)
    world.write("1,uno")
    world.later()
    world.session.execute("START QUERY bad")
    world.push(1)
    world.push(2)
    assert world.rows("bad") == [(1, "uno", 1.0)]
