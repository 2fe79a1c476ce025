"""What a session defines is known to the next one on the same checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog import journal
from headrace.errors import NameFault
from headrace.session import Listing, Message, Session, Started
from headrace.session.listings.show import COUNTS
from headrace.testing.watching import local_host

FILE = """
CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
CREATE STREAM notes (text STRING) FROM MEMORY;
CREATE TABLE items (item INT, name STRING) FROM FILES (path 'items.csv');
CREATE AGGREGATE geo_mean(DOUBLE) RETURNS DOUBLE FROM PYTHON 'means:Geometric';
CREATE VIEW named AS SELECT b.item, name, price FROM bids AS b JOIN items AS i ON b.item = i.item;
SPLIT bids INTO dear WHEN price > 10, "cheap ones" WHEN price < 5 OR price IS NULL, rest ELSE;
CREATE QUERY means AS SELECT name, geo_mean(price) AS mean FROM named [RANGE 10 SECONDS] GROUP BY name INTO MEMORY;
CREATE QUERY many WITH (ordered) AS SELECT count(*) AS n FROM dear [RANGE 10 SECONDS] INTO MEMORY, CONSOLE (rows 5);
SELECT item FROM rest INTO MEMORY;
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "items.csv").write_text("item,name\n1,pen\n2,ink\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples")


def open_session() -> Session:
    return Session("state", host="local")


def shown(session: Session) -> dict[str, list[object]]:
    """All that can be asked about the catalog, without counts."""
    asked = ["SHOW STREAMS", "SHOW TABLES", "SHOW QUERIES", "SHOW AGGREGATES"]
    asked += [
        f"DESCRIBE {name}"
        for name in ("bids", "bids.late", "bids.bad", "items", "named", "dear", '"cheap ones"', "rest", "means", "many")
    ]
    asked += [f"EXPLAIN {name}" for name in ("named", "rest", "means", "many")]
    outcomes = {text: session.execute(text) for text in asked}
    return {
        text: [outcome.without(COUNTS) if isinstance(outcome, Listing) else outcome for outcome in listed]
        for text, listed in outcomes.items()
    }


def test_a_new_session_knows_everything_that_an_earlier_one_defined() -> None:
    with open_session() as first:
        first.execute(FILE)
        before = shown(first)
        definitions = list(first.catalog)
    with open_session() as second:
        assert shown(second) == before
        assert list(second.catalog) == definitions
    (queries,) = before["SHOW QUERIES"]
    assert isinstance(queries, Listing)
    kinds = {row[0]: row[1] for row in queries.rows}
    assert kinds.pop(next(name for name in kinds if name.startswith("select_"))) == "MEMORY"
    assert kinds == {
        "means": "MEMORY",
        "many": "MEMORY, CONSOLE",
        "named": "view",
        "dear": "view",
        "cheap ones": "view",
        "rest": "view",
    }


def test_queries_of_a_new_session_read_what_was_defined_before() -> None:
    with open_session() as session:
        session.execute(FILE)
    with open_session() as session:
        session.execute(
            "CREATE QUERY late_reader AS SELECT name, price FROM named WHERE name = 'pen' UNION ALL "
            "SELECT '?', price FROM \"cheap ones\" INTO MEMORY"
        )
        session.push(
            "bids",
            [
                {"at": "1970-01-01 00:00:01", "item": 1, "price": 12.0},
                {"at": "1970-01-01 00:00:02", "item": 2, "price": 3.0},
            ],
        )
        session.drain(timeout=30)
        assert sorted(session.results("late_reader"), key=str) == [
            {"name": "?", "price": 3.0},
            {"name": "pen", "price": 12.0},
        ]
        assert session.results("many") == [{"n": 1}]
        assert sorted((row["name"], round(row["mean"], 6)) for row in session.results("means")) == [
            ("ink", 3.0),
            ("pen", 12.0),
        ]


@pytest.mark.parametrize("reopened", [False, True])
def test_running_the_same_file_again_changes_nothing(reopened: bool) -> None:
    with open_session() as session:
        session.execute(FILE)
        journal = session.journal.path.read_bytes()
        commands = local_host(session).intake.deployments.count()
        if not reopened:
            again = session.execute(FILE)
    if reopened:
        with open_session() as session:
            again = session.execute(FILE)
    texts = [outcome.text for outcome in again if isinstance(outcome, Message)]
    assert texts
    assert all(text.endswith("already exists") for text in texts)
    assert session.journal.path.read_bytes() == journal
    assert local_host(session).intake.deployments.count() == commands


def test_a_changed_definition_under_the_same_name_is_refused_whole() -> None:
    with open_session() as session:
        session.execute(FILE)
        definitions = list(session.catalog)
        with pytest.raises(NameFault, match="'dear' is already a query"):
            session.execute("CREATE VIEW new AS SELECT item FROM bids; SPLIT bids INTO dear WHEN price > 11, rest ELSE")
        assert list(session.catalog) == definitions
    with open_session() as session:
        assert list(session.catalog) == definitions


def test_what_was_dropped_or_replaced_stays_so() -> None:
    with open_session() as session:
        session.execute(FILE)
        session.execute(
            "DROP QUERY many; DROP VIEW dear; DROP STREAM notes; "
            "CREATE OR REPLACE VIEW named AS SELECT item, 'x' AS name, price FROM bids"
        )
        definitions = list(session.catalog)
    with open_session() as session:
        assert list(session.catalog) == definitions
        assert "dear" not in session.catalog
        assert "notes" not in session.catalog
        assert "'x'" in str(session.catalog.find("named"))
        (outcome,) = session.execute("CREATE QUERY dear AS SELECT item FROM bids INTO MEMORY")
        assert outcome == Started("dear")


