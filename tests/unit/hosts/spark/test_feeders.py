"""Feeders of foreign Spark sources: one that fails is started again, one that always fails ends the deployment."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from headrace.catalog.definitions import Stream
from headrace.errors import HeadraceError, SourceFault
from headrace.hosts.spark import feeders, supervisor
from headrace.hosts.spark.feeders import Feeders
from headrace.session import Session

BROKEN = "org.apache.spark.SparkException: the source is broken"


class Query:
    """A streaming query as PySpark shows it: one that fails, has an end, or runs until it is stopped."""

    def __init__(self, failure: str | None, *, has_read: bool = False, runs: bool = False) -> None:
        self.failure = failure
        self.lastProgress = {} if has_read else None
        self.ended = threading.Event()
        if not runs:
            self.ended.set()

    def awaitTermination(self) -> None:
        self.ended.wait()

    def exception(self) -> StreamingQueryException | None:
        return None if self.failure is None else StreamingQueryException(self.failure)

    def stop(self) -> None:
        self.ended.set()


class Source:
    """Stands for `feed`: it gives one query after the other."""

    def __init__(self, *queries: Query) -> None:
        self.queries: Iterator[Query] = iter(queries)
        self.starts: list[bool] = []

    def __call__(self, *_: Any, to_its_end: bool = False) -> Query:
        self.starts.append(to_its_end)
        return next(self.queries)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.01)


@pytest.fixture
def stream() -> Stream:
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (id BIGINT) FROM SPARK (format 'parquet', path '/nowhere')", start=False)
        found = session.catalog.find("s")
        assert isinstance(found, Stream)
        return found


def follow(monkeypatch: pytest.MonkeyPatch, stream: Stream, source: Source, end: threading.Event) -> list[str]:
    """Feed a stream until `end` is set or the feeder gives up; return the faults."""
    faults: list[str] = []

    def give_up(fault: HeadraceError) -> None:
        faults.append(fault.message)
        end.set()

    monkeypatch.setattr(feeders, "feed", source)
    all_feeders = Feeders(Path(), give_up)
    all_feeders.follow(lambda: cast(Any, None), [stream])
    assert end.wait(30)
    all_feeders.stop()
    return faults


def test_a_feeder_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch, stream: Stream) -> None:
    last = Query(None, runs=True)
    queries = [
        *(Query(BROKEN) for _ in range(4)),
        Query(BROKEN, has_read=True),
        *(Query(BROKEN) for _ in range(3)),
        last,
    ]
    source, end = Source(*queries), threading.Event()
    monkeypatch.setattr(last, "awaitTermination", lambda: (end.set(), last.ended.wait()))
    assert follow(monkeypatch, stream, source, end) == []
    assert len(source.starts) == len(queries)
    assert last.ended.is_set()


def test_one_that_reads_nothing_and_fails_again_and_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch, stream: Stream
) -> None:
    source = Source(*(Query(BROKEN) for _ in range(9)))
    (fault,) = follow(monkeypatch, stream, source, threading.Event())
    assert fault.startswith("stream s: its Spark source failed: ")
    assert "the source is broken" in fault
    assert len(source.starts) == supervisor.FAILURES


def test_a_drain_reads_what_the_source_has_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, stream: Stream
) -> None:
    running, last = Query(None, runs=True), Query(None, runs=True)
    source = Source(running, last)
    monkeypatch.setattr(feeders, "feed", source)
    all_feeders = Feeders(Path(), lambda fault: pytest.fail(fault.message))
    all_feeders.follow(lambda: cast(Any, None), [stream])
    draining = threading.Thread(target=all_feeders.read_to_the_end)
    draining.start()
    assert running.ended.wait(30)
    assert draining.is_alive()
    last.ended.set()  # all is read
    draining.join(30)
    assert not draining.is_alive()
    assert source.starts == [False, True]


def test_a_drain_says_that_the_source_cannot_be_read(monkeypatch: pytest.MonkeyPatch, stream: Stream) -> None:
    monkeypatch.setattr(feeders, "feed", Source(Query(None, runs=True), Query(BROKEN)))
    all_feeders = Feeders(Path(), lambda fault: pytest.fail(fault.message))
    all_feeders.follow(lambda: cast(Any, None), [stream])
    with pytest.raises(SourceFault, match="stream s: its Spark source failed"):
        all_feeders.read_to_the_end()
