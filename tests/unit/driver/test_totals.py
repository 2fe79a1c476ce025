from threading import Thread

import pytest

from headrace.commands.running import Running
from headrace.driver.rules.counters import RuleCounters
from headrace.driver.totals import Totals
from headrace.engine.statistics import RuleStatistics, StreamCounts, VertexCounts
from headrace.worker.wire import BucketNote, GuardSeen, Report, TaskCounts


def add(totals: Totals, batch: int, *reports: Report) -> None:
    totals.add(batch, reports, Running(), {}, delivered=0, milliseconds=1.0)


def test_counts_go_on_and_what_is_held_is_that_of_the_last_micro_batch() -> None:
    totals = Totals()
    for batch in range(2):
        report = Report(
            buckets=[BucketNote(0)],
            time=0,
            vertices={"v": VertexCounts(tuples_in=5, held=batch + 1)},
            tasks=[
                TaskCounts(
                    vertices={"v": VertexCounts(tuples_in=1)},
                    streams={"s": StreamCounts(tuples=3, newest=10 - batch, frontier=9 - batch)},
                )
            ],
        )
        add(totals, batch, report)
    vertex, stream = totals.statistics.vertices["v"], totals.statistics.streams["s"]
    assert (vertex.tuples_in, vertex.held) == (12, 2)
    assert (stream.tuples, stream.newest, stream.frontier) == (6, 10, 9)


def test_a_value_that_was_read_does_not_change() -> None:
    totals = Totals()
    add(totals, 0, Report(buckets=[BucketNote(0)], time=0, vertices={"v": VertexCounts(tuples_in=5)}))
    before = totals.statistics
    add(
        totals,
        1,
        Report(buckets=[BucketNote(0)], time=0, vertices={"v": VertexCounts(tuples_in=5), "w": VertexCounts()}),
    )
    assert (before.batch, before.vertices["v"].tuples_in, len(before.vertices)) == (0, 5, 1)
    with pytest.raises(AttributeError):
        before.vertices["v"].tuples_in = 7  # type: ignore[misc]


def test_guards_of_a_bucket_report_all_they_dropped_and_those_of_the_ingest_what_is_new() -> None:
    totals = Totals()
    for saved in (4, 6):
        bucket, ingest = GuardSeen("f", "p", None, saved), GuardSeen("scan", "p", None, saved)
        add(totals, 0, Report(buckets=[BucketNote(0, guards=[bucket])], time=0, tasks=[TaskCounts(guards=[ingest])]))
    guards = totals.statistics.guards
    assert (guards["f", "p"].saved, guards["scan", "p"].saved) == (6, 10)
    add(totals, 1, Report(buckets=[BucketNote(0, ended=[GuardSeen("f", "p", None, 7)])], time=0))
    assert (totals.statistics.guards["f", "p"].saved, totals.statistics.guards["f", "p"].active) == (7, False)


def test_rules_are_counted_by_several_threads() -> None:
    counters = RuleCounters()
    before = counters.totals
    threads = [Thread(target=lambda: [counters.add("r", calls=1, done=1) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.totals == {"r": RuleStatistics(calls=800, done=800)}
    assert before == {}
