"""Files that no program should write: a fault names them, or a record is bad, and the process goes on."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.files.source import FilesSource
from headrace.connectors.files.tables import infer_schema
from headrace.connectors.formats import columnar, text
from headrace.connectors.formats.text import Csv, Json, Lines, Parsed, lines_of, parse, parse_each
from headrace.errors import SourceFault
from headrace.model.schema import Field, Schema
from headrace.model.types import Type

SCHEMA = Schema((Field("k", Type.INT), Field("name", Type.STRING)))


def write_arrow(path: Path, *columns: tuple[str, list[object]]) -> None:
    arrays = [pa.array(values) for _, values in columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def test_a_carriage_return_inside_a_line_makes_the_record_bad() -> None:
    parsed = parse_each(lines_of([b"1,a", b'2,"b"x\r,c', b"3,d"]), SCHEMA, Csv(("k", "name"), ",", ""))
    assert parsed.rows["k"].to_list() == [1, 3]
    assert [why for _, why in parsed.bad] == ["a carriage return stands inside the line"]


@pytest.mark.parametrize("wrong", [0, 1, 3, 60])
def test_a_malformed_line_leaves_the_lines_around_it_to_the_reader_of_blocks(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, one_by_one = random.Random(wrong), text._one_by_one
    damaged = [b'{"k": 1', b"[]", b'{"k": "x", "name": "y"}', b'{"k": 1, "name": "\xff"}', b'{"k": 9999999999}']
    for form, good, bad in (
        (Json(), lambda i: b'{"k": %d, "name": "n"}' % i, damaged),
        (Csv(("k", "name")), lambda i: b"%d,n" % i, [b'1,"a', b"1", b"x,y", b"1,\xff"]),
    ):
        records = [good(i) for i in range(3000)]
        for place in draw.sample(range(3000), wrong):
            records[place] = draw.choice(bad)
        lines = lines_of(records)
        each = one_by_one(lines, SCHEMA, form)
        counted: list[int] = []

        def count(part: Lines, schema: Schema, form: Json | Csv, counted: list[int] = counted) -> Parsed:
            counted.append(len(part.starts))
            return one_by_one(part, schema, form)

        monkeypatch.setattr(text, "_one_by_one", count)
        parsed = parse(lines, SCHEMA, form)
        monkeypatch.undo()
        assert parsed.rows.equals(each.rows)
        assert parsed.positions.tolist() == each.positions.tolist()
        assert sorted(parsed.bad) == sorted(each.bad)
        assert len(parsed.bad) == wrong
        if isinstance(form, Json):
            assert sum(counted) == wrong
        assert sum(counted) <= (128 * wrong if wrong < 4 else 3000)


def test_an_arrow_file_with_damaged_texts_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_arrow(path, ("k", [1, 2]), ("name", ["aaaa", "bbbb"]))
    path.write_bytes(path.read_bytes().replace(b"aaaabbbb", b"aaa\xff\xffbbb"))
    with pytest.raises(SourceFault, match=r"a\.arrow cannot be read"):
        list(columnar.read_rows(str(path), "arrow", 0, 2, SCHEMA))


def test_offsets_beyond_the_texts_are_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_arrow(path, ("k", [1, 2]), ("name", ["aaaa", "bbbb"]))
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 4, 8))
    beyond = b"".join(number.to_bytes(4, "little") for number in (0, 4, 1 << 30))
    damaged = path.read_bytes().replace(offsets, beyond)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(SourceFault, match=r"a\.arrow cannot be read"):
        list(columnar.read_rows(str(path), "arrow", 0, 2, SCHEMA))


def test_a_column_that_a_file_has_twice_matters_only_if_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_arrow(path, ("k", [1]), ("name", ["a"]), ("x", [1]), ("x", [2]))
    ((_, rows),) = columnar.read_rows(str(path), "arrow", 0, 1, SCHEMA)
    columnar.check_columns(str(path), "arrow", SCHEMA)
    assert rows.equals(pl.DataFrame({"k": [1], "name": ["a"]}))
    with pytest.raises(SourceFault, match=r"a\.arrow cannot be read.*duplicate"):
        infer_schema(Connector("FILES", {"path": str(path), "format": "arrow"}))


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_a_bad_record_with_a_time_that_python_does_not_have_is_shown(tmp_path: Path, unit: str) -> None:
    rows = pl.DataFrame({"at": [0, 2**60], "k": [1, 2**40], "name": ["a", "b"]}, schema_overrides={"at": pl.Int64})
    rows.with_columns(pl.col("at").cast(pl.Datetime(unit))).write_ipc(tmp_path / "a.arrow")  # type: ignore[arg-type]
    connector = Connector("FILES", {"path": str(tmp_path / "a.arrow"), "format": "arrow"})
    schema = Schema((Field("at", Type.TIMESTAMP), *SCHEMA))
    source = FilesSource(Stream("s", schema, connector, Timing.INTERNAL), tmp_path)
    (split,) = source.splits(None, source.latest(None, now=0, limit=10), parallel=1)
    (piece,) = source.read(split)
    assert piece.rows["k"].to_list() == [1]
    assert piece.bad is not None
    assert str(2**60) in piece.bad["record"][0]


def test_a_name_of_a_column_that_is_no_text_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write_arrow(path, ("k", [1]), ("name", ["a"]), ("others", [1]))
    path.write_bytes(path.read_bytes().replace(b"others", b"o\xff\xffers"))
    with pytest.raises(SourceFault, match=r"a\.arrow cannot be read"):
        columnar.check_columns(str(path), "arrow", SCHEMA)
