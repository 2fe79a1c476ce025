"""The list of changes of plans: statements read it while a micro-batch does."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from headrace.commands.running import Running
from headrace.control.migration_log import Migrated, MigrationLog
from headrace.storage import files
from headrace.storage.lines import LineFile


def test_a_statement_and_a_micro_batch_that_read_it_first_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Migrated(query="q", vertex="join", number=1, before="(a b)", after="(b a)", how="stepwise", time=0, ended=1)
    LineFile(tmp_path / "migrations.jsonl").append([msgspec.json.encode(entry)])
    both_read = threading.Barrier(2)
    read_appended: Callable[..., bytes] = files.read_appended

    def read_slowly(path: Path, start: int) -> bytes:
        data = read_appended(path, start)
        with suppress(threading.BrokenBarrierError):
            both_read.wait(0.5)  # until the other one has the same lines, if it can get them
        return data

    monkeypatch.setattr(files, "read_appended", read_slowly)
    log, faults = MigrationLog(tmp_path), list[Exception]()

    def follow() -> None:
        try:
            log.follow([], Running(), 2, 0.0)
        except Exception as fault:
            faults.append(fault)

    micro_batch = threading.Thread(target=follow)
    micro_batch.start()
    assert log.all() == [entry]
    micro_batch.join()
    assert faults == []
