import datetime
import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.connector import Skipped
from headrace.connectors.files.source import SHIFT, FilesSource
from headrace.connectors.formats import columnar, text
from headrace.errors import SourceFault
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import Between
from headrace.model.patterns.pattern import pattern
from headrace.model.schema import Schema
from headrace.model.types import DecimalType, Type

SCHEMA = Schema.of(id=Type.INT, at=Type.TIMESTAMP, speed=Type.DOUBLE, name=Type.STRING)
START = datetime.datetime.fromisoformat("2026-01-01")


def stream(path: Path, schema: Schema = SCHEMA, **options: Any) -> Stream:
    return Stream("s", schema, Connector("FILES", {"path": str(path), **options}), Timing.LATENT)


def frame(first: int, count: int) -> pl.DataFrame:
    numbers = range(first, first + count)
    return pl.DataFrame(
        {
            "id": list(numbers),
            "at": [START + datetime.timedelta(seconds=i) for i in numbers],
            "speed": [i / 4 if i % 5 else None for i in numbers],
            "name": [f"n, {i}" for i in numbers],
        },
        schema=SCHEMA.polars(),
    )


def save(path: Path, rows: pl.DataFrame, form: str, at: int) -> None:
    if form == "parquet":
        rows.write_parquet(path, row_group_size=7)
    elif form == "arrow":
        rows.write_ipc(path, record_batch_size=7, compat_level=pl.CompatLevel.oldest())
    elif form == "csv":
        rows.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S")).write_csv(path)
    else:
        rows.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S")).write_ndjson(path)
    os.utime(path, (at, at))


def read(
    source: FilesSource, start: Any, end: Any, parallel: int = 1
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    rows, bad = [], []
    for split in json.loads(json.dumps(source.splits(start, end, parallel=parallel))):
        for piece in pickle.loads(pickle.dumps(source)).read(split):
            assert dict(piece.rows.schema) == SCHEMA.polars()
            assert piece.seq.dtype == pl.Int64
            rows += [(seq, *row) for seq, row in zip(piece.seq, piece.rows.iter_rows(), strict=True)]
            if piece.bad is not None:
                bad += piece.bad.rows()
    return rows, bad


def read_all(source: FilesSource, limit: int, parallel: int = 1) -> list[tuple[Any, ...]]:
    offset, rows = None, []
    while not source.finished(offset):
        end = json.loads(json.dumps(source.latest(offset, now=0, limit=limit)))
        assert end != offset
        rows += read(source, offset, end, parallel)[0]
        offset = end
    return rows


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "json"])
@given(limit=st.integers(1, 60), parallel=st.integers(1, 4), block=st.integers(20, 400))
@settings(deadline=None, max_examples=8)
def test_any_cutting_gives_the_same_rows_in_the_same_order(
    tmp_path_factory: Any, form: str, limit: int, parallel: int, block: int
) -> None:
    home = tmp_path_factory.mktemp("files")
    (home / "in").mkdir()
    for number in range(3):
        save(home / "in" / f"{9 - number}.{form}", frame(20 * number, 20), form, at=1000 + number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.connectors.formats.text.BLOCK", block)
        patch.setattr("headrace.connectors.files.source._LEAST_ROWS", 1)
        patch.setattr("headrace.connectors.files.source._LEAST_BYTES", 1)
        whole = read_all(FilesSource(stream(home / "in", format=form), home / "a"), 1_000_000)
        cut = read_all(FilesSource(stream(home / "in", format=form), home / "b"), limit, parallel)
    assert whole == cut
    assert [row[1:] for row in cut] == frame(0, 60).rows()
    assert [row[0] >> SHIFT for row in cut] == [0] * 20 + [1] * 20 + [2] * 20
    assert [row[0] for row in cut] == sorted({row[0] for row in cut})


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "json"])
def test_a_micro_batch_of_a_big_file_stays_near_the_limit(tmp_path: Path, form: str) -> None:
    save(tmp_path / f"big.{form}", frame(0, 1000), form, at=1000)
    source = FilesSource(stream(tmp_path / f"big.{form}", format=form), tmp_path / "check")
    rows, _ = read(source, None, source.latest(None, now=0, limit=100))
    assert 90 <= len(rows) <= 110