def test_a_session_opens_from_elsewhere_and_after_its_files_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_session() as session:
        session.execute(
            FILE + "CREATE TABLE guessed FROM FILES (path 'items.csv'); "
            "CREATE STREAM read (item INT) FROM FILES (path 'items.csv')"
        )
        definitions = list(session.catalog)
    (tmp_path / "items.csv").unlink()
    monkeypatch.chdir("/")
    with Session(tmp_path / "state", host="local") as session:
        assert list(session.catalog) == definitions
        assert session.execute("DESCRIBE guessed") == [
            Listing(("column", "type"), (("item", "BIGINT"), ("name", "STRING")))
        ]
        session.execute("DROP TABLE guessed; DROP STREAM read")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE VIEW named AS SELECT item, price FROM bids",
        "CREATE OR REPLACE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY",
        "CREATE OR REPLACE AGGREGATE geo_mean(INT) RETURNS INT FROM PYTHON 'means:Geometric'",
    ],
)
def test_the_columns_of_what_is_read_must_stay(text: str) -> None:
    with open_session() as session:
        session.execute(FILE)
        definitions = list(session.catalog)
        with pytest.raises(NameFault, match=r"(columns|types) of .* cannot change: it is (read|called) by"):
            session.execute(text)
        assert list(session.catalog) == definitions


def test_a_view_runs_only_where_it_is_read() -> None:
    with open_session() as session:
        session.execute(FILE.split("CREATE QUERY")[0])
        assert local_host(session).intake.deployments.count() == 0
        session.execute("SELECT item FROM dear INTO MEMORY; SELECT price FROM dear INTO MEMORY")
        assert local_host(session).intake.deployments.count() == 2
        running = local_host(session).intake.deployments.at(2)
        filters = [vertex for vertex in running.placement.ingest.vertices if vertex.id.startswith("filter")]
        assert len(filters) == 1  # both read the same branch


def test_definitions_that_are_gone_leave_the_journal_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_session() as session:
        session.execute(FILE)
        for number in range(20):
            session.execute(
                f"CREATE OR REPLACE VIEW named AS SELECT item, 'x' AS name, price + {number} AS price FROM bids"
            )
            session.execute("CREATE VIEW short AS SELECT item FROM bids; DROP VIEW short")
        before, definitions = shown(session), list(session.catalog)
        lines = len(session.journal.read())
    monkeypatch.setattr(journal, "MAX_DEAD", 5)
    other = open_session()  # reads the journal before it changes
    with open_session() as session:
        session.execute("CREATE STREAM last (text STRING) FROM MEMORY")
        assert len(session.journal.read()) < lines / 2
        session.execute("DROP STREAM last")
        assert shown(session) == before
    with open_session() as session:
        assert shown(session) == before
        assert list(session.catalog) == definitions
    other.execute("CREATE STREAM more (text STRING) FROM MEMORY; DROP STREAM more")
    assert shown(other) == before
    other.stop()


def test_they_leave_it_while_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_DEAD", 5)
    with open_session() as session:
        session.execute(FILE)
        definitions = list(session.catalog)
        for _ in range(20):
            session.execute("CREATE VIEW short AS SELECT item FROM bids; DROP VIEW short")
            assert len(session.journal.read()) <= len(definitions) + max(5, len(definitions)) + 2
    with open_session() as session:
        assert list(session.catalog) == definitions


@pytest.mark.parametrize(
    ("content", "columns", "refresh"),
    [
        (None, "", ""),
        (None, " (k INT, name STRING)", " REFRESH '1 hour'"),
        ("", "", " REFRESH '1 hour'"),
        ("k,other\n1,2\n", " (k INT, name STRING)", ""),
        ("k,name\nx,one\n", " (k INT, name STRING)", " REFRESH '1 hour'"),
    ],
)
def test_a_script_goes_on_whatever_has_become_of_the_files_of_its_tables(
    content: str | None, columns: str, refresh: str, tmp_path: Path
) -> None:
    names, rows = tmp_path / "names.csv", tmp_path / "rows.csv"
    names.write_text("k,name\n1,one\n")
    rows.write_text("k,v\n2,2\n")
    script = f"""CREATE STREAM s (k INT, v INT) FROM MEMORY;
    CREATE STREAM inferred FROM FILES (path '{rows}');
    CREATE TABLE names{columns} FROM FILES (path '{names}'){refresh};
    CREATE QUERY joined AS SELECT s.k, n.name FROM s LEFT JOIN names AS n ON s.k = n.k INTO MEMORY;
    CREATE SINK sink INTO MEMORY; INSERT INTO sink SELECT k FROM s WHERE k IN (SELECT k FROM names);
    """
    with Session(tmp_path / "state", host="local") as session:
        session.execute(script)
    rows.unlink()
    if content is None:
        names.unlink()
    else:
        names.write_text(content)
    with Session(tmp_path / "state", host="local") as session:
        assert session.execute(script)[-1] == Message("query into_sink already exists")
        session.push("s", [{"k": 1, "v": 1}])
        session.drain(60)
        assert session.results("joined") == [{"k": 1, "name": "one"}]
        assert session.results("into_sink") == [{"k": 1}]
