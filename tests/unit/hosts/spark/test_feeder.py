"""What tasks that read a Spark source leave in the spool."""

from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.spool import Spooled, stream_spool
from headrace.hosts.spark import feeder
from headrace.hosts.spark.feeder import Note, leave_rows, write_parts

LARGE = 20_000


def frame(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"id": range(first, first + count)})


def test_little_goes_through_the_driver_and_much_does_not(tmp_path: Path) -> None:
    spool = stream_spool("s", tmp_path)
    small = list(write_parts(spool, 3, 1, [frame(0, 5), frame(5, 0), frame(5, 5)]))
    assert [(note.task, note.place, note.part) for note in small] == [(1, 1, "")]
    assert not spool.all()
    (large,) = write_parts(spool, 3, 0, [frame(100, LARGE)])
    assert large == Note(0, 1, f"000000000003-{LARGE}-t0-1.arrow", b"")
    leave_rows(spool, 3, [*small, large])
    (file,) = spool.files()
    assert file == Spooled(3, LARGE + 10, "list")
    assert spool.read(file)["id"].to_list() == [*range(10), *range(100, 100 + LARGE)]


def test_small_micro_batches_are_one_file(tmp_path: Path) -> None:
    spool = stream_spool("s", tmp_path)
    notes = [note for task in (2, 0, 1) for note in write_parts(spool, 3, task, [frame(task, 1)])]
    leave_rows(spool, 3, notes)
    leave_rows(spool, 4, [])
    assert spool.all() == [Spooled(3, 3)]
    assert spool.read(Spooled(3, 3))["id"].to_list() == [0, 1, 2]


def test_what_a_task_reads_is_divided_into_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder, "_PART_BYTES", 8 * LARGE)
    spool = stream_spool("s", tmp_path)
    notes = list(write_parts(spool, 3, 0, [frame(number * LARGE, LARGE) for number in range(12)]))
    leave_rows(spool, 3, notes[::-1])
    assert len(notes) == 12
    assert spool.read(spool.files()[0])["id"].to_list() == list(range(12 * LARGE))
