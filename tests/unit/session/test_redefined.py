"""A definition that takes the place of another says what that means for queries that run."""

from pathlib import Path

import pytest

from headrace.errors import NameFault
from headrace.session import Message, Session
from headrace.testing.watching import local_host

QUERY = "CREATE QUERY q AS SELECT id FROM s INTO MEMORY"


@pytest.fixture
def session(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"at,id\n2026-01-01 00:00:01,{len(name)}\n")
    with Session(tmp_path / "state", host="local") as made:
        yield made


def stream(folder: Path, skew: int = 0) -> str:
    return (
        "CREATE OR REPLACE STREAM s (at TIMESTAMP, id INT) "
        f"TIMESTAMP BY at SKEW {skew} SECONDS FROM FILES (path '{folder}', format 'csv')"
    )


def results(session: Session, query: str) -> list[int]:
    while local_host(session).step():
        pass
    return [row["id"] for row in session.results(query)]


def said(session: Session, text: str) -> list[str]:
    return [outcome.text for outcome in session.execute(text) if isinstance(outcome, Message)]


@pytest.mark.parametrize("changed", ["source", "skew"])
def test_a_stream_that_a_query_reads_keeps_its_source_and_its_time(session, tmp_path, changed):
    session.execute(f"{stream(tmp_path / 'first')}; {QUERY}")
    assert results(session, "q") == [5]
    other = stream(tmp_path / "second") if changed == "source" else stream(tmp_path / "first", 3)
    with pytest.raises(NameFault, match="stream 's' cannot change while q reads it") as caught:
        session.execute(other)
    assert caught.value.hint == "create a stream under another name for new queries, or first DROP QUERY q"
    session.execute("CREATE QUERY later AS SELECT id FROM s INTO MEMORY")
    assert results(session, "later") == []
    session.execute("DROP QUERY later")
    assert results(session, "q") == [5], "it was not read again"


def test_a_stream_changes_with_the_queries_that_read_it(session, tmp_path):
    session.execute(f"{stream(tmp_path / 'first')}; {QUERY}")
    assert results(session, "q") == [5]
    session.execute(f"DROP QUERY q; {stream(tmp_path / 'second')}; {QUERY.replace('QUERY q', 'QUERY p')}")
    assert results(session, "p") == [6]


def test_a_stream_that_a_query_reads_through_a_view_or_while_it_is_off_does_not_change(session, tmp_path):
    session.execute(f"{stream(tmp_path / 'first')}; CREATE VIEW v AS SELECT id FROM s")
    session.execute("CREATE QUERY q AS SELECT id FROM v INTO MEMORY; STOP QUERY q")
    with pytest.raises(NameFault, match="while q reads it"):
        session.execute(stream(tmp_path / "second"))
    session.execute("CREATE EVENT e AS SELECT id FROM s; CREATE RULE r ON e DO INSERT INTO CONSOLE; DROP QUERY q")
    with pytest.raises(NameFault, match="while r reads it") as caught:
        session.execute(stream(tmp_path / "second"))
    assert caught.value.hint.endswith("first DROP RULE r")


def test_a_view_that_takes_the_place_of_another_names_the_queries_that_do_not_follow(session, tmp_path):
    session.execute(stream(tmp_path / "first"))
    session.execute("CREATE VIEW v AS SELECT id FROM s; CREATE VIEW w AS SELECT id FROM v")
    replaced = "CREATE OR REPLACE VIEW v AS SELECT id FROM s WHERE id > {}"
    assert said(session, replaced.format(1)) == ["view v created"]
    session.execute("CREATE QUERY q AS SELECT id FROM w INTO MEMORY")
    still = "q still uses the earlier one: drop and create it to change that"
    assert said(session, replaced.format(2)) == [f"view v created; {still}"]
    session.execute("CREATE QUERY p AS SELECT id FROM v INTO MEMORY")
    still = "p, q still use the earlier one: drop and create them to change that"
    assert said(session, replaced.format(3)) == [f"view v created; {still}"]


def test_a_table_that_takes_the_place_of_another_names_the_queries_that_do_not_follow(session, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"id,name\n5,{name}\n")
    table = "CREATE OR REPLACE TABLE t (id INT, name STRING) FROM FILES (path '{}')"
    session.execute(f"{stream(tmp_path / 'first')}; {table.format(tmp_path / 'a.csv')}")
    session.execute("CREATE QUERY q AS SELECT s.id, t.name FROM s JOIN t ON s.id = t.id INTO MEMORY")
    (text,) = said(session, table.format(tmp_path / "b.csv"))
    assert text == "table t created; q still uses the earlier one: drop and create it to change that"