def test_a_huge_row_group_is_cut_too(tmp_path: Path) -> None:
    frame(0, 1000).write_parquet(tmp_path / "big.parquet", row_group_size=1000)
    source = FilesSource(stream(tmp_path / "big.parquet"), tmp_path / "check")
    assert source.latest(None, now=0, limit=100) == [0, 100]
    assert [row[1] for row in read_all(source, 300)] == list(range(1000))


def test_a_restart_continues_with_the_same_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    save(tmp_path / "in" / "b.json", frame(0, 5), "json", at=1000)
    first = FilesSource(stream(tmp_path / "in", format="json"), tmp_path / "check")
    offset = first.latest(None, now=0, limit=100)
    save(tmp_path / "in" / "a.json", frame(5, 5), "json", at=500)  # older, but it came later
    again = FilesSource(stream(tmp_path / "in", format="json"), tmp_path / "check")
    assert not again.finished(offset)
    end = again.latest(offset, now=0, limit=100)
    assert [row[1] for row in read(again, offset, end)[0]] == [5, 6, 7, 8, 9]
    assert [row[1] for row in read(again, None, end)[0]] == list(range(10))
    assert again.latest(end, now=0, limit=100) == end


def test_a_torn_line_of_the_index_is_ignored_and_overwritten(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    save(tmp_path / "in" / "a.json", frame(0, 5), "json", at=1000)
    FilesSource(stream(tmp_path / "in", format="json"), tmp_path / "check").latest(None, now=0, limit=9)
    (log,) = (tmp_path / "check" / "sources" / "s").glob("files-*.jsonl")
    log.write_bytes(log.read_bytes() + b'["/half')
    save(tmp_path / "in" / "b.json", frame(5, 5), "json", at=1001)
    source = FilesSource(stream(tmp_path / "in", format="json"), tmp_path / "check")
    assert [row[1] for row in read(source, None, source.latest(None, now=0, limit=99))[0]] == list(range(10))
    assert [json.loads(line.split("\t")[0])[0][-6:] for line in log.read_text().splitlines()] == ["a.json", "b.json"]


def test_files_still_being_written_do_not_count(tmp_path: Path) -> None:
    for name in (".a.json", "_b.json", "c.json.tmp", "d.part"):
        save(tmp_path / name, frame(0, 5), "json", at=1000)
    (tmp_path / "sub").mkdir()
    source = FilesSource(stream(tmp_path, format="json"), tmp_path / "_check")
    assert source.latest(None, now=0, limit=9) == [0, 0]
    (tmp_path / "d.part").rename(tmp_path / "d.json")
    assert source.latest([0, 0], now=0, limit=9) == [1, 0]


def test_a_glob_and_a_pattern_choose_files(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.txt"):
        save(tmp_path / name, frame(0, 5), "json", at=1000)
    assert FilesSource(stream(tmp_path / "*.json"), tmp_path / "_c1").latest(None, now=0, limit=99) == [2, 0]
    assert FilesSource(stream(tmp_path, format="json", pattern="*.txt"), tmp_path / "_c2").latest(
        None, now=0, limit=99
    ) == [1, 0]


def test_bad_csv_lines_are_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b"name,id,extra,speed,at\r\n"
        b'"a ""b""",1,x,2.5,2026-01-01\r\n'
        b"short,2,x\r\n"
        b"\r\n"
        b"c,three,x,1,2026-01-01T00:00:00Z\r\n"
        b'open,"4,x,1,2026-01-01\r\n'
        b"\xff,5,x,1,2026-01-01\r\n"
        b"e,6,x,,2026-01-01 02:00:00.5+02:00\r\n"
        b"f,7,x,1,yesterday\r\n"
        b"g,99999999999,x,1,1000000"
    )
    source = FilesSource(stream(path), tmp_path / "check")
    source.hurry()  # the last line has no end
    rows, bad = read(source, None, source.latest(None, now=0, limit=99))
    assert [row[1:] for row in rows] == [(1, START, 2.5, 'a "b"'), (6, START.replace(microsecond=500000), None, "e")]
    assert bad == [
        ("short,2,x", "3 fields instead of 5", f"{path}:3"),
        ("c,three,x,1,2026-01-01T00:00:00Z", "column id: 'three' is not an INT", f"{path}:5"),
        ('open,"4,x,1,2026-01-01', "a quote is not closed", f"{path}:6"),
        ("�,5,x,1,2026-01-01", "the line is not UTF-8", f"{path}:7"),
        ("f,7,x,1,yesterday", "column at: 'yesterday' is not a TIMESTAMP", f"{path}:9"),
        ("g,99999999999,x,1,1000000", "column id: '99999999999' is not an INT", f"{path}:10"),
    ]


def test_bad_json_lines_are_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    lines = [
        '{"id": 1, "at": "2026-01-01T00:00:00", "speed": 2, "name": "a", "more": {"x": [1]}}',
        '{"id": "2"}',
        '{"id": 3',
        "",
        '{"at": 1767225600000000}',
        "[4]",
        '{"id": 5.5}',
        '{"name": 6}',
        '{"id": 7} {"id": 8}',
        '{"id": 9, "speed": NaN}',
        '{"id": 3000000000}',
        '{"id": 11, "at": "soon"}',
    ]
    path.write_text("\n".join(lines) + "\n")
    source = FilesSource(stream(path), tmp_path / "check")
    rows, bad = read(source, None, source.latest(None, now=0, limit=99))
    assert [row[1:] for row in rows] == [(1, START, 2.0, "a"), (None, START, None, None)]
    assert [(record, int(origin.rsplit(":", 1)[1])) for record, _, origin in bad] == [
        (lines[i], i + 1) for i in (1, 2, 5, 6, 7, 8, 9, 10, 11)
    ]
    assert all(why for _, why, _ in bad)


@given(
    records=st.lists(
        st.sampled_from(
            [
                '{"id": 1}',
                '{"id": "x"}',
                '{"at": 5}',
                '{"at": "2026-01-01"}',
                "{",
                "",
                " ",
                '{"id":1,"id":2}',
                '{"speed":1e3}',
            ]
        ),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=25)
def test_blocks_do_not_change_what_is_bad(tmp_path_factory: Any, records: list[str]) -> None:
    home = tmp_path_factory.mktemp("json")
    (home / "a.json").write_text("\n".join(records))
    results = []
    for block in (1, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.connectors.formats.text.BLOCK", block)
            source = FilesSource(stream(home / "a.json"), home / f"check{block}")
            results.append(read(source, None, source.latest(None, now=0, limit=1000)))
    assert results[0] == results[1]


def test_a_column_that_does_not_fit_is_bad_by_row_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    at = pl.Series([START] * 3).dt.replace_time_zone("UTC").dt.cast_time_unit("ns")
    pl.DataFrame({"id": [1.0, 1.5, 3.0], "at": at, "speed": [1, 2, 3], "name": ["a", "b", "c"]}).write_parquet(path)
    source = FilesSource(stream(path), tmp_path / "check")
    rows, bad = read(source, None, source.latest(None, now=0, limit=99))
    assert [row[1:] for row in rows] == [(1, START, 1.0, "a"), (3, START, 3.0, "c")]
    assert [(why, origin) for _, why, origin in bad] == [("column id: 1.5 is not an INT", f"{path}:2")]


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_a_missing_column_names_file_and_column(tmp_path: Path, form: str) -> None:
    save(tmp_path / f"a.{form}", frame(0, 3), form, at=1000)
    source = FilesSource(stream(tmp_path / f"a.{form}", Schema.of(id=Type.INT, lane=Type.INT)), tmp_path / "check")
    with pytest.raises(SourceFault, match=rf"a\.{form} has no column 'lane'"):
        read(source, None, source.latest(None, now=0, limit=99))


@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("a.csv.gz", gzip.compress(b"id,at,speed,name\n"), "it is compressed: unpack it"),
        ("a.csv", "id,at,speed,name\n".encode("utf-16"), "write it in UTF-8"),
        ("a.csv", b"id,name\n1,x\n", "its first line names id, name"),
    ],
    ids=["compressed", "other encoding", "other columns"],
)
def test_a_header_that_cannot_be_read_leads_out(tmp_path: Path, name: str, content: bytes, hint: str) -> None:
    (tmp_path / name).write_bytes(content)
    source = FilesSource(stream(tmp_path / name, format="csv"), tmp_path / "check")
    source.hurry()
    with pytest.raises(SourceFault) as fault:
        read(source, None, source.latest(None, now=0, limit=99))
    assert hint in (fault.value.hint or "")
    assert f"--skip-file {tmp_path / name}" in (fault.value.hint or "")


def test_a_column_of_the_wrong_kind_is_a_fault(tmp_path: Path) -> None:
    pl.DataFrame({"id": [[1, 2]]}).write_parquet(tmp_path / "a.parquet")
    source = FilesSource(stream(tmp_path / "a.parquet", Schema.of(id=Type.INT)), tmp_path / "check")
    with pytest.raises(SourceFault, match=r"column 'id' is .*list.* cannot be read as INT"):
        read(source, None, source.latest(None, now=0, limit=99))


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "json"])
def test_only_the_asked_columns_are_read(tmp_path: Path, form: str) -> None:
    save(tmp_path / f"a.{form}", frame(0, 30), form, at=1000)
    source = FilesSource(stream(tmp_path / f"a.{form}"), tmp_path / "check")
    (split,) = source.splits(None, source.latest(None, now=0, limit=99), parallel=1)
    pieces = list(source.read(split, columns=("speed", "id")))
    assert pl.concat([piece.rows for piece in pieces]).equals(frame(0, 30).select("id", "speed"))
    assert sum(len(piece.seq) for piece in source.read(split, columns=())) == 30


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_vanished_or_shortened_file_says_what_to_do(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.{form}"
    save(path, frame(0, 30), form, at=1000)
    source = FilesSource(stream(path), tmp_path / "check")
    splits = source.splits(None, source.latest(None, now=0, limit=99), parallel=1)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(SourceFault, match="bytes when it was listed") as shortened:
        list(source.read(splits[0]))
    assert shortened.value.hint
    path.unlink()
    with pytest.raises(SourceFault, match="was deleted"):
        list(source.read(splits[0]))


def test_a_broken_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not parquet at all")
    os.utime(tmp_path / "a.parquet", (1000, 1000))
    with pytest.raises(SourceFault, match=r"a\.parquet cannot be read"):
        FilesSource(stream(tmp_path / "a.parquet"), tmp_path / "check").latest(None, now=0, limit=9)


def test_work_is_shared_out_evenly(tmp_path: Path) -> None:
    for number in range(4):
        frame(0, 50_000).write_parquet(tmp_path / f"{number}.parquet", row_group_size=10_000)
    source = FilesSource(stream(tmp_path / "*.parquet"), tmp_path / "_check")
    shares = source.splits(None, source.latest(None, now=0, limit=10**9), parallel=4)
    assert [sum(piece[4] - piece[3] for piece in share) for share in shares] == [50_000] * 4


def test_csv_without_header_and_with_other_marks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1;2026-01-01;;-\n2;-;1e3;\n")
    source = FilesSource(stream(tmp_path / "a.csv", header=False, delimiter=";", null_value="-"), tmp_path / "check")
    rows, bad = read(source, None, source.latest(None, now=0, limit=99))
    assert [row[1:] for row in rows] == [(2, None, 1000.0, "")]
    assert [why for _, why, _ in bad] == ["column speed: '' is not a DOUBLE"]


def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100 + b"\n" + b"y" * 50 + b"\nz")
    with open(tmp_path / "a", "rb") as file:
        assert [
            lines.line(i)[:1]
            for lines in text.blocks(file, 0, 153, size=153, block=8)
            for i in range(len(lines.starts))
        ] == [b"x", b"y", b"z"]


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_statistics_tell_the_newest_timestamp_of_whole_groups_of_declared_types(tmp_path: Path, unit: Any) -> None:
    rows = frame(0, 40).with_columns(pl.col("at").cast(pl.Datetime(unit)))
    rows.write_parquet(tmp_path / "a.parquet", row_group_size=10)
    known = Stream("s", SCHEMA, Connector("FILES", {"path": str(tmp_path / "a.parquet")}), Timing.EXTERNAL, "at")
    source = FilesSource(known, tmp_path / "check")
    size = (tmp_path / "a.parquet").stat().st_size
    whole, part = ([[0, str(tmp_path / "a.parquet"), size, *ends]] for ends in ((10, 30), (10, 25)))
    newest = rows[10:30]["at"].cast(pl.Datetime("us")).to_physical().max()
    assert source.newest(whole, None) == (newest if unit == "us" else None), "a conversion may find bad records"
    assert source.newest(part, None) is None


