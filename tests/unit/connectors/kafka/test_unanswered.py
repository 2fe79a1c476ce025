"""A broker that never answers the note of a transaction: a new producer is tried, and then it is a fault."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.kafka import sink as kafka_sink
from headrace.connectors.kafka.client import within
from headrace.connectors.kafka.sink import KafkaSink
from headrace.errors import SinkFault
from headrace.model.page import Page
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import Type

OPTIONS: dict[str, Any] = {"bootstrap": "localhost:9092", "topic": "out", "timeout": "1 second"}
SCHEMA = Schema((Field("v", Type.STRING),))
ROWS = Page(pl.DataFrame({"v": ["a", "b"]}).with_columns(pl.lit(0, dtype=pl.Int64).alias(TS)))


class KafkaException(Exception):
    """What the client raises."""


class Client:
    """Producers of which the first ones wait for ever; what the others send counts once it is committed."""

    silent = 0
    made = 0
    released = threading.Event()
    committed_values: list[bytes]

    def __init__(self, settings: dict[str, Any], logger: object = None) -> None:
        self._waits, self._values = False, list[bytes]()
        if "transactional.id" in settings:
            Client.made += 1
            self._waits = Client.made <= Client.silent

    def produce(self, topic: str, *, value: bytes, key: str | None, timestamp: int) -> None:
        self._values.append(value)

    def send_offsets_to_transaction(self, *_: object) -> None:
        if self._waits:
            Client.released.wait()

    def commit_transaction(self, timeout: float) -> None:
        Client.committed_values += self._values

    def committed(self, notes: list[Any], timeout: float) -> list[Any]:
        return notes

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Library:
    """The names of the client library that a sink uses."""

    KafkaException = KafkaException
    Producer = Consumer = Client

    class TopicPartition:
        """A place in a topic."""

        def __init__(self, topic: str, partition: int, offset: int) -> None:
            self.offset = offset


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Client.made, Client.committed_values, Client.released = 0, [], threading.Event()
    monkeypatch.setattr(kafka_sink, "library", Library)
    monkeypatch.setattr(kafka_sink, "largest_record", lambda place: None)
    yield
    Client.released.set()


def test_a_second_producer_sends_what_the_first_could_not(tmp_path: Path) -> None:
    Client.silent = 1
    made = KafkaSink("q", Connector("KAFKA", OPTIONS), SCHEMA, tmp_path)
    made.write(0, [ROWS])
    made.write(0, [ROWS])
    assert Client.committed_values == [b'{"v":"a"}', b'{"v":"b"}']
    assert Client.made == 2


def test_two_producers_without_an_answer_are_a_fault_and_the_next_try_sends(tmp_path: Path) -> None:
    Client.silent = 2
    made = KafkaSink("q", Connector("KAFKA", OPTIONS), SCHEMA, tmp_path)
    with pytest.raises(SinkFault, match="no answer"):
        made.write(0, [ROWS])
    assert Client.committed_values == []
    made.write(0, [ROWS])
    assert Client.committed_values == [b'{"v":"a"}', b'{"v":"b"}']


def test_an_error_of_a_call_is_raised_where_it_was_made() -> None:
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 / 0)
