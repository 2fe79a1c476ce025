"""Requests that break off with the connection to a broker: they are repeated until the time for an answer is over."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.connectors.kafka import client
from headrace.connectors.kafka.client import KafkaTopic, Place
from headrace.errors import SourceFault

THERE = Place("localhost:9092", "readings", 10.0, {})


class Problem(Exception):
    """What the client raises; its argument says what went wrong."""


def answer(problem: int | None) -> Future[Any]:
    future: Future[Any] = Future()
    if problem is None:
        future.set_result(SimpleNamespace(partitions=[0, 1, 2], offset=7))
    else:
        future.set_exception(Problem(SimpleNamespace(code=lambda: problem, str=lambda: f"problem {problem}")))
    return future


class Admin:
    """A client whose first requests meet these problems."""

    def __init__(self, problems: list[int]) -> None:
        self.problems, self.timeouts = problems, list[float]()

    def describe_topics(self, asked: object, request_timeout: float) -> dict[str, Future[Any]]:
        self.timeouts.append(request_timeout)
        return {"readings": answer(self.problems.pop(0) if self.problems else None)}

    def list_offsets(self, asked: Any, isolation_level: object, request_timeout: float) -> dict[Any, Future[Any]]:
        self.timeouts.append(request_timeout)
        return {place: answer(self.problems.pop(0) if self.problems else None) for place in asked}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[KafkaTopic, Admin]]:
    def make(*problems: int) -> tuple[KafkaTopic, Admin]:
        admin, clock = Admin([*problems]), SimpleNamespace(now=0.0)
        library = SimpleNamespace(
            KafkaException=Problem,
            KafkaError=SimpleNamespace(
                _TRANSPORT=-195,
                LEADER_NOT_AVAILABLE=5,
                NOT_LEADER_FOR_PARTITION=6,
                BROKER_NOT_AVAILABLE=8,
                UNKNOWN_TOPIC_OR_PART=3,
            ),
            IsolationLevel=SimpleNamespace(READ_COMMITTED=1),
            TopicCollection=list,
            TopicPartition=lambda topic, number: _Place(number),
            OffsetSpec=SimpleNamespace(latest=lambda: None),
            AdminClient=lambda settings, logger: admin,
        )

        monkeypatch.setattr(client, "library", lambda *_: library)
        times = SimpleNamespace(
            monotonic=lambda: clock.now, sleep=lambda seconds: setattr(clock, "now", clock.now + seconds)
        )
        monkeypatch.setattr(client, "time", times)
        return KafkaTopic(THERE), admin

    return make


class _Place(tuple[int]):
    """A partition, as a key."""

    def __new__(cls, number: int) -> _Place:
        return super().__new__(cls, (number,))

    @property
    def partition(self) -> int:
        return self[0]


def test_a_request_that_breaks_off_with_its_connection_is_repeated(topic: Any) -> None:
    there, admin = topic(-195, 6, 5)
    assert there.partitions() == 3
    assert len(admin.timeouts) == 4
    assert admin.timeouts == sorted(admin.timeouts, reverse=True)  # all of them together have the time of one
    there, admin = topic(-195)
    assert there.offsets("latest", [0, 1]) == [7, 7]


def test_a_broker_that_stays_away_is_a_fault_when_the_time_is_over(topic: Any) -> None:
    there, admin = topic(*[-195] * 1000)
    with pytest.raises(SourceFault, match="problem -195"):
        there.partitions()
    assert 40 <= len(admin.timeouts) <= 60


def test_what_does_not_pass_is_told_at_once(topic: Any) -> None:
    for problem, message in ((3, "there is no topic 'readings'"), (29, "problem 29")):
        there, admin = topic(problem)
        with pytest.raises(SourceFault, match=message):
            there.partitions()
        assert len(admin.timeouts) == 1
