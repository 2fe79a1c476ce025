"""What of a topic is read, in which ranges, and what is left out: without a broker."""

from __future__ import annotations

import io
import itertools
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors import SOURCES
from headrace.connectors.connector import Skipped, SkippingSource, Slice
from headrace.connectors.kafka.client import Asked, Place, Records
from headrace.connectors.kafka.keys import homes, murmur2
from headrace.connectors.kafka.limit import cut
from headrace.connectors.kafka.source import KafkaSource, check_kafka
from headrace.connectors.kinds import check_sink, check_source
from headrace.errors import HostFault, NameFault, QueryError, SourceFault, TypeFault
from headrace.extras import install_command
from headrace.hosts.local import LocalDeployment
from headrace.model.expressions.expression import Column
from headrace.model.option import Option
from headrace.model.patterns.match import Between, at_least, at_most, equal, less, more, unequal
from headrace.model.patterns.pattern import STAMP, Pattern, pattern
from headrace.model.schema import Field, Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.rows import Row, split_late

SCHEMA = Schema((Field("at", Type.TIMESTAMP), Field("segment", Type.INT), Field("speed", Type.DOUBLE)))
SEGMENT = Column("segment", Type.INT)


@dataclass
class FakeTopic:
    """A topic in memory: records are (key, value, stamp) by partition."""

    records: list[list[tuple[bytes | None, bytes | None, int]]]
    lowest: list[int] = field(default_factory=list)
    reads: list[tuple[int, int, int]] = field(default_factory=list)
    asked: int = 0

    def partitions(self) -> int:
        return len(self.records)

    def offsets(self, asked: Asked, partitions: Sequence[int]) -> list[int | None]:
        self.asked += 1
        return [self._offset(asked, partition) for partition in partitions]

    def _offset(self, asked: Asked, partition: int) -> int | None:
        if asked == "earliest":
            return self.lowest[partition] if self.lowest else 0
        if asked == "latest":
            return len(self.records[partition])
        return next((at for at, record in enumerate(self.records[partition]) if record[2] >= asked), None)

    def newest(self, partitions: Sequence[int]) -> list[int | None]:
        return [max((record[2] for record in self.records[partition]), default=None) for partition in partitions]

    def read(self, partition: int, begin: int, end: int, *, stamps: bool, keys: bool) -> Iterator[Records]:
        self.reads.append((partition, begin, end))
        for low in range(begin, end, 7):
            some = self.records[partition][low : min(end, low + 7)]
            yield Records(
                np.arange(low, low + len(some)),
                np.array([one[2] for one in some] if stamps else [], dtype=np.int64),
                [one[0] for one in some] if keys else [],
                [one[1] for one in some],
            )


def make(
    there: FakeTopic, *, timing: Timing = Timing.EXTERNAL, skew: int = 0, schema: Schema = SCHEMA, **options: str
) -> KafkaSource:
    chosen: dict[str, Option] = {"bootstrap": "here:9092", "topic": "t", "format": "json", **options}
    stream = Stream(
        "probes", schema, Connector("KAFKA", chosen), timing, "at" if timing is Timing.EXTERNAL else None, skew
    )
    return KafkaSource(stream, Path(), connect=lambda _: there)


def keyed(count: int, *, partitions: int = 4, segments: int = 10, apart: int = 100) -> FakeTopic:
    """Records of segments in turn, each where its key belongs."""
    topic = FakeTopic([[] for _ in range(partitions)])
    for i in range(count):
        add(topic, i % segments, i * apart)
    return topic


def add(topic: FakeTopic, segment: int, stamp: int) -> None:
    key = str(segment).encode()
    topic.records[murmur2(key) % len(topic.records)].append(
        (key, json.dumps({"segment": segment, "speed": 1.0}).encode(), stamp)
    )


