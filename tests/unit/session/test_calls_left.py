"""Calls that wait when the last rule is dropped are made by the next session, although it has nothing to run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.driver.rules import outbox
from headrace.errors import HostFault
from headrace.session import Session

SQL = "CREATE STREAM s (v INT) FROM MEMORY; CREATE RULE r WITH (tries 100) ON s DO CALL note(v)"


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkpoint in which the last rule was dropped while its call was being made, again and again."""
    monkeypatch.setattr(outbox, "PATIENCE", 0.1)
    is_tried = threading.Event()

    def refuse(value: Any, *, key: str) -> None:
        is_tried.set()
        raise ConnectionError

    with Session(tmp_path / "state", host="local") as session:
        session.register("note", refuse)
        session.execute(SQL)
        session.push("s", [(7,)])
        session.wait(0.3)
        assert is_tried.wait(10)
        session.execute("DROP RULE r")
    return tmp_path / "state"


def _waiting(checkpoint: Path) -> list[Path]:
    return list((checkpoint / "calls").glob("*.calls"))


def test_a_drain_makes_them(checkpoint: Path) -> None:
    assert _waiting(checkpoint)
    made: list[int] = []
    with Session(checkpoint, host="local") as session:
        session.register("note", lambda value, key: made.append(value))
        session.drain()
    assert made == [7]
    assert not _waiting(checkpoint)


def test_the_next_statement_lets_them_begin(checkpoint: Path) -> None:
    made = threading.Event()
    with Session(checkpoint, host="local") as session:
        session.register("note", lambda value, key: made.set())
        session.execute("SHOW RULES")
        assert not made.wait(0.2)  # looking changes nothing
        session.execute("CREATE STREAM other (v INT) FROM MEMORY")
        assert made.wait(10)


def test_a_drain_says_that_the_time_is_up(checkpoint: Path) -> None:
    go_on = threading.Event()
    with Session(checkpoint, host="local") as session:
        session.register("note", lambda value, key: go_on.wait(10))
        with pytest.raises(HostFault, match="not drained"):
            session.drain(timeout=0.1)
        go_on.set()


def test_damage_is_told(checkpoint: Path) -> None:
    (path,) = _waiting(checkpoint)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with Session(checkpoint, host="local") as session, pytest.raises(HostFault, match=path.name):
        session.drain()
