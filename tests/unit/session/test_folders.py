"""Queries and rules that write files never replace each other's."""

from pathlib import Path

import pytest

from headrace.errors import NotSupported
from headrace.session import Session
from headrace.session.outcome import Message, Outcome

STREAM = "CREATE STREAM s (at TIMESTAMP, v INT) TIMESTAMP BY at FROM MEMORY;"
ROWS = [{"at": "2026-01-01 00:00:01", "v": 1}]


def into(folder: Path | str) -> str:
    return f"INTO FILES (path '{folder}', format 'csv');"


@pytest.mark.parametrize(
    "second",
    [
        "CREATE QUERY r AS SELECT v + 1 AS v FROM s INTO FILES (path '{link}/', format 'csv');",
        "CREATE QUERY r AS SELECT v + 1 AS v FROM s INTO CONSOLE, FILES (path '{out}', roll_bytes 400);",
        "SELECT v FROM s INTO FILES (path '{out}/x/..', format 'json');",
        "CREATE RULE r ON s DO INSERT INTO FILES (path '{out}', format 'csv');",
    ],
)
def test_a_folder_into_which_a_query_writes_is_refused_to_others(second: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(STREAM + f"CREATE QUERY q AS SELECT v FROM s {into(tmp_path / 'out')}")
        second = second.format(link=tmp_path / "link", out=tmp_path / "out")
        with pytest.raises(NotSupported, match=f"q writes into {tmp_path / 'out'} already") as refused:
            session.execute(second)
        assert refused.value.span is not None
        session.execute("DROP QUERY q;" + second)


def test_a_folder_cannot_be_named_twice(tmp_path: Path) -> None:
    with (
        Session(tmp_path / "checkpoint", host="local") as session,
        pytest.raises(NotSupported, match=f"q would write into {tmp_path / 'out'} twice"),
    ):
        session.execute(
            STREAM + f"CREATE QUERY q AS SELECT v FROM s {into(tmp_path / 'out')[:-1]}, {into(tmp_path / 'out')[5:]}"
        )


def test_a_query_that_is_replaced_keeps_its_folder(tmp_path: Path) -> None:
    with Session(tmp_path / "checkpoint", host="local") as session:
        for text in (
            "CREATE QUERY q AS SELECT v",
            "CREATE QUERY q AS SELECT v",
            "CREATE OR REPLACE QUERY q AS SELECT at",
        ):
            session.execute(STREAM + f"{text} FROM s {into(tmp_path / 'out')}")


def test_a_new_deployment_says_whose_files_it_replaces(tmp_path: Path) -> None:
    script = STREAM + f"CREATE QUERY q AS SELECT v FROM s {into(tmp_path / 'out')}"
    script += f"CREATE RULE r ON s DO INSERT INTO FILES (path '{tmp_path / 'rule'}', format 'csv');"
    for number, checkpoint in enumerate(("first", "first", "second")):
        with Session(tmp_path / checkpoint, host="local") as session:
            warnings = [text for text in map(text_of, session.execute(script)) if text.startswith("warning")]
            if not number:
                session.push("s", ROWS)
                session.drain()
        assert [str(tmp_path / name) in "".join(warnings) for name in ("out", "rule")] == [checkpoint == "second"] * 2


def text_of(outcome: Outcome) -> str:
    return outcome.text if isinstance(outcome, Message) else ""