def all_of(pieces: Iterator[Slice | Skipped]) -> tuple[pl.DataFrame, list[Any], list[Skipped]]:
    rows, bad, skipped = [], [], []
    for piece in pieces:
        if isinstance(piece, Skipped):
            skipped.append(piece)
        else:
            assert piece.rows.height == len(piece.seq)
            rows.append(piece.rows.with_columns(piece.seq))
            bad += [] if piece.bad is None else piece.bad.rows()
    return pl.concat(rows) if rows else pl.DataFrame(), bad, skipped


def test_keys_are_where_kafkas_own_clients_put_them() -> None:
    # computed with the murmur2 partitioner of Kafka's clients
    assert [murmur2(str(segment).encode()) % 4 for segment in range(10)] == [0, 3, 0, 3, 1, 2, 2, 3, 3, 3]
    assert homes("3", [4, 5]) == {3, murmur2(b"3") % 5}


def test_the_first_offset_settles_where_to_begin_and_reads_nothing() -> None:
    topic = FakeTopic([[(None, b"{}", 0)] * 5, [(None, b"{}", 0)] * 3], lowest=[2, 0])
    early, late = make(topic), make(topic, start="latest")
    assert early.latest(None, now=0, limit=100) == {"from": [2, 0], "at": [2, 0]}
    assert late.latest(None, now=0, limit=100) == {"from": [5, 3], "at": [5, 3]}
    assert early.splits(None, {"from": [2, 0], "at": [2, 0]}, parallel=2) == []
    assert not early.finished({"from": [2, 0], "at": [2, 0]})
    assert late.finished({"from": [5, 3], "at": [5, 3]})


def test_new_records_and_new_partitions_are_found_and_each_record_is_read_once() -> None:
    topic = keyed(40)
    source = make(topic)
    offsets = [source.latest(None, now=0, limit=100)]
    offsets.append(source.latest(offsets[-1], now=0, limit=100))
    assert source.latest(offsets[-1], now=0, limit=100) == offsets[-1]
    topic.records.append([(b"x", b'{"segment": 77}', 9)])
    assert not source.finished(source.latest(offsets[0], now=0, limit=0))
    offsets.append(source.latest(offsets[-1], now=0, limit=100))
    assert source.finished(offsets[-1])
    splits = [split for start, end in itertools.pairwise(offsets) for split in source.splits(start, end, parallel=2)]
    rows = pl.concat([all_of(source.read(split))[0] for split in splits])
    assert sorted(rows["segment"]) == sorted([i % 10 for i in range(40)] + [77])
    assert rows["seq"].is_unique().all()


def test_large_ranges_are_divided() -> None:
    topic = FakeTopic([[(None, b"{}", 0)] * 50_000])
    source = make(topic)
    end = {"from": [0], "at": [50_000]}
    splits = source.splits({"from": [0], "at": [0]}, end, parallel=4)
    assert [(split[1], split[2]) for split in splits] == [
        (0, 12_500),
        (12_500, 25_000),
        (25_000, 37_500),
        (37_500, 50_000),
    ]


def test_a_limit_stops_all_partitions_at_the_same_time() -> None:
    topic = keyed(1000)
    source = make(topic)
    at = source.latest(None, now=0, limit=100)
    while not source.finished(at):
        before, at = at, source.latest(at, now=0, limit=100)
        assert 0 < sum(at["at"]) - sum(before["at"]) <= 100
        read = [topic.records[p][at["at"][p] - 1][2] for p in range(4) if at["at"][p] < len(topic.records[p])]
        left = [topic.records[p][at["at"][p]][2] for p in range(4) if at["at"][p] < len(topic.records[p])]
        assert max(read, default=0) <= min(left, default=0), "what is left is not older than what was read"


