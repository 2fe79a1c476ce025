from pathlib import Path

import polars as pl
import pytest

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.connector import Source
from headrace.connectors.spool import ExchangeSource, Spool, Spooled, exchange_spool, spool_source, stream_spool
from headrace.errors import HostFault, SourceFault
from headrace.model.schema import Schema
from headrace.model.types import Type

STREAM = Stream("s", Schema.of(id=Type.INT, name=Type.STRING), Connector("SYSTEM", {}), Timing.INTERNAL)


def rows(*ids: int) -> pl.DataFrame:
    return pl.DataFrame({"id": ids, "name": [str(number) for number in ids]}, schema=STREAM.schema.polars())


def read(source: Source, start: int | None, end: int | None, columns: tuple[str, ...] | None = None) -> list[int]:
    pieces = [piece for split in source.splits(start, end, parallel=2) for piece in source.read(split, columns)]
    return [number for piece in pieces for number in piece.rows["id"]]


def test_a_micro_batch_that_is_delivered_again_replaces_its_rows(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.put(7, rows(1, 2))
    spool.put(7, rows(1, 2))
    assert spool.files() == [Spooled(7, 2)]
    spool.put(7, rows(3))
    assert spool.files() == [Spooled(7, 1)]
    assert spool.read(Spooled(7, 1))["id"].to_list() == [3]
    spool.put(7, rows())
    assert spool.files() == []


def test_files_are_found_by_number_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in (3, 1, 2):
        spool.put(number, rows(number))
    (tmp_path / ".000000000009-1.arrow.77.tmp").touch()
    assert [file.number for file in spool.files()] == [1, 2, 3]
    assert [file.number for file in spool.files(2)] == [2, 3]
    assert [file.number for file in spool.files(1, 3)] == [1, 2]


def test_a_stream_is_read_by_whole_files_up_to_the_limit(tmp_path: Path) -> None:
    source = spool_source(STREAM, tmp_path)
    assert source.latest(None, now=0, limit=3) is None
    for number in (4, 5, 6):
        stream_spool("s", tmp_path).put(number, rows(number * 10, number * 10 + 1))
    assert source.latest(None, now=0, limit=1) == 5
    assert source.latest(None, now=0, limit=4) == 6
    assert source.latest(6, now=0, limit=4) == 7
    assert read(source, 5, 7) == [50, 51, 60, 61]
    assert not source.finished(6)
    assert source.finished(7)


def test_sequence_numbers_ascend_over_files(tmp_path: Path) -> None:
    source = spool_source(STREAM, tmp_path)
    spool = stream_spool("s", tmp_path)
    spool.append(rows(1, 2))
    spool.append(rows(3))
    pieces = [piece for split in source.splits(None, 2, parallel=1) for piece in source.read(split)]
    numbers = [number for piece in pieces for number in piece.seq]
    assert numbers == sorted(set(numbers))


def test_only_the_columns_that_are_needed_are_handed_on(tmp_path: Path) -> None:
    stream_spool("s", tmp_path).append(rows(1, 2))
    source = spool_source(STREAM, tmp_path)
    (split,) = source.splits(None, 1, parallel=1)
    assert [piece.rows.columns for piece in source.read(split, ("id",))] == [["id"]]
    assert [(piece.rows.width, len(piece.seq)) for piece in source.read(split, ())] == [(0, 2)]


def test_the_file_of_another_stream_of_that_name_is_refused(tmp_path: Path) -> None:
    stream_spool("s", tmp_path).append(pl.DataFrame({"other": [1]}))
    source = spool_source(STREAM, tmp_path)
    (split,) = source.splits(None, 1, parallel=1)
    with pytest.raises(SourceFault, match="no column 'id'"):
        list(source.read(split))


def test_an_exchange_is_read_whole_and_leaves_nothing(tmp_path: Path) -> None:
    spool = exchange_spool("panes-1", tmp_path)
    source = ExchangeSource(spool)
    spool.put(3, rows(1, 2))
    spool.put(4, rows(3))
    assert source.latest(None, now=0, limit=1) == 5
    assert read(source, None, 5) == [1, 2, 3]
    source.forget(4)
    assert spool.files() == [Spooled(4, 1)]
    source.forget(5)
    assert not list(spool.directory.iterdir())
    assert source.latest(5, now=0, limit=1) == 5


def test_the_parts_of_a_micro_batch_lie_side_by_side(tmp_path: Path) -> None:
    spool = exchange_spool("panes-1", tmp_path)
    parts = [spool.put_part(3, rows(1, 2)), spool.put_part(3, rows(3), "t4-1"), spool.put_part(3, rows(5), "t11-1")]
    before = {path: path.read_bytes() for path in spool.directory.iterdir()}
    assert spool.put_part(3, rows(3), "t4-1") == parts[1]  # a repeated task
    assert {path: path.read_bytes() for path in spool.directory.iterdir()} == before
    assert [Spooled.named(part.name) for part in parts] == parts
    assert sorted(spool.all()) == sorted(parts)
    assert [spool.read(part)["id"].to_list() for part in parts] == [[1, 2], [3], [5]]


def test_parts_count_once_they_are_listed_and_are_read_in_that_order(tmp_path: Path) -> None:
    spool, source = stream_spool("s", tmp_path), spool_source(STREAM, tmp_path)
    spool.put(3, rows(9))
    parts = [spool.put_part(4, rows(1, 2), "t4-1"), spool.put_part(4, rows(3), "t0-1")]
    spool.put_part(4, rows(7, 8, 9), "t0-2")  # of a lost attempt
    assert source.latest(None, now=0, limit=100) == 4
    spool.put_list(4, parts)
    assert source.latest(None, now=0, limit=100) == 5
    assert source.unread(3) == 4
    assert read(source, None, 5) == [9, 1, 2, 3]
    pieces = [piece for split in source.splits(None, 5, parallel=3) for piece in source.read(split)]
    assert [seq for piece in pieces for seq in piece.seq] == [3 << 32, 4 << 32, (4 << 32) + 1, (4 << 32) + 2]
    assert spool.read(spool.files(4)[0])["id"].to_list() == [1, 2, 3]
    assert len(source.splits(4, 5, parallel=2)) == 2
    assert source.keeps(5)
    source.forget(5)
    assert spool.all() == [Spooled(4, 0)]


def test_a_list_of_parts_that_is_wrong_is_a_fault(tmp_path: Path) -> None:
    spool = stream_spool("s", tmp_path)
    spool.put_list(4, [spool.put_part(4, rows(1, 2), "t4-1")])
    (file,) = spool.files()
    (spool.directory / "000000000004-2-t4-1.arrow").unlink()
    with pytest.raises(SourceFault, match="was deleted before it was read"):
        spool.read(file)
    spool.path(file).write_bytes(b"[]")
    with pytest.raises(HostFault, match="does not list 2 rows"):
        spool.read(file)


def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    spool = stream_spool("s", tmp_path)
    spool.append(pl.DataFrame({"k": [1]}))
    for name in ("notes.arrow", "1-2-3.arrow", "1-2-t3.arrow", "x-1.arrow"):
        (spool.directory / name).write_bytes(b"")
    spool.append(pl.DataFrame({"k": [2]}))
    assert [spool.read(file)["k"].to_list() for file in spool.files()] == [[1], [2]]
