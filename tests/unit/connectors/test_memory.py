import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors import memory
from headrace.connectors.formats.conversion import convert
from headrace.connectors.memory import KeyedPushes, MemorySink, frame_of, push
from headrace.connectors.push_keys import DAY, DeletedNames, mark_of
from headrace.connectors.spool import SpoolSource, spool_source, stream_spool
from headrace.errors import NameFault, SourceFault
from headrace.model.page import page_of
from headrace.model.schema import Schema
from headrace.model.types import Type

SCHEMA = Schema.of(id=Type.INT, at=Type.TIMESTAMP)
STREAM = Stream("m", SCHEMA, Connector("MEMORY", {}), Timing.LATENT)


def read(source: SpoolSource, start: Any, end: Any, parallel: int = 1) -> list[tuple[Any, ...]]:
    source = pickle.loads(pickle.dumps(source))
    rows = []
    for split in json.loads(json.dumps(source.splits(start, end, parallel=parallel))):
        for piece in source.read(split):
            rows += [(seq, *row) for seq, row in zip(piece.seq, piece.rows.iter_rows(), strict=True)]
    return rows


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_pushed_rows_come_once_in_order_however_cut(tmp_path: Path, limit: int) -> None:
    for first in range(0, 12, 3):
        push(STREAM, tmp_path, [{"id": first + i} for i in range(3)])
    offset, rows = None, []
    while not (source := spool_source(STREAM, tmp_path)).finished(offset):
        end = json.loads(json.dumps(source.latest(offset, now=0, limit=limit)))
        rows += read(source, offset, end)
        offset = end
    assert [row[1] for row in rows] == list(range(12))
    assert rows == read(spool_source(STREAM, tmp_path), None, offset, parallel=3)
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    assert spool_source(STREAM, tmp_path).latest(offset, now=0, limit=limit) == offset


def test_forgotten_rows_are_deleted_and_numbers_go_on(tmp_path: Path) -> None:
    push(STREAM, tmp_path, [{"id": 1}])
    push(STREAM, tmp_path, [{"id": 2}])
    source = spool_source(STREAM, tmp_path)
    offset = source.latest(None, now=0, limit=100)
    before = read(source, None, offset)
    source.forget(offset)
    assert stream_spool("m", tmp_path).files() == []
    assert source.latest(offset, now=0, limit=100) == offset
    assert source.finished(offset)
    push(STREAM, tmp_path, [{"id": 3}])
    after = read(source, offset, source.latest(offset, now=0, limit=100))
    assert [row[1] for row in after] == [3]
    assert after[0][0] > before[-1][0]


def test_values_are_taken_as_people_write_them(tmp_path: Path) -> None:
    noon = datetime.datetime.fromisoformat("2026-01-01T12:00:00")
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    rows: list[dict[str, Any]] = [
        {"at": noon},
        {"at": noon.replace(hour=13, tzinfo=berlin)},
        {"at": "2026-01-01T12:00:00Z"},
        {"at": None},
        {"id": 7.0},
    ]
    push(STREAM, tmp_path, rows)
    source = spool_source(STREAM, tmp_path)
    got = read(source, None, source.latest(None, now=0, limit=100))
    assert [row[1:] for row in got] == [(None, noon), (None, noon), (None, noon), (None, None), (7, None)]


@pytest.mark.parametrize("value", ["5", 1.5, 2**40, [1]])
def test_a_pushed_value_that_does_not_fit_names_row_and_column(tmp_path: Path, value: Any) -> None:
    with pytest.raises(SourceFault, match="row 1: column id"):
        push(STREAM, tmp_path, [{"id": 1}, {"id": value}])
    assert spool_source(STREAM, tmp_path).latest(None, now=0, limit=9) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", datetime.timedelta(days=1)),
        ("day", datetime.timedelta(days=1)),
        ("day", b"a"),
        ("day", {"a": 1}),
        ("day", object()),
        ("span", datetime.date(2026, 1, 1)),
    ],
)
def test_a_pushed_value_that_is_no_time_is_refused_at_once(tmp_path: Path, column: str, value: Any) -> None:
    schema = Schema.of(at=Type.TIMESTAMP, day=Type.DATE, span=Type.INTERVAL)
    stream = Stream("m", schema, Connector("MEMORY", {}), Timing.LATENT)
    with pytest.raises(SourceFault, match=f"row 0: column {column}"):
        push(stream, tmp_path, [{column: value}])
    assert spool_source(stream, tmp_path).latest(None, now=0, limit=9) is None


FITTING: list[tuple[Any, list[Any]]] = [
    (
        Type.TIMESTAMP,
        ["2026-01-01T00:00:00Z", "2026-01-01 01:00:00.5", None, "2026-01-01T00:00:00+02:00", "17"],
    ),
    (Type.DATE, ["2026-01-01", None, "1969-12-31"]),
    (Type.INTERVAL, ["1 HOUR", "5", None, "2 minutes"]),
    (Type.BINARY, ["aGVhZA==", "", None]),
    (Type.BOOLEAN, ["true", "FALSE", None]),
    (Type.BIGINT, [1.0, -2.0, None, 2.0**40]),
    (Type.INT, [0.0, None, -7.0]),
]


