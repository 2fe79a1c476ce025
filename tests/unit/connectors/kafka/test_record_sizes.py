"""Results that are too large for a record of Kafka are set aside, and the others are sent."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.kafka import sink as kafka_sink
from headrace.connectors.kafka.sink import KafkaSink
from headrace.errors import QueryError
from headrace.model.page import Page
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import Type
from headrace.session import Session
from headrace.testing.watching import local_host

PLACE = {"bootstrap": "localhost:9092", "topic": "out"}
SCHEMA = Schema((Field("k", Type.STRING), Field("v", Type.STRING)))


class KafkaException(Exception):
    """What the client raises."""


class Client:
    """The calls of producers and consumers that a sink makes; too large a record is refused, as by the library."""

    sent: list[tuple[str | None, bytes]]
    allowed: int | None  # by the topic

    def __init__(self, settings: dict[str, Any], logger: object = None) -> None:
        self.most = int(settings.get("message.max.bytes", 1_000_000))

    def produce(self, topic: str, *, value: bytes, key: str | None, timestamp: int) -> None:
        if len(value) + len((key or "").encode()) > self.most:
            raise KafkaException("MSG_SIZE_TOO_LARGE")
        Client.sent.append((key, value))

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
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    Client.sent, Client.allowed = [], None
    monkeypatch.setattr(kafka_sink, "library", Library)
    monkeypatch.setattr(kafka_sink, "largest_record", lambda place: Client.allowed)


def sink(tmp_path: Path, **options: Any) -> KafkaSink:
    return KafkaSink("q", Connector("KAFKA", {**PLACE, **options}), SCHEMA, tmp_path)


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_rows_are_refused_exactly_if_the_client_would_refuse_them(tmp_path: Path, form: str) -> None:
    made = sink(tmp_path, format=form, **{"message.max.bytes": "2000", **({"key": "k"} if form == "json" else {})})
    texts = [letter * n for letter in ("a", "ü", '"', "\x01") for n in (*range(200, 460, 13), *range(700, 2100, 13))]
    rows = pl.DataFrame({"k": ["ä"] * len(texts), "v": texts})
    refused = made.refused(rows)
    assert refused is not None
    for row, why in zip(rows.iter_slices(1), refused, strict=True):
        Client.sent = []
        page = Page(row.with_columns(pl.lit(0, dtype=pl.Int64).alias(TS)))
        if why is None:
            made.write(len(Client.sent), [page])
            made.sender._next = 0
        else:
            assert "message.max.bytes is 2,000" in why
            value = next(iter(made._records.of(row)))[1]
            with pytest.raises(KafkaException):
                made.sender._send(made.sender._open(), [(None if form == "arrow" else "ä", value, None)])
    assert made.refused(rows[:3]) is None


def test_tables_are_divided_until_they_are_small_enough(tmp_path: Path) -> None:
    made = sink(tmp_path, format="arrow", **{"message.max.bytes": 5000})
    rows = pl.DataFrame({"k": [str(n) for n in range(500)], "v": ["x" * (n % 90) for n in range(500)]})
    made.write(0, [Page(rows.with_columns(pl.lit(0, dtype=pl.Int64).alias(TS)))])
    assert len(Client.sent) > 5
    assert pl.concat([pl.read_ipc_stream(io.BytesIO(value)) for _, value in Client.sent]).equals(rows)


def test_a_topic_that_takes_less_than_the_option_says_decides(tmp_path: Path) -> None:
    Client.allowed = 2000
    made = sink(tmp_path)
    refused = made.refused(pl.DataFrame({"k": ["a", "a"], "v": ["x" * 1700, "x" * 1900]}))
    assert refused is not None
    assert refused.to_list() == [None, "the record would have 1,916 bytes; the topic takes 1,880"]
    assert made.sender._open().most == 2000


@pytest.mark.parametrize("wrong", ["many", "10", -1, 2_000_000_000])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(QueryError, match=r"message.max.bytes"):
        sink(tmp_path, **{"message.max.bytes": wrong})


def test_a_result_that_is_too_large_goes_to_the_side_stream(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(
            """CREATE STREAM s (v STRING) FROM MEMORY;
            CREATE QUERY q AS SELECT v FROM s INTO KAFKA (bootstrap 'b:1', topic 't', message.max.bytes 1000);
            CREATE QUERY failed AS SELECT action, reason FROM q.failed INTO MEMORY"""
        )
        session.push("s", [{"v": "small"}, {"v": "x" * 1000}, {"v": "y"}])
        while local_host(session).step():
            pass
        assert [value for _, value in Client.sent] == [b'{"v":"small"}', b'{"v":"y"}']
        assert session.results("failed") == [
            {"action": "INTO KAFKA", "reason": "the record would have 1,008 bytes; message.max.bytes is 1,000"}
        ]