@given(st.lists(st.lists(st.integers(0, 50), max_size=60), min_size=1, max_size=4), st.integers(1, 40), st.booleans())
def test_a_cut_goes_on_and_keeps_the_limit_whatever_the_stamps(stamps: list[list[int]], limit: int, sort: bool) -> None:
    stamps = [sorted(each) if sort else each for each in stamps]
    ends = [len(each) for each in stamps]

    def at(moment: int) -> list[int]:
        return [next((i for i, stamp in enumerate(each) if stamp >= moment), len(each)) for each in stamps]

    newest = max((max(each) for each in stamps if each), default=0)
    found, moment = cut([0] * len(ends), ends, [True] * len(ends), limit, at, newest)
    assert all(0 <= stop <= end for stop, end in zip(found, ends, strict=True))
    assert sum(found) <= limit + len(ends)
    assert sum(found) >= min(sum(ends), max(1, limit // 2))
    assert all(before <= stop for before, stop in zip(at(moment), found, strict=True)) or found == ends
    again, _ = cut(found, ends, [True] * len(ends), limit, at, newest, moment)
    assert all(before <= stop <= end for before, stop, end in zip(found, again, ends, strict=True))
    assert min(sum(ends), sum(found) + max(1, limit // 2)) <= sum(again) <= sum(found) + limit + len(ends)


@given(st.integers(1, 60_000), st.floats(0.05, 1), st.integers(0, 2**32))
def test_a_long_topic_is_cut_with_few_requests(apart: int, evenness: float, seed: int) -> None:
    gaps = np.random.default_rng(seed).gamma(evenness, apart / evenness, 20_000)
    stamps = 1_750_000_000_000 + np.cumsum(gaps).astype(np.int64)
    at, moment, requests = 0, 0, []
    while at < len(stamps):
        asked = 0

        def offsets(moment: int) -> list[int]:
            nonlocal asked
            asked += 1
            return [int(np.searchsorted(stamps, moment))]

        before = at
        (at,), moment = cut([at], [len(stamps)], [True], 4_000, offsets, int(stamps[-1]), moment)
        requests.append(asked)
        assert at == len(stamps) or at - before > 3_000
    assert requests[0] <= 30, "of a topic that nobody has read"
    assert max(requests[1:]) <= 12, "of one that was cut before"


def test_a_stream_may_have_a_limit_of_its_own() -> None:
    source = make(keyed(1000), max_rows="40")
    start = source.latest(None, now=0, limit=100)
    assert 20 <= sum(source.latest(start, now=0, limit=100)["at"]) <= 44
    assert sum(source.latest(start, now=0, limit=10)["at"]) <= 14


def test_less_than_was_read_means_another_topic() -> None:
    source = make(keyed(10))
    with pytest.raises(SourceFault, match="end offset is below") as caught:
        source.latest({"from": [0] * 4, "at": [50, 0, 0, 0]}, now=0, limit=10)
    assert "new checkpoint" in str(caught.value.hint)


def test_bad_records_are_set_aside_with_their_place() -> None:
    values: list[bytes | None] = [
        b'{"segment": 1}',
        b"{oops",
        None,
        b"",
        b'{"segment":\n 2}',
        b'{"segment": 1}\n{"segment": 2}',
        b'{"segment": "x"}',
    ]
    topic = FakeTopic([[(None, value, 5) for value in values]])
    source = make(topic, record_time="at")
    rows, bad, _ = all_of(source.read([0, 0, len(values), 0, 0, 1, 1]))
    assert rows["segment"].to_list() == [1, 2]
    assert rows["at"].dt.timestamp("ms").to_list() == [5, 5]
    assert [origin for _, _, origin in bad] == [f"t:0:{i}" for i in (1, 2, 3, 5, 6)]
    assert bad[1][1] == "the record has no value"


def test_lines_of_csv_have_no_time_if_the_record_has() -> None:
    topic = FakeTopic([[(None, value, 7) for value in (b"3;1.5", b"4;-\n", b"5", b"6;2\n7;3")]])
    source = make(topic, format="csv", delimiter=";", null_value="-", record_time="at")
    rows, bad, _ = all_of(source.read([0, 0, 4, 0, 0, 1, 1]))
    assert rows.select("segment", "speed").rows() == [(3, 1.5), (4, None)]
    assert [(record, why) for record, why, _ in bad] == [
        ("5", "1 fields instead of 2"),
        ("6;2\n7;3", "a record of CSV is one line"),
    ]


def test_a_record_may_be_a_table() -> None:
    def table(**columns: list[Any]) -> bytes:
        file = io.BytesIO()
        pl.DataFrame(columns).write_ipc_stream(file)
        return file.getvalue()

    values = [
        table(segment=[1, 2], speed=[1.0, 2.0]),
        b"no table",
        table(segment=[3]),
        table(segment=[4, 2**40], speed=[1.0, 1.0]),
    ]
    topic = FakeTopic([[(None, value, 7) for value in values]])
    rows, bad, _ = all_of(
        make(topic, format="arrow", record_time="at").read([0, 0, 4, 0, 0, 1, 1], ("at", "segment", "speed"))
    )
    assert rows.select("segment", "speed").rows() == [(1, 1.0), (2, 2.0)]
    assert rows["seq"].to_list() == [0, 1]
    assert len(bad) == 3


def test_columns_that_nobody_wants_are_not_returned() -> None:
    source = make(keyed(10), timing=Timing.INTERNAL, key="segment")
    rows, bad, _ = all_of(source.read([3, 0, 5, 0, 0, 4, 4], ("speed",)))
    assert rows.columns == ["speed", "seq"]
    assert not bad


def test_a_record_that_is_not_where_its_key_belongs_is_bad() -> None:
    topic = FakeTopic([[] for _ in range(4)])
    add(topic, 3, 1)
    topic.records[3] += [(b"3", b'{"segment": 7}', 1), (None, b"{}", 1), (b"4", b'{"segment": 4}', 1)]
    rows, bad, _ = all_of(make(topic, key="segment", record_time="at").read([3, 0, 4, 0, 0, 4, 4]))
    assert rows["segment"].to_list() == [3]
    assert [why for _, why, _ in bad] == [
        "its key is '3', but segment is 7",
        "its key is missing, but segment is None",
        "its key '4' does not belong into partition 3 of 4 (murmur2)",
    ]


def test_a_key_that_is_no_text_is_a_bad_record_and_the_others_are_read() -> None:
    topic = FakeTopic([[]])
    add(topic, 3, 1)
    topic.records[0] += [(b"\x80\xff", b'{"segment": 4}', 1), (b"5", b'{"segment": 5}', 1)]
    rows, bad, _ = all_of(make(topic, key="segment", record_time="at").read([0, 0, 3, 0, 0, 1, 1]))
    assert rows["segment"].to_list() == [3, 5]
    assert [why for _, why, _ in bad] == ["its key is '\ufffd\ufffd', but segment is 4"]


@pytest.mark.parametrize(("start", "expected"), [("earliest", [0, 0]), ("latest", [3, 1]), ("1970-01-01", [0, 0])])
def test_a_stream_begins_where_it_is_told(start: str, expected: list[int]) -> None:
    topic = FakeTopic([[(b"1", b"{}", 1000), (b"1", b"{}", 2000), (b"1", b"{}", 3000)], [(b"2", b"{}", 500)]])
    assert make(topic, start=start).latest(None, now=0, limit=9) == {"from": expected, "at": expected}


def test_a_stream_begins_at_the_first_record_of_a_time_in_each_partition() -> None:
    topic = FakeTopic([[(b"1", b"{}", 1000), (b"1", b"{}", 2000), (b"1", b"{}", 3000)], [(b"2", b"{}", 500)]])
    source = make(topic, start="1970-01-01 00:00:01.5")
    assert source.latest(None, now=0, limit=9) == {"from": [1, 1], "at": [1, 1]}
    with pytest.raises(NameFault, match="cannot start at 'soon'"):
        make(topic, start="soon")


@pytest.mark.parametrize("start", ["1969-12-31 23:59:59.999", "0001-01-01"])
def test_a_time_before_1970_is_the_beginning(start: str) -> None:
    questions: list[Asked] = []

    class Noting(FakeTopic):
        def offsets(self, asked: Asked, partitions: Sequence[int]) -> list[int | None]:
            questions.append(asked)
            return super().offsets(asked, partitions)

    source = make(Noting([[(b"1", b"{}", 1000), (b"1", b"{}", 2000)]]), start=start)
    assert source.latest(None, now=0, limit=9) == {"from": [0], "at": [0]}
    assert questions == ["latest", 0]


def test_the_place_of_a_record_is_in_columns_of_its_own() -> None:
    schema = Schema((*SCHEMA, Field("p", Type.INT), Field("o", Type.BIGINT)))
    topic = FakeTopic([[], [(b"1", b'{"segment": 1, "p": 9, "o": 9}', 5), (b"1", b"rubbish", 6), (b"2", b"{}", 7)]])
    source = make(topic, schema=schema, record_time="at", record_partition="p", record_offset="o")
    rows, bad, _ = all_of(source.read([1, 0, 3, 0, 0, 2, 2]))
    assert rows.select("segment", "p", "o").rows() == [(1, 1, 0), (None, 1, 2)]
    assert rows.schema["p"] == pl.Int32
    assert len(bad) == 1
    assert all_of(source.read([1, 0, 3, 0, 0, 2, 2], ("o",)))[0]["o"].to_list() == [0, 2]


UNTIMED = {"timing": Timing.INTERNAL, "key": "segment"}


@pytest.mark.parametrize(
    ("unneeded", "left"),
    [
        ([pattern((SEGMENT, unequal(4)))], {1}),
        ([pattern((SEGMENT, unequal(4, 5)))], {1, 2}),
        ([pattern((SEGMENT, unequal(4, 5))), pattern((SEGMENT, equal(5)))], {1}),
        ([pattern((SEGMENT, less(4))), pattern((SEGMENT, more(6)))], {1, 2}),
        ([pattern((SEGMENT, at_most(4))), pattern((SEGMENT, at_least(6)))], {2}),
        ([pattern((SEGMENT, less(4)))], {0, 1, 2, 3}),
        ([pattern((SEGMENT, equal(4)))], {0, 1, 2, 3}),
        ([pattern((SEGMENT, unequal(4)), (Column("speed", Type.DOUBLE), more(3.0)))], {0, 1, 2, 3}),
        ([pattern((SEGMENT, unequal(4)), (STAMP, less(10)))], {0, 1, 2, 3}),
        ([Pattern()], set()),
    ],
)
def test_partitions_of_keys_that_nobody_needs_are_not_read(unneeded: list[Pattern], left: set[int]) -> None:
    topic = keyed(100)
    source = make(topic, **UNTIMED)  # type: ignore[arg-type]
    assert isinstance(source, SkippingSource)
    start = source.latest(None, now=0, limit=10)
    end = source.latest(start, now=0, limit=1000)
    found = [all_of(source.read_without(split, None, unneeded)) for split in source.splits(start, end, parallel=4)]
    assert {partition for partition, _, _ in topic.reads} == left
    skipped = sum(each.records for _, _, all_skipped in found for each in all_skipped)
    assert skipped == sum(len(records) for partition, records in enumerate(topic.records) if partition not in left)


def test_a_topic_that_grew_may_have_a_key_in_two_places() -> None:
    topic = keyed(100)
    source = make(topic, **UNTIMED)  # type: ignore[arg-type]
    start = source.latest(None, now=0, limit=10)
    topic.records.append([])
    for i in range(100):
        add(topic, i % 10, 10_000 + i)
    end = source.latest(start, now=0, limit=10_000)
    for split in source.splits(start, end, parallel=4):
        rows, bad, _ = all_of(source.read_without(split, None, [pattern((SEGMENT, unequal(4)))]))
        assert not bad
        assert rows.is_empty() or 4 in rows["segment"]
    assert {partition for partition, _, _ in topic.reads} == {murmur2(b"4") % 4, murmur2(b"4") % 5}


def test_time_in_the_value_must_be_read() -> None:
    topic = keyed(100)
    source = make(topic, key="segment")
    split = source.splits({"from": [0] * 4, "at": [0] * 4}, {"from": [0] * 4, "at": [20, 10, 20, 50]}, parallel=4)[0]
    assert not all_of(source.read_without(split, None, [pattern((SEGMENT, unequal(4)))]))[2]


def test_unread_offsets_are_those_up_to_the_ends_of_all_partitions() -> None:
    topic = keyed(100)
    source = make(topic, key="segment")
    at = source.latest(source.latest(None, now=0, limit=1), now=0, limit=1000)
    assert source.unread({"from": [0] * 4, "at": [0, 0]}) == 100
    assert source.unread({"from": [0] * 4, "at": [1, 2, 3, 4]}) == 90
    assert source.unread(at) == 0


SECOND = 1_000_000


@pytest.mark.parametrize(
    ("low", "high", "is_left_out"),
    [
        (None, 20 * SECOND, True),
        (None, 19 * SECOND, False),
        (8 * SECOND + 200_000, None, True),
        (8 * SECOND + 200_001, None, False),
        (5 * SECOND, 20 * SECOND, True),
    ],
)
def test_an_assumption_about_a_stretch_of_time_holds_only_for_records_that_lie_within(
    low: int | None, high: int | None, is_left_out: bool
) -> None:
    # 1, 3, 7, 8 and 9 are in partition 3; half of its 100 records were read before, up to 9.9 s, and the others are up
    # to 19.9 s
    topic = keyed(200)
    source = make(topic, key="segment", record_time="at", skew=1_700_000)
    start, end = {"from": [0] * 4, "at": [20, 10, 20, 50]}, {"from": [0] * 4, "at": [40, 20, 40, 100]}
    unneeded = [pattern((SEGMENT, unequal(4)), (STAMP, Between(low, high, open_high=True)))]
    split = next(split for split in source.splits(start, end, parallel=4) if split[0] == 3)
    skipped = all_of(source.read_without(split, None, unneeded))[2]
    assert bool(skipped) is is_left_out
    assert skipped in ([], [Skipped(50, 0, 19_900_000)])


@pytest.mark.parametrize("end", range(51, 60))
def test_time_goes_on_as_far_as_what_is_left_out(end: int) -> None:
    topic = keyed(200)
    source = make(topic, key="segment", record_time="at")
    split = [3, 50, end, 50, 0, 4, 4]
    (skipped,) = all_of(source.read_without(split, None, [pattern((SEGMENT, unequal(4)))]))[2]
    assert skipped == Skipped(end - 50, 0, max(record[2] for record in topic.records[3][:end]) * 1000)


def test_time_from_before_the_stream_began_does_not_count() -> None:
    topic = keyed(100)
    key = b"3"
    topic.records[3] = [(key, b"{}", 99_999), *topic.records[3]]
    source = make(topic, key="segment", record_time="at", start="latest")
    split = [3, 20, 30, 20, 20, 4, 4]
    assert not all_of(source.read_without(split, None, [pattern((SEGMENT, unequal(4)))]))[2]


def test_a_limit_is_on_what_is_read() -> None:
    topic = keyed(1000)
    source = make(topic, key="segment", record_time="at")
    start = source.latest(None, now=0, limit=10)
    end = source.latest_without(start, None, [pattern((SEGMENT, unequal(4)))], now=0, limit=50)
    assert 25 <= end["at"][1] <= 50
    assert sum(end["at"]) > 250, "what is left out goes along in time"
    assert sum(source.latest(start, now=0, limit=50)["at"]) <= 50


def test_a_source_travels_to_workers() -> None:
    stream = Stream(
        "s", SCHEMA, Connector("KAFKA", {"bootstrap": "h:1", "topic": "t", "format": "json"}), Timing.INTERNAL
    )
    assert pickle.loads(pickle.dumps(KafkaSource(stream, Path()))).splits(None, None, parallel=1) == []


@pytest.mark.parametrize(
    ("options", "fault", "message"),
    [
        ({"key": "segmnt"}, NameFault, "the stream has no column 'segmnt' for the option key"),
        ({"key": "speed"}, TypeFault, "key 'speed' is DOUBLE"),
        ({"record_time": "segment"}, TypeFault, "record_time 'segment' is INT"),
        ({"format": "jsn"}, NameFault, "cannot read format"),
        ({"start": "end"}, NameFault, "cannot start at 'end'"),
        ({"topic": " "}, QueryError, "'topic' is empty"),
        ({"null_value": "-"}, QueryError, "takes no option 'null_value'"),
        ({"sasl.username": "me", "group": "x"}, NameFault, "no option 'group'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], fault: type[Exception], message: str) -> None:
    with pytest.raises(fault, match=message):
        make(FakeTopic([]), **options)  # type: ignore[arg-type]


def test_without_the_client_the_statement_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    stream = Stream(
        "s", SCHEMA, Connector("KAFKA", {"bootstrap": "h:1", "topic": "t", "format": "json"}), Timing.INTERNAL
    )
    with pytest.raises(HostFault, match="needs the package confluent-kafka") as caught:
        check_kafka(stream)
    assert caught.value.hint == install_command("kafka")


def test_further_options_go_to_the_client() -> None:
    found: list[Place] = []
    topic = keyed(1)
    options: dict[str, Option] = {
        "bootstrap": "h:1",
        "topic": "t",
        "format": "json",
        "security.protocol": "SSL",
        "timeout": "2 s",
    }
    stream = Stream("s", SCHEMA, Connector("KAFKA", options), Timing.INTERNAL)
    KafkaSource(stream, Path(), connect=lambda there: found.append(there) or topic).latest(None, now=0, limit=1)
    assert found[0].timeout == 2.0
    assert found[0].client()["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("options", "fault", "message"),
    [
        ({"format": "csv"}, NameFault, "cannot write format 'csv'"),
        ({"key": "segmnt"}, NameFault, "the query has no column 'segmnt' for the option key"),
        ({"key": "speed"}, TypeFault, "key 'speed' is DOUBLE"),
        ({"record_time": "speed"}, TypeFault, "record_time 'speed' is DOUBLE"),
        ({"key": "segment", "format": "arrow"}, QueryError, "takes no key"),
        ({"start": "latest"}, NameFault, "no option 'start'"),
    ],
)
def test_wrong_options_of_a_sink_are_refused(options: dict[str, str], fault: type[Exception], message: str) -> None:
    with pytest.raises(fault, match=message):
        check_sink("q", Connector("KAFKA", {"bootstrap": "h:1", "topic": "t", **options}), SCHEMA)


def test_both_ends_say_which_options_must_be_given() -> None:
    cases: tuple[tuple[dict[str, Option], str], ...] = (({"topic": "t"}, "bootstrap"), ({"bootstrap": "h:1"}, "topic"))
    for options, missing in cases:
        with pytest.raises(QueryError, match=f"KAFKA needs the option '{missing}'"):
            check_sink("q", Connector("KAFKA", options), SCHEMA)
        with pytest.raises(QueryError, match=f"KAFKA needs the option '{missing}'"):
            check_source(Stream("s", SCHEMA, Connector("KAFKA", {**options, "format": "json"}), Timing.INTERNAL))


def timed(*times: Sequence[int]) -> FakeTopic:
    """Partitions with records at these seconds, numbered within their partition."""
    return FakeTopic(
        [
            [
                (
                    None,
                    json.dumps({"at": second * SECOND, "segment": partition, "speed": float(number)}).encode(),
                    number,
                )
                for number, second in enumerate(seconds)
            ]
            for partition, seconds in enumerate(times)
        ]
    )


@contextmanager
def session_on(
    topic: FakeTopic, *, skew: int = 0, parallel: int = 1, limit: int = 1000, clock: VirtualClock | None = None
) -> Iterator[Session]:
    """A session with a stream of the records of a topic, and queries of what is in time, late, and counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SOURCES, "KAFKA", lambda stream, home: KafkaSource(stream, home, connect=lambda _: topic))
        patch.setattr("headrace.connectors.kafka.source.library", lambda: None)  # it need not be installed
        patch.setattr("headrace.connectors.kafka.source._LEAST", 1)
        with Session(host="local", limit=limit) as session:
            assert isinstance(session.deployment, LocalDeployment)
            session.deployment.intake.parallel = parallel
            session.deployment.clock = clock or session.deployment.clock
            session.execute(f"""
                CREATE STREAM s (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW {skew} SECONDS
                    FROM KAFKA (bootstrap 'here:9092', topic 't', format 'json');
                CREATE QUERY kept AS SELECT segment, speed FROM s INTO MEMORY;
                CREATE QUERY late AS SELECT segment, speed FROM s.late INTO MEMORY;
                CREATE QUERY counted AS SELECT count(*) AS n, window_end AS at FROM s [RANGE 10 SECONDS] INTO MEMORY;
            """)
            yield session


def results_of(topic: FakeTopic, **how: Any) -> dict[str, list[Any]]:
    with session_on(topic, **how) as session:
        session.drain(60)
        return {
            name: sorted(tuple(row.values()) for row in session.results(name)) for name in ("kept", "late", "counted")
        }


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=15), min_size=1, max_size=4),
    st.integers(0, 20),
    st.integers(1, 4),
    st.sampled_from([1, 5, 1000]),
)
def test_what_is_late_in_a_partition_depends_on_its_own_records_alone(times, skew, parallel, limit):
    results = results_of(timed(*times), skew=skew, parallel=parallel, limit=limit)
    expected: dict[str, list[Any]] = {"kept": [], "late": []}
    for partition, seconds in enumerate(times):
        rows = [Row(second, {"number": float(number)}) for number, second in enumerate(seconds)]
        for name, some in zip(("kept", "late"), split_late(rows, skew), strict=True):
            expected[name] += [(partition, row.values["number"]) for row in some]
    assert {name: results[name] for name in expected} == {name: sorted(rows) for name, rows in expected.items()}
    assert results["counted"] == results_of(timed(*times), skew=skew)["counted"]


def test_a_stream_waits_for_the_partition_that_is_furthest_behind() -> None:
    topic = timed([1, 5, 25], [2])
    with session_on(topic) as session:
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        assert session.results("counted") == [], "the second partition may still bring tuples of the first window"
        topic.records[1] += timed([], [9, 21]).records[1]
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        assert [row["n"] for row in session.results("counted")] == [4]
        assert session.results("late") == []
        assert session.statistics().streams["s"].frontier == 21 * SECOND


def test_a_partition_that_never_had_a_record_holds_nothing_back() -> None:
    topic = timed([1, 5, 25], [])
    with session_on(topic) as session:
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        assert [row["n"] for row in session.results("counted")] == [2]
        topic.records[1] += timed([], [3, 26]).records[1]
        session.drain(60)
        assert [tuple(row.values()) for row in session.results("late")] == [(1, 0.0)], "its window is closed"
        assert sorted(row["n"] for row in session.results("counted")) == [2, 2]


def test_a_silent_partition_goes_by_the_clock_if_the_stream_does() -> None:
    clock = VirtualClock(1 * SECOND)
    topic = timed([1], [1])
    with session_on(topic, skew=1, clock=clock) as session:
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        clock.advance(15 * SECOND)
        topic.records[0] += timed([16]).records[0]
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        clock.advance(SECOND)
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        assert [row["n"] for row in session.results("counted")] == [2]