@pytest.mark.parametrize(("kind", "values"), FITTING, ids=lambda part: getattr(part, "value", ""))
def test_texts_and_floats_become_what_they_become_alone(
    kind: Type, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream("m", Schema.of(v=kind), Connector("MEMORY", {}), Timing.LATENT)
    alone = [frame_of(stream, [{"v": value}])["v"][0] for value in values]
    converted: list[int] = []
    monkeypatch.setattr(memory, "convert", lambda column, to: converted.append(len(column)) or convert(column, to))
    together = frame_of(stream, [{"v": value} for value in values])["v"]
    assert together.to_list() == alone
    assert together.dtype == kind.polars
    assert converted in ([], [len(values)])  # and not value by value


def test_a_text_among_others_that_does_not_fit_is_named_with_its_row() -> None:
    stream = Stream("m", SCHEMA, Connector("MEMORY", {}), Timing.LATENT)
    rows: list[dict[str, Any]] = [{"at": "2026-01-01"}, {"at": None}, {"at": "soon"}, {"at": "later"}]
    with pytest.raises(SourceFault, match="row 2: column at: 'soon' is not a TIMESTAMP"):
        frame_of(stream, rows)


def test_a_pushed_column_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NameFault, match="no column 'idd'") as caught:
        push(STREAM, tmp_path, [{"idd": 1}])
    assert caught.value.hint == "did you mean 'id'?"


def test_a_lost_spool_file_is_a_fault(tmp_path: Path) -> None:
    push(STREAM, tmp_path, [{"id": 1}])
    source = spool_source(STREAM, tmp_path)
    end = source.latest(None, now=0, limit=9)
    next(stream_spool("m", tmp_path).directory.glob("*.arrow")).unlink()
    with pytest.raises(SourceFault, match="was deleted"):
        read(source, None, end)


def test_writing_a_batch_again_replaces_its_results(tmp_path: Path) -> None:
    schema = Schema.of(n=Type.BIGINT)
    sink = MemorySink("q", Connector("MEMORY", {}), schema, tmp_path)
    sink.write(1, [page_of(schema, [{"n": 3}], [0])])
    sink.write(0, [page_of(schema, [{"n": 1}], [0]), page_of(schema, [{"n": 2}], [0])])
    sink.write(1, [page_of(schema, [{"n": 4}], [0])])
    sink.close()
    assert sink.rows() == [{"n": 1}, {"n": 2}, {"n": 4}]


NOW = 1_800_000_000


def keys_of(stream: str, checkpoint: Path) -> list[tuple[str, int]]:
    return [(file.key, file.rows) for file in stream_spool(stream, checkpoint).keyed()]


def test_rows_under_a_key_are_added_once_whoever_asks(tmp_path: Path) -> None:
    pushes = KeyedPushes(tmp_path)
    assert pushes.push(STREAM, [{"id": 1}, {"id": 2}], "a", NOW) is None
    assert pushes.push(STREAM, [{"id": 3}], "a", NOW + 5) == 2
    assert KeyedPushes(tmp_path).push(STREAM, [{"id": 4}], "a", NOW + DAY - 1) == 2  # as after a crash
    assert KeyedPushes(tmp_path).push(STREAM, [{"id": 5}], "b", NOW) is None
    source = spool_source(STREAM, tmp_path)
    assert [row[1] for row in read(source, None, source.latest(None, now=0, limit=100))] == [1, 2, 5]
    assert pushes.push(STREAM, [{"id": 6}], "a", NOW + DAY) is None  # a day later it is another request


def test_a_key_outlives_the_file_of_its_rows(tmp_path: Path) -> None:
    KeyedPushes(tmp_path).push(STREAM, [{"id": 1}], "a", NOW)
    push(STREAM, tmp_path, [{"id": 2}])
    source = spool_source(STREAM, tmp_path)
    end = source.latest(None, now=0, limit=100)
    source.forget(end)
    source.forget(end)
    assert stream_spool("m", tmp_path).files() == []
    pushes = KeyedPushes(tmp_path)
    assert pushes.push(STREAM, [{"id": 3}], "a", NOW + 1) == 1
    assert pushes.push(STREAM, [{"id": 4}], "b", NOW + 1) is None
    after = source.latest(end, now=0, limit=100)
    assert [row[1] for row in read(source, end, after)] == [4]
    source.forget(after)
    assert [mark for mark, _ in keys_of("m", tmp_path)] == [mark_of("a", NOW), mark_of("b", NOW + 1)]


def test_rows_that_are_refused_leave_no_key(tmp_path: Path) -> None:
    pushes = KeyedPushes(tmp_path)
    with pytest.raises(NameFault):
        pushes.push(STREAM, [{"idd": 1}], "a", NOW)
    assert pushes.push(STREAM, [], "a", NOW) is None  # nothing to repeat
    assert keys_of("m", tmp_path) == []


def test_the_oldest_keys_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.push_keys.MOST", 3)
    names = DeletedNames(tmp_path)
    for number in range(20):
        names.add([f"{number:012d}-1-{mark_of(str(number), NOW)}.arrow"])
        assert len(DeletedNames(tmp_path).all()) <= 6
    assert DeletedNames(tmp_path).all()[-1].startswith("000000000019-")
