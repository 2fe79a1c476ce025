"""A checkpoint has one owner; whoever only looks at it changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HostFault
from headrace.session import Listing, Session
from headrace.testing.watching import local_host

STREAM = "CREATE STREAM bids (item INT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;"
QUERY = "CREATE QUERY items AS SELECT item FROM bids INTO MEMORY;"
READING = ("SHOW QUERIES", "SHOW STREAMS", "SHOW STATISTICS", "SHOW DECISIONS", "DESCRIBE items", "EXPLAIN items")


def open_session(checkpoint: Path) -> Session:
    return Session(checkpoint, host="local")


def content(checkpoint: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(checkpoint.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "change", [QUERY, "DROP STREAM bids", "ALTER SYSTEM SET scheduler = 'chain'", "CREATE VIEW v AS SELECT * FROM bids"]
)
def test_a_second_session_cannot_change_a_checkpoint_and_learns_who_has_it(tmp_path: Path, change: str) -> None:
    with open_session(tmp_path) as first:
        first.execute(STREAM)
        second = open_session(tmp_path)
        with pytest.raises(HostFault, match=f"in use by process {os.getpid()} on"):
            second.execute(change)
        with pytest.raises(HostFault, match="in use"):
            second.push("bids", [])
    second.execute(STREAM)


@pytest.mark.slow
def test_another_process_cannot_change_a_checkpoint_until_the_owner_ends(tmp_path: Path) -> None:
    program = (
        "import sys; from headrace.session import Session; Session(sys.argv[1], host='local').execute(sys.argv[2])"
    )
    command = [sys.executable, "-c", program, str(tmp_path), QUERY]
    with open_session(tmp_path) as session:
        session.execute(STREAM)
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert f"in use by process {os.getpid()}" in refused.stderr
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0
    listing = open_session(tmp_path).execute("SHOW QUERIES")[0]
    assert isinstance(listing, Listing)
    assert [row[0] for row in listing.rows] == ["items"]


def test_statements_that_read_work_beside_the_owner_and_change_no_byte(tmp_path: Path) -> None:
    with open_session(tmp_path) as first:
        first.execute(STREAM + QUERY)
        before = content(tmp_path)
        second = open_session(tmp_path)
        for statement in READING:
            second.execute(statement)
        assert content(tmp_path) == before


def test_a_session_that_only_looks_does_not_say_that_nothing_was_counted(tmp_path: Path) -> None:
    with open_session(tmp_path) as first:
        first.execute(STREAM + QUERY)
        for statement in ("SHOW QUERIES", "SHOW STREAMS"):
            (running,), (looking,) = first.execute(statement), open_session(tmp_path).execute(statement)
            assert isinstance(running, Listing)
            assert isinstance(looking, Listing)
            numbers = [at for at, cell in enumerate(running.rows[0]) if cell == 0]
            assert numbers
            assert [looking.rows[0][at] for at in numbers] == [None] * len(numbers)


def test_statements_that_read_start_nothing(tmp_path: Path) -> None:
    with open_session(tmp_path) as session:
        session.execute(STREAM + QUERY)
    with open_session(tmp_path) as session:
        for statement in READING:
            session.execute(statement)
        assert not session.deployment.delivery.sinks
        session.execute("ALTER SYSTEM SET scheduler = 'chain'")
        assert session.deployment.delivery.sinks


def test_a_session_that_becomes_the_owner_knows_what_the_last_one_defined(tmp_path: Path) -> None:
    waiting = open_session(tmp_path)
    with open_session(tmp_path) as first:
        first.execute(STREAM)
    waiting.execute(QUERY)
    waiting.stop()
    with open_session(tmp_path) as third:
        assert [definition.name for definition in third.catalog if not definition.name.startswith("headrace.")] == [
            "bids",
            "items",
        ]


def test_a_drained_checkpoint_ends_at_once_when_it_is_drained_again(tmp_path: Path) -> None:
    with open_session(tmp_path) as session:
        session.execute(STREAM + QUERY)
        session.push("bids", [{"item": 1, "at": "2026-01-01 00:00:00"}])
        session.drain(60)
        assert session.results("items") == [{"item": 1}]
    for _ in range(2):
        with open_session(tmp_path) as session:
            session.execute(STREAM + QUERY)
            session.drain(60)
            assert session.wait(60)
            assert local_host(session).batch == 0


def test_statements_of_one_text_are_one_file_of_the_command_log(tmp_path: Path) -> None:
    with open_session(tmp_path) as session:
        session.execute(STREAM + QUERY + QUERY.replace("items", "others") + "ALTER SYSTEM SET scheduler = 'chain';")
        assert len(list((tmp_path / "commands").iterdir())) == 1
        session.execute("DROP QUERY others")
        assert sorted(path.name for path in (tmp_path / "commands").iterdir()) == ["00000000.json", "00000003.json"]


@pytest.mark.parametrize(("damage", "reason"), [(None, "is missing"), (b"{}", "is damaged"), (b"\xff", "is damaged")])
def test_a_command_that_is_missing_or_damaged_is_noticed(tmp_path: Path, damage: bytes | None, reason: str) -> None:
    with open_session(tmp_path) as session:
        session.execute(STREAM + QUERY)
        session.execute("DROP QUERY items")
    path = tmp_path / "commands" / "00000000.json"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    with pytest.raises(HostFault, match=reason):
        local_host(open_session(tmp_path)).intake.deployments.running(2)
