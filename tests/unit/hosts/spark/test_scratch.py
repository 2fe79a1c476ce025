"""Folders that Spark writes into: one for each process, deleted when the process has ended, however it ended."""

import os
import tempfile
from pathlib import Path

import pytest

from headrace.hosts.spark.starting.scratch import private_folder, sweep
from headrace.storage.owner import OWNER_FILE, Ownership
from headrace.storage.temporary import OLD

NOW = 2e9


def test_the_folder_of_a_process_that_was_killed_is_deleted_and_no_other(tmp_path: Path) -> None:
    folders = {name: tmp_path / f"headrace-spark-{name:0<8}" for name in ("running", "killed", "new", "old")}
    for folder in folders.values():
        (folder / "blockmgr").mkdir(parents=True)
        (folder / "blockmgr" / "chunk").touch()
    owner = Ownership(folders["running"])
    owner.take()
    killed = Ownership(folders["killed"])
    killed.take()
    killed.release()
    os.utime(folders["new"], (NOW, NOW))
    os.utime(folders["old"], (NOW - OLD - 1, NOW - OLD - 1))
    (tmp_path / "headrace-spark-of-somebody").mkdir()
    assert sweep(tmp_path, NOW) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "headrace-spark-new00000",
        "headrace-spark-of-somebody",
        "headrace-spark-running0",
    ]
    owner.release()


def test_a_process_owns_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = Path(private_folder())
    assert (folder / OWNER_FILE).exists()
    assert sweep(tmp_path, NOW) == 0