def test_groups_that_are_left_out_count_before_the_rows_that_follow_them(tmp_path: Path) -> None:
    frame(0, 30).write_parquet(tmp_path / "a.parquet", row_group_size=10)
    known = Stream("s", SCHEMA, Connector("FILES", {"path": str(tmp_path / "a.parquet")}), Timing.EXTERNAL, "at")
    source = FilesSource(known, tmp_path / "check")
    (split,) = source.splits(None, source.latest(None, now=0, limit=99), parallel=1)
    middle = pattern((Column("id", Type.INT), Between(10, 19)))
    pieces = list(source.read_without(split, None, [middle]))
    assert [type(piece).__name__ for piece in pieces] == ["Slice", "Skipped", "Slice"]


def long_group(path: Path, rows: int, **columns: Any) -> pl.DataFrame:
    made = pl.DataFrame({"id": pl.int_range(rows, dtype=pl.Int32, eager=True)}).with_columns(**columns)
    made.write_parquet(path, row_group_size=rows)
    return made


@pytest.mark.parametrize(("parallel", "parts"), [(1, [100_000]), (2, [50_000] * 2), (3, [33_334, 33_334, 33_332])])
def test_a_long_parquet_group_is_read_by_several_tasks(tmp_path: Path, parallel: int, parts: list[int]) -> None:
    rows = long_group(tmp_path / "a.parquet", 100_000, name=pl.col("id").cast(pl.String))
    known = stream(tmp_path / "a.parquet", Schema.of(id=Type.INT, name=Type.STRING))
    source = FilesSource(known, tmp_path / "check")
    shares = source.splits(None, source.latest(None, now=0, limit=10**9), parallel=parallel)
    pieces = [list(source.read(share)) for share in shares]
    assert [sum(piece.rows.height for piece in share) for share in pieces] == parts
    read_rows = [piece for share in pieces for piece in share]
    assert pl.concat([piece.rows for piece in read_rows]).equals(rows)
    assert pl.concat([piece.seq for piece in read_rows]).equals(pl.int_range(100_000, eager=True).alias("seq"))


