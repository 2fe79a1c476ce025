"""Results that wait for a larger file: readers see each of them once, whenever the process dies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.files.rolling_sink import RollingFilesSink, files_sink, finish_dropped
from headrace.connectors.files.sink import FilesSink
from headrace.errors import HeadraceError, HostFault, QueryError, SinkFault
from headrace.hosts.local import LocalDeployment
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.storage.storage import mounted
from headrace.testing.dying_disk import DyingDisk, Killed

SCHEMA = Schema.of(n=Type.BIGINT)
#: Never in these tests, unless something else makes a file.
LONG = "1 hour"


def page(*numbers: int) -> Page:
    return page_of(SCHEMA, [{"n": n} for n in numbers], list(numbers))


def connector(out: Path, **options: str | int) -> Connector:
    return Connector("FILES", {"path": str(out), "roll_interval": LONG, **options})


def sink(root: Path, **options: str | int) -> RollingFilesSink:
    made = files_sink("q", connector(root / "out", **options), SCHEMA, root / "checkpoint")
    assert isinstance(made, RollingFilesSink)
    return made


def written(root: Path) -> dict[str, list[int]]:
    return {path.name: pl.read_parquet(path)["n"].to_list() for path in sorted((root / "out").glob("*.parquet"))}


def test_what_a_lost_attempt_staged_is_gone_after_the_next_micro_batch(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    rolling.write(7, [], [rolling.stage(page(1), "b7-0-1")])
    rolling.stage(page(1), "b7-0-1")
    rolling.write(8, [])
    assert not list((tmp_path / "checkpoint").rglob("staged-*"))
    rolling.close()
    assert written(tmp_path) == {"part-000000000007-000000000007.parquet": [1]}


def test_results_of_several_batches_are_one_file(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    for batch in range(3):
        rolling.write(batch, [page(batch, batch + 10)])
    rolling.write(3, [])
    assert written(tmp_path) == {}
    rolling.close()
    assert written(tmp_path) == {"part-000000000000-000000000002.parquet": [0, 10, 1, 11, 2, 12]}
    assert not list((tmp_path / "checkpoint").rglob("*.arrow"))
    rolling.close()
    assert len(written(tmp_path)) == 1


def test_a_file_is_written_when_there_is_enough_for_one(tmp_path: Path) -> None:
    rolling = sink(tmp_path, roll_bytes=3000)
    for batch in range(10):
        rolling.write(batch, [page(*range(100))])
    assert [len(rows) for rows in written(tmp_path).values()] == [300, 300, 300]


def test_a_file_is_written_when_results_have_waited(tmp_path: Path) -> None:
    rolling = sink(tmp_path, roll_interval="1 millisecond")
    rolling.write(0, [page(1)])
    timer = rolling._timer
    assert timer is not None
    timer.join()
    assert written(tmp_path) == {"part-000000000000-000000000000.parquet": [1]}


def test_what_another_process_left_does_not_wait_for_new_results(tmp_path: Path) -> None:
    sink(tmp_path).write(0, [page(1)])
    again = sink(tmp_path, roll_interval="1 millisecond")
    again.resume()
    timer = again._timer
    assert timer is not None
    timer.join()
    assert written(tmp_path) == {"part-000000000000-000000000000.parquet": [1]}


def test_a_fault_of_the_timer_is_raised_by_the_next_write(tmp_path: Path) -> None:
    rolling = sink(tmp_path, roll_interval="1 millisecond")
    shutil.rmtree(tmp_path / "out")
    rolling.write(0, [page(1)])
    timer = rolling._timer
    assert timer is not None
    timer.join()
    with pytest.raises(SinkFault, match="cannot be written"):
        rolling.write(1, [page(2)])
    (tmp_path / "out").mkdir()
    rolling.write(1, [page(2)])
    rolling.close()
    assert sorted(n for rows in written(tmp_path).values() for n in rows) == [1, 2]


def test_staged_results_wait_as_well(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    rolling.write(4, [page(1)], [sink(tmp_path).stage(page(2), "4-a"), sink(tmp_path).stage(page(3), "4-b")])
    rolling.write(5, [], [sink(tmp_path).stage(page(4), "5-a")])
    rolling.write(5, [], [sink(tmp_path).stage(page(4), "5-a")])  # the micro-batch was run again
    rolling.close()
    assert written(tmp_path) == {"part-000000000004-000000000005.parquet": [1, 2, 3, 4]}
    sink(tmp_path).stage(page(5), "6-a")
    (tmp_path / "out" / ".part-000000000006-000000000006.parquet.12.tmp").touch()
    assert rolling.sweep() == 2
    assert not list((tmp_path / "checkpoint").rglob("*.arrow"))
    assert len(list((tmp_path / "out").iterdir())) == 1
    with pytest.raises(SinkFault, match="was deleted"):
        rolling.write(6, [], ["6-a"])


def test_a_dropped_query_gives_what_waits_when_the_process_died_before(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    rolling.write(0, [page(1)])
    finish_dropped(tmp_path / "checkpoint", {rolling.directory})
    assert written(tmp_path) == {}
    finish_dropped(tmp_path / "checkpoint", ())
    assert written(tmp_path) == {"part-000000000000-000000000000.parquet": [1]}


@pytest.mark.parametrize("options", [{"roll_bytes": "many"}, {"roll_bytes": 0}, {"roll_interval": "soon"}])
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="roll_"):
        sink(tmp_path, **options)


def test_without_the_options_each_batch_is_a_file(tmp_path: Path) -> None:
    made = files_sink("q", Connector("FILES", {"path": str(tmp_path / "out")}), SCHEMA, tmp_path / "checkpoint")
    assert isinstance(made, FilesSink)


def process(root: Path, first: int) -> Iterator[int]:
    """Deliver micro-batches from `first` on, in files of about two; yield each that is committed."""
    rolling = sink(root, roll_bytes=1000)
    rolling.resume()
    for batch in range(first, 6):
        staged = [rolling.stage(page(batch + 100), f"{batch}-a"), rolling.stage(page(batch + 200), f"{batch}-b")]
        rolling.write(batch, [page(batch)] if batch % 2 else [], staged)
        yield batch
    rolling.close()


@pytest.mark.slow
def test_a_crash_after_any_change_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    expected = sorted([*(n for n in range(6) if n % 2), *range(100, 106), *range(200, 206)])
    crashes = 0
    for changes in range(1000):
        root = tmp_path / str(changes)
        root.mkdir()
        committed = -1
        disk = DyingDisk(changes)
        with mounted(root, disk), suppress(Killed):
            for batch in process(root, 0):
                committed = batch
        crashes += not disk.changes
        for again in range(2):  # the last micro-batch may be run again although it was delivered
            for batch in process(root, max(0, committed if again == 0 else committed + 1)):
                committed = batch
        delivered = sorted(n for rows in written(root).values() for n in rows)
        assert delivered == expected, changes
        assert len(written(root)) <= 5
        if disk.changes:
            break
        shutil.rmtree(root)
    assert crashes > 40


def test_a_session_writes_a_file_when_it_is_drained_stopped_or_its_query_dropped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(
            f"CREATE STREAM s (n BIGINT) FROM MEMORY;"
            f"CREATE QUERY a AS SELECT n FROM s INTO FILES (path '{out}/a', roll_interval '1 hour');"
            f"CREATE QUERY b AS SELECT n FROM s INTO FILES (path '{out}/b', roll_bytes '1 MB', format 'json')"
        )
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        for n in range(3):
            session.push("s", [{"n": n}])
            assert deployment.step()
        assert not list(out.rglob("part-*"))
        session.execute("DROP QUERY b")
        assert deployment.step()
        assert [path.read_text() for path in (out / "b").iterdir()] == ['{"n":0}\n{"n":1}\n{"n":2}\n']
    assert len(list((out / "a").iterdir())) == 1
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.push("s", [{"n": 3}])
        session.drain(60)
        assert pl.read_parquet(out / "a" / "*.parquet")["n"].sort().to_list() == [0, 1, 2, 3]
    assert len(list((out / "a").iterdir())) == 2


def test_a_full_disk_is_a_fault(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "sinks").write_text("a file where a directory should be")
    with pytest.raises(HeadraceError, match="cannot be written"):
        rolling.write(0, [page(1)])


def test_a_changed_bit_of_what_waits_is_a_fault(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    rolling.write(0, [page(*range(100))])
    (waiting,) = rolling.directory.glob("0*.arrow")
    data = bytearray(waiting.read_bytes())
    data[len(data) // 2] ^= 1
    waiting.write_bytes(data)
    with pytest.raises(HostFault, match=r"000000000000-00000\.arrow is damaged: its checksum is wrong"):
        rolling.close()


def test_a_file_of_several_batches_is_no_part_of_the_first(tmp_path: Path) -> None:
    rolling = sink(tmp_path)
    rolling.write(0, [page(1)])
    rolling.write(1, [page(2)])
    rolling.close()
    FilesSink("q", Connector("FILES", {"path": str(tmp_path / "out")}), SCHEMA, tmp_path / "other").write(0, [page(3)])
    assert len(written(tmp_path)) == 2
