"""INSERT INTO a named sink: what is written, what a second session finds, and what a second INSERT does."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.errors import NotSupported
from headrace.session import Message, Session, Started

STREAM = "CREATE STREAM s (at TIMESTAMP, n INT, day STRING) TIMESTAMP BY at FROM MEMORY;"


def push(session: Session, *numbers: int) -> None:
    session.push("s", [{"at": f"2026-01-01T00:00:{n:02d}Z", "n": n, "day": f"d{n % 2}"} for n in numbers])


def step(session: Session) -> None:
    while session.deployment.step():  # type: ignore[attr-defined]
        pass


def test_the_same_script_goes_on_after_a_restart_and_writes_each_result_once(tmp_path: Path) -> None:
    script = f"""{STREAM}
    CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet');
    INSERT INTO out SELECT n FROM s WHERE n > 1;
    """
    with Session(tmp_path / "state", host="local") as session:
        session.execute(script)
        push(session, 1, 2)
        step(session)
    with Session(tmp_path / "state", host="local") as session:
        said = [outcome.text for outcome in session.execute(script) if isinstance(outcome, Message)]
        assert said == ["stream s already exists", "sink out already exists", "query into_out already exists"]
        push(session, 3)
        step(session)
    assert sorted(pl.read_parquet(tmp_path / "out" / "*.parquet")["n"].to_list()) == [2, 3]


def test_files_of_a_named_sink_have_a_folder_for_each_query(tmp_path: Path) -> None:
    with Session(host="local") as session:
        session.execute(STREAM + f"CREATE SINK out INTO FILES (path '{tmp_path}/out');")
        session.execute("INSERT INTO out SELECT n FROM s WHERE n < 2; INSERT INTO out SELECT n FROM s WHERE n > 1;")
        push(session, 1, 2)
        session.drain()
    rows = pl.read_parquet(tmp_path / "out" / "**" / "*.parquet", hive_partitioning=True).sort("n").rows()
    assert rows == [(1, "into_out"), (2, "into_out_2")]


def test_partitioned_by_names_folders_after_values(tmp_path: Path) -> None:
    table = f"""CREATE TABLE out (n INT, day STRING) PARTITIONED BY (day)
      WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet');"""
    with Session(host="local") as session:
        session.execute(STREAM + table + "INSERT INTO out SELECT n, day FROM s;")
        push(session, 1, 2)
        session.drain()
    assert sorted(folder.name for folder in (tmp_path / "out").iterdir() if folder.is_dir()) == ["day=d0", "day=d1"]


def test_an_insert_whose_query_is_dropped_can_be_given_again_with_another_select(tmp_path: Path) -> None:
    table = f"CREATE TABLE out (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'json');"
    with Session(host="local") as session:
        session.execute(STREAM + table + "INSERT INTO out SELECT n FROM s;")
        with pytest.raises(NotSupported, match="query into_out writes into the files of out already"):
            session.execute("INSERT INTO out SELECT CAST(2 * n AS INT) FROM s")
        session.execute("DROP QUERY into_out")
        started = session.execute("INSERT INTO out SELECT CAST(-n AS INT) FROM s")
        assert started == [Started("into_out")]
        session.execute("DROP QUERY into_out; DROP TABLE out;")


def test_a_filesystem_table_that_is_monitored_is_a_stream(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n')
    with Session(host="local") as session:
        session.execute(
            f"""CREATE TABLE source (n INT) WITH ('connector' = 'filesystem', 'path' = 'file://{tmp_path}/in',
              'format' = 'json', 'source.monitor-interval' = '1 s');
            CREATE QUERY q AS SELECT n FROM source INTO MEMORY;"""
        )
        session.drain()
        assert session.results("q") == [{"n": 1}]


def test_a_sink_that_is_dropped_or_replaced_names_the_queries_that_go_on(tmp_path: Path) -> None:
    def said(text: str) -> list[str]:
        return [outcome.text for outcome in session.execute(text) if isinstance(outcome, Message)]

    with Session(host="local") as session:
        session.execute(STREAM + f"CREATE SINK out INTO FILES (path '{tmp_path}/a'); CREATE SINK kept INTO MEMORY;")
        session.execute("INSERT INTO out SELECT n FROM s WHERE n > 1; INSERT INTO kept SELECT n FROM s;")
        note = "into_out goes on as before (DROP QUERY into_out ends it)"
        assert said(f"CREATE OR REPLACE SINK out INTO FILES (path '{tmp_path}/b')") == [f"sink out created; {note}"]
        assert session.execute("INSERT INTO out SELECT n FROM s WHERE n > 1") == [Started("into_out_2")]
        assert said("DROP SINK out") == ["sink out dropped; " + note.replace("into_out", "into_out_2")]
        assert said("DROP QUERY into_kept; DROP SINK kept") == ["query into_kept dropped", "sink kept dropped"]
        push(session, 1, 2)
        session.drain()
    for folder, query in (("a", "into_out"), ("b", "into_out_2")):
        assert pl.read_parquet(tmp_path / folder / f"query={query}" / "*.parquet")["n"].to_list() == [2]
