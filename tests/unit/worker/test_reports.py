"""One report for all buckets of a task."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.commands.running import Running
from headrace.driver.totals import Totals
from headrace.engine.shedding.shedders import ShedSeen
from headrace.engine.statistics import QueueStatistics, VertexCounts
from headrace.model.stint import Stint
from headrace.model.time import BEGIN
from headrace.operators.multijoin.seen import BoxSeen, KeySample, MigrationSeen, PortSeen, StepSeen
from headrace.session import Session
from headrace.storage.requests import Requests
from headrace.testing.watching import local_host
from headrace.worker.reports import TaskRows, least_bounds, least_waits, merged
from headrace.worker.wire import BucketNote, GuardSeen, Kind, Report, Row, Wait, decode_report, encode

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(0, 9)
BY_NAME = st.dictionaries(NAMES, NUMBERS)
COUNTS = st.builds(VertexCounts, *[NUMBERS] * len(VertexCounts.__struct_fields__))
STEPS = st.builds(StepSeen, NUMBERS, NUMBERS)
BOXES = st.builds(
    BoxSeen,
    number=NUMBERS,
    ports=st.lists(st.builds(PortSeen, NUMBERS, NUMBERS, NUMBERS), min_size=3, max_size=3),
    steps=st.dictionaries(st.sampled_from(["0>1", "0.1>2"]), STEPS),
    rows=st.dictionaries(st.sampled_from(["0.1", "1.2"]), NUMBERS),
    stored=NUMBERS,
    built=NUMBERS,
    migration=st.none() | st.builds(MigrationSeen, NUMBERS, st.just("moving"), NUMBERS),
    samples=st.lists(
        st.builds(KeySample, NUMBERS, st.just(0), st.integers(0, 2), st.dictionaries(NUMBERS, NUMBERS)), max_size=2
    ),
)
GUARDS = st.lists(st.builds(GuardSeen, NAMES, NAMES, st.none(), NUMBERS), max_size=2)
REPORTS = st.builds(
    Report,
    buckets=st.just([]),
    time=st.just(5),
    arrived=BY_NAME,
    bounds=BY_NAME,
    reached=BY_NAME,
    vertices=st.dictionaries(NAMES, COUNTS),
    waits=st.lists(st.builds(Wait, NUMBERS, st.tuples(NAMES), st.booleans())),
    asked=NUMBERS,
    purged=NUMBERS,
    noticed=st.lists(NAMES, unique=True),
    begun=st.lists(st.builds(Stint, NAMES, NUMBERS, NUMBERS, NUMBERS), max_size=2),
    unread=NUMBERS,
    boxes=st.dictionaries(NAMES, BOXES, max_size=2),
    building=NUMBERS,
    waiting=BY_NAME,
    shed=st.lists(st.builds(ShedSeen, NAMES, st.just(0), NUMBERS, NUMBERS)),
    queues=st.builds(QueueStatistics, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)


def numbered(reports: list[Report], guards: list[list[GuardSeen]]) -> list[Report]:
    """Give each report a bucket of its own."""
    return [
        decode_report(encode(report)).__replace__(buckets=[BucketNote(number, number, guards=own)])
        for number, (report, own) in enumerate(zip(reports, guards, strict=False))
    ]


def totals(reports: list[Report]) -> object:
    sums = Totals()
    sums.add(0, reports, Running(), {}, delivered=9, milliseconds=None)
    return sums.statistics


@pytest.mark.slow
@given(st.lists(REPORTS, min_size=4, max_size=4), st.lists(GUARDS, min_size=4, max_size=4))
def test_a_merged_report_says_what_the_reports_of_its_buckets_say(
    reports: list[Report], guards: list[list[GuardSeen]]
) -> None:
    several = numbered(reports, guards)
    single = merged(several)
    assert merged([merged(several[:2]), merged(several[2:])]) == single
    assert decode_report(encode(single)) == single
    assert totals([single]) == totals(several)
    assert single.buckets == [note for report in several for note in report.buckets]
    assert single.bounds == {
        name: min(report.bounds.get(name, BEGIN) for report in several)
        for name in {name for report in several for name in report.bounds}
    }
    assert least_bounds([single.bounds]) == single.bounds
    assert set(least_waits([single])) == set(least_waits(several))
    assert set(single.noticed) == {name for report in several for name in report.noticed}
    assert set(single.begun) == {stint for report in several for stint in report.begun}


def test_the_last_bucket_of_a_task_reports_for_all() -> None:
    def rows(bucket: int) -> list[Row]:
        report = Report(buckets=[BucketNote(bucket)], time=3, asked=bucket)
        return [
            Row(bucket, Kind.RESULT, "q", 0, 1, b""),
            Row(bucket, Kind.REPORT, "", 0, 7, encode(report)),
        ]

    held = Row(4, Kind.STAGED, "q", 0, 1, b"")
    task = TaskRows([4, 9, 2], lambda: [held])
    assert [row.kind for row in task.after(9, rows(9))] == [Kind.RESULT]
    assert [row.kind for row in task.after(4, rows(4))] == [Kind.RESULT]
    *first, note, last = task.after(2, rows(2))
    assert [row.kind for row in first] == [Kind.RESULT]
    assert note == held
    assert (last.kind, last.n) == (Kind.REPORT, 7)
    report = decode_report(last.payload)
    assert ([note.bucket for note in report.buckets], report.asked) == ([9, 4, 2], 15)


def test_a_report_says_what_the_process_has_asked_of_stores() -> None:
    row = Row(4, Kind.REPORT, "", 0, 7, encode(Report(buckets=[BucketNote(4)], time=3)))
    requests = {"s3a://lake": Requests(5, 1, fault="503")}
    (sent,) = TaskRows([4], list, lambda: requests).after(4, [row])
    assert decode_report(sent.payload).stores == requests


def test_a_bucket_of_another_task_is_not_kept_waiting() -> None:
    row = Row(5, Kind.REPORT, "", 0, 7, encode(Report(buckets=[BucketNote(5)], time=3)))
    held = Row(5, Kind.STAGED, "q", 0, 1, b"")
    assert list(TaskRows([4], lambda: [held]).after(5, [row])) == [row, held]


def test_a_task_with_several_buckets_and_queries_tells_the_driver_little(tmp_path: Path) -> None:
    grouped = "SELECT k, {} AS n FROM {} [RANGE 10 SECONDS] GROUP BY k"
    joined = "SELECT s.k, s.v FROM s [RANGE 10 SECONDS] JOIN t [RANGE 10 SECONDS] ON s.k = t.k"
    queries = [
        *(grouped.format(f"{call}(v)", stream) for call in ("count", "sum", "avg") for stream in "st"),
        joined,
        f"SELECT v, count(*) AS n FROM ({joined}) [RANGE 10 SECONDS] GROUP BY v",
    ]
    with Session(tmp_path, host="local", buckets=4) as session:
        for stream in "st":
            session.execute(f"CREATE STREAM {stream} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY")
        for number, query in enumerate(queries):
            session.execute(f"CREATE QUERY q{number} AS {query} INTO MEMORY", start=False)
        session.start()
        for stream in "st":
            session.push(stream, [{"at": f"2026-01-01 00:00:{n:02d}", "k": n, "v": n % 7} for n in range(60)])
        assert local_host(session).step()
        reports = local_host(session).delivery.reports
        assert len(reports) == 4
        assert len(encode(merged(reports))) <= 8000 < sum(len(encode(report)) for report in reports)
