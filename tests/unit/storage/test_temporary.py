"""Temporary checkpoints of sessions that were killed are deleted later, and nothing else is."""

import os
import tempfile
from pathlib import Path

import pytest

from headrace.session import Session
from headrace.storage.format import write_format
from headrace.storage.location import location
from headrace.storage.owner import Ownership
from headrace.storage.scratch import scratch_of
from headrace.storage.temporary import OLD, sweep, temporary_checkpoint

NOW = 2e9


def checkpoint(parent: Path, name: str, age: float) -> Path:
    directory = parent / name
    write_format(directory)
    os.utime(directory, (NOW - age, NOW - age))
    return directory


def test_only_old_checkpoints_without_an_owner_are_deleted(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "headrace-ab_12xyz", OLD + 1)
    empty = tmp_path / "headrace-00000000"
    empty.mkdir()
    os.utime(empty, (0, 0))
    kept = [
        checkpoint(tmp_path, "headrace-recent00", OLD - 1),
        checkpoint(tmp_path, "headrace-example-12345678", OLD + 1),
        checkpoint(tmp_path, "headrace-mydata", OLD + 1),
        checkpoint(tmp_path, "other-ab_12xyz", OLD + 1),
    ]
    foreign = tmp_path / "headrace-12345678"
    foreign.mkdir()
    (foreign / "letters.txt").touch()
    os.utime(foreign, (0, 0))
    link = tmp_path / "headrace-abcdefgh"
    link.symlink_to(kept[1])
    owned = checkpoint(tmp_path, "headrace-owned000", OLD + 1)
    owner = Ownership(owned)
    owner.take()
    os.utime(owned, (NOW - OLD - 1, NOW - OLD - 1))
    assert sweep(tmp_path, NOW) == 2
    assert not old.exists()
    assert not empty.exists()
    assert all(path.exists() for path in (*kept, foreign, link, owned, owned / "format.json"))
    owner.release()
    assert sweep(tmp_path, NOW) == 1
    assert not owned.exists()
    assert sweep(tmp_path / "nothing", NOW) == 0


def test_scratch_folders_that_nobody_uses_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, working, owned = (scratch_of(location(f"s3://lake/{name}")) for name in ("old", "working", "owned"))
    for folder in (old, working, owned):
        (folder / "notes").mkdir()
        (folder / "notes" / "7.task0").touch()
    owner = Ownership(owned, is_private=True)
    owner.take()
    for path in (*old.iterdir(), *owned.iterdir(), old, working, owned):
        os.utime(path, (NOW - OLD - 1, NOW - OLD - 1))
    os.utime(working / "notes", (NOW - OLD + 1, NOW - OLD + 1))
    assert sweep(tmp_path, NOW) == 1
    assert sorted(tmp_path.iterdir()) == sorted([working, owned])
    owner.release()
    os.utime(owned, (NOW - OLD - 1, NOW - OLD - 1))
    assert sweep(tmp_path, NOW) == 1
    assert list(tmp_path.iterdir()) == [working]


def test_a_checkpoint_of_a_session_that_was_killed_is_recognized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session = Session(host="local")
    session.execute("CREATE STREAM s (n INT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY")
    later = session.directory.stat().st_mtime + OLD + 1
    assert sweep(tmp_path, later) == 0
    session._ownership.release()  # as the system does for a process that is killed
    assert sweep(tmp_path, later) == 1
    assert list(tmp_path.iterdir()) == []
    session.stop()


def test_a_new_one_is_empty() -> None:
    path = temporary_checkpoint()
    assert list(path.iterdir()) == []
    path.rmdir()