def test_a_parquet_group_that_is_decoded_from_its_start_is_read_by_one_task(tmp_path: Path) -> None:
    long_group(tmp_path / "a.parquet", 100_000, price=pl.lit(1).cast(pl.Decimal(12, 2)))
    known = stream(tmp_path / "a.parquet", Schema.of(id=Type.INT, price=DecimalType(12, 2)))
    source = FilesSource(known, tmp_path / "check")
    assert len(source.splits(None, source.latest(None, now=0, limit=10**9), parallel=2)) == 1


def test_each_part_of_a_group_that_nobody_needs_is_left_out(tmp_path: Path) -> None:
    instant = (pl.lit(1_767_225_600_000_000) + pl.col("id").cast(pl.Int64)).cast(pl.Datetime("us"))
    rows = long_group(tmp_path / "a.parquet", 100_000, at=instant)
    connector = Connector("FILES", {"path": str(tmp_path / "a.parquet")})
    known = Stream("s", Schema.of(id=Type.INT, at=Type.TIMESTAMP), connector, Timing.EXTERNAL, "at")
    source = FilesSource(known, tmp_path / "check")
    shares = source.splits(None, source.latest(None, now=0, limit=10**9), parallel=2)
    unneeded = pattern((Column("id", Type.INT), Between(0, 100_000)))
    (first,), (second,) = (list(source.read_without(share, None, [unneeded])) for share in shares)
    assert isinstance(first, Skipped)
    assert isinstance(second, Skipped)
    assert (first.records, second.records) == (50_000, 50_000)
    assert (first.newest, second.newest) == (None, rows["at"].to_physical().max()), "the last row may be the newest"


