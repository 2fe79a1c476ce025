from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from headrace.errors import SourceFault
from headrace.model.page import Page, Punctuation
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.time import DAY, END, HOUR, MINUTE, SECOND
from headrace.model.types import Type
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row
from headrace.testing.sources import CollectingSink, ScriptedSource
from headrace.testing.streams import Bound, End, Fail, Pause, interleave, page, parse_time, script, stream_from_text

TEXT = """
    ts        id:int  speed:double  name:string  day:date
    1s        1       3.5           'a b'        1970-01-02
    1500ms    2       -             -            -
    -- bound 1s
    -- fail 2
    00:01:00  -       -1            x            1970-01-01
    -- end
"""


def test_text_tables_have_types_nulls_and_marks():
    stream = stream_from_text(TEXT)
    assert stream.schema == Schema.of(id=Type.INT, speed=Type.DOUBLE, name=Type.STRING, day=Type.DATE)
    assert stream.entries == (
        Row(SECOND, {"id": 1, "speed": 3.5, "name": "a b", "day": 1}, 0),
        Row(SECOND * 3 // 2, {"id": 2, "speed": None, "name": None, "day": None}, 1),
        Bound(SECOND),
        Fail(2),
        Row(MINUTE, {"id": None, "speed": -1.0, "name": "x", "day": 0}, 2),
        End(),
    )


def test_elements_are_pages_between_punctuations():
    first, mark, second, end = stream_from_text(TEXT).elements()
    assert isinstance(first, Page)
    assert isinstance(second, Page)
    assert (len(first), mark, len(second), end) == (2, Punctuation(SECOND), 1, Punctuation(END))
    assert first.rows.schema == {
        "id": pl.Int32,
        "speed": pl.Float64,
        "name": pl.String,
        "day": pl.Date,
        TS: pl.Int64,
        SEQ: pl.Int64,
    }
    assert first.rows["day"].to_list() == [dt.date(1970, 1, 2), None]


def test_scripts_name_ports_by_position():
    a, b = "ts x\n1s 1\n-- bound 2s", "ts y\n3s 1"
    assert [port for port, _ in script(a, b)] == [0, 0, 1]
    assert [port for port, _ in interleave(stream_from_text(a).elements(), stream_from_text(b).elements())] == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("-7", -7),
        ("1500ms", 1_500_000),
        ("01:00:00.5", HOUR + SECOND // 2),
        ("1970-01-02T00:00", DAY),
        ("2 h", 2 * HOUR),
    ],
)
def test_times(text, expected):
    assert parse_time(text) == expected


@pytest.mark.parametrize("text", ["id:int\n1", "ts id:int\n1s", "ts id:int\n1s x", "ts id:int\n-- what"])
def test_wrong_tables_are_refused(text):
    with pytest.raises(ValueError, match=r"ts|values|invalid literal|mark"):
        stream_from_text(text)


def test_times_become_columns_of_their_types():
    built = page(Schema.of(t=Type.TIMESTAMP, i=Type.INTERVAL), [Row(1, {"t": SECOND, "i": None})])
    assert built.rows.schema == {"t": pl.Datetime("us"), "i": pl.Duration("us"), TS: pl.Int64}


def test_virtual_clock_moves_only_when_told():
    clock = VirtualClock(5)
    assert (clock.now(), clock.advance(3), clock.now()) == (5, 8, 8)
    clock.sleep_until(20)
    clock.sleep_until(10)
    assert clock.now() == 20
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)


X = Schema.of(x=Type.BIGINT)


def test_scripted_source_pauses_fails_and_ends():
    source = ScriptedSource(X, [[{"x": 1}, {"x": 2}], Pause(), Fail(1), [{"x": 3}], End()])
    first = source.latest(None, now=0, limit=100)
    assert first == 2
    assert source.latest(first, now=0, limit=100) == first  # the pause
    last = source.latest(first, now=0, limit=100)
    assert (last, source.finished(first), source.finished(last)) == (3, False, True)
    (split,) = source.splits(first, last, parallel=2)
    with pytest.raises(SourceFault):
        list(source.read(split))
    (chunk,) = source.read(split)
    assert (chunk.rows["x"].to_list(), chunk.seq.to_list()) == ([3], [2])
    assert source.latest(last, now=0, limit=100) == last


def test_scripted_source_respects_limits_and_splits():
    source = ScriptedSource(X, [[{"x": i} for i in range(5)]])
    assert source.latest(None, now=0, limit=3) == 3
    parts = source.splits(None, 5, parallel=2)
    assert [x for part in parts for chunk in source.read(part) for x in chunk.rows["x"]] == [0, 1, 2, 3, 4]
    assert len(parts) == 2


def test_nothing_follows_the_end():
    with pytest.raises(ValueError, match="End"):
        ScriptedSource(X, [End(), [{"x": 1}]])


def test_a_batch_written_again_replaces_the_first():
    sink = CollectingSink()
    sink.write(0, [page(X, [Row(1, {"x": 1})])])
    sink.write(1, [page(X, [Row(2, {"x": 2})])])
    sink.write(0, [page(X, [Row(1, {"x": 7})])])
    sink.close()
    assert ([row.values["x"] for row in sink.rows], sink.writes, sink.closed) == ([7, 2], 3, True)