def test_a_group_is_cut_if_its_parts_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = long_group(tmp_path / "a.parquet", 100_000, name=pl.col("id").cast(pl.String))
    size = pq.read_metadata(tmp_path / "a.parquet").row_group(0).total_byte_size
    known = stream(tmp_path / "a.parquet", Schema.of(id=Type.INT, name=Type.STRING))
    source = FilesSource(known, tmp_path / "check")
    end = source.latest(None, now=0, limit=10**9)
    for share, parts in ((0.6, 2), (0.2, 2), (0.1, 1)):  # parts of 0.5 are read at once, in three steps, by Arrow
        monkeypatch.setattr(columnar, "_LARGEST", size * share)
        splits = source.splits(None, end, parallel=2)
        assert len(splits) == parts
        assert pl.concat([piece.rows for split in splits for piece in source.read(split)]).equals(rows)


def test_a_border_of_groups_is_no_cut_if_one_task_would_read_much_more(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": pl.int_range(184_000, dtype=pl.Int32, eager=True)})
    known = stream(tmp_path / "a.parquet", Schema.of(id=Type.INT))
    for group, cut in ((104_000, 92_000), (95_000, 95_000)):
        rows.write_parquet(tmp_path / "a.parquet", row_group_size=group)
        source = FilesSource(known, tmp_path / f"check-{group}")
        splits = source.splits(None, source.latest(None, now=0, limit=10**9), parallel=2)
        assert [split[0][-2:] for split in splits] == [[0, cut], [cut, 184_000]]
        assert pl.concat([piece.rows for split in splits for piece in source.read(split)]).equals(rows)


def test_a_large_group_is_read_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = long_group(tmp_path / "a.parquet", 10_000, name=pl.col("id").cast(pl.String))
    monkeypatch.setattr(columnar, "PIECE", 3_000)
    size = pq.read_metadata(tmp_path / "a.parquet").row_group(0).total_byte_size
    schema = Schema.of(id=Type.INT, name=Type.STRING)
    for share, heights in (
        (1.0, [3_000, 3_000, 3_000, 1_000]),
        (0.5, [3_000, 2_000, 3_000, 2_000]),
        (0.2, [3_000, 3_000, 3_000, 1_000]),  # by Arrow
    ):
        monkeypatch.setattr(columnar, "_LARGEST", size * share)
        pieces = list(columnar.read_rows(str(tmp_path / "a.parquet"), "parquet", 0, 10_000, schema))
        assert [frame.height for _, frame in pieces] == heights
        assert [place for place, _ in pieces] == [sum(heights[:i]) for i in range(len(heights))]
        assert pl.concat([frame for _, frame in pieces]).equals(rows)


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "json"])
@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_a_file_that_cannot_be_read_is_left_out_by_a_repair(tmp_path: Path, form: str, how: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        save(tmp_path / "in" / f"{number}.{form}", frame(20 * number, 20), form, at=1000 + number)
    where = stream(tmp_path / "in", format=form)
    source = FilesSource(where, tmp_path)
    middle = source.latest(source.latest(None, now=0, limit=20), now=0, limit=7)  # within the second file
    end = source.latest(middle, now=0, limit=1000)
    bad = tmp_path / "in" / f"1.{form}"
    if how == "deleted":
        bad.unlink()
    else:
        bad.write_bytes(b"PAR1")
    with pytest.raises(SourceFault):
        read(FilesSource(where, tmp_path), middle, end)

    assert not FilesSource(where, tmp_path).leave_out(str(tmp_path / "in" / "other"))
    assert FilesSource(where, tmp_path).leave_out(str(bad))
    source = FilesSource(where, tmp_path)
    assert source.unread(middle) >= 0
    first, last = list(range(20)), list(range(40, 60))
    for start, portions, expected in (  # micro-batches as they were planned before the repair
        (None, [end], first + last),
        (middle, [end], last),
        (None, [middle, end], first + last),
    ):
        rows, failed = [], []
        for until in portions:
            good, wrong = read(source, start, until, parallel=2)
            rows, failed, start = rows + good, failed + wrong, until
        assert [row[1] for row in rows] == expected
        assert [(reason, origin) for _, reason, origin in failed] == [
            ("the file could not be read, and was left out by headrace repair", str(bad))
        ]
    assert [row[1] for row in read_all(FilesSource(where, tmp_path), 9)] == first + last
