"""Results that tasks send to Kafka: each is in the topic once, whatever fails in between."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.definitions import Connector
from headrace.connectors.kafka import sink as kafka_sink
from headrace.connectors.kafka.publishing import Publication, PublishingSink, publish, publish_elsewhere
from headrace.connectors.kafka.publishing import kafka_sink as make
from headrace.connectors.kafka.sink import KafkaSink
from headrace.connectors.kinds import can_stage
from headrace.errors import QueryError, SinkFault
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.storage import object_settings

SCHEMA = Schema.of(n=Type.BIGINT)


class KafkaException(Exception):
    """What the client raises."""


@dataclass
class Broker:
    """A model of transactions: what is committed, the notes of groups, and the newest producer of each name."""

    values: list[int] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    dies_in: int | None = None  # so many steps from now the process of a producer ends

    def step(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise Killed


class Killed(BaseException):
    """The process has ended."""


broker = Broker()


class Client:
    """The client library, as far as a sink uses it."""

    KafkaException = KafkaException

    class TopicPartition:
        def __init__(self, topic: str, partition: int, offset: int) -> None:
            self.offset = offset

    class Consumer:
        def __init__(self, settings: dict[str, Any], logger: object) -> None:
            self.name = settings["group.id"]

        def committed(self, places: Sequence[Any], timeout: float) -> list[Any]:
            return [Client.TopicPartition("t", 0, broker.notes.get(self.name, -1001))]

        def consumer_group_metadata(self) -> str:
            return self.name

        def close(self) -> None:
            pass

    class Producer:
        def __init__(self, settings: dict[str, Any], logger: object) -> None:
            self.name = settings["transactional.id"]
            self.open: list[int] = []
            self.note: tuple[str, int] | None = None

        def init_transactions(self, timeout: float) -> None:
            broker.step()
            self.epoch = broker.epochs[self.name] = broker.epochs.get(self.name, 0) + 1

        def begin_transaction(self) -> None:
            self.open, self.note = [], None

        def produce(self, topic: str, value: bytes, key: str | None, timestamp: int) -> None:
            broker.step()
            self.open.append(json.loads(value)["n"])

        def send_offsets_to_transaction(self, notes: Sequence[Any], group: str, timeout: float) -> None:
            self.note = (group, notes[0].offset)

        def commit_transaction(self, timeout: float) -> None:
            broker.step()
            if broker.epochs[self.name] != self.epoch:
                raise KafkaException(Fenced())
            assert self.note is not None
            broker.values += self.open
            broker.notes[self.note[0]] = self.note[1]
            broker.step()  # it may die before it knows

        def purge(self) -> None:
            pass


class Fenced:
    """An error of the broker."""

    def name(self) -> str:
        return "_FENCED"

    def code(self) -> int:
        return 90

    def str(self) -> str:
        return "a newer producer has this name"


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_sink, "library", lambda: Client)
    monkeypatch.setattr(kafka_sink, "largest_record", lambda place: None)
    broker.__init__()  # type: ignore[misc]


def connector(publishers: int) -> Connector:
    return Connector("KAFKA", {"bootstrap": "nowhere:9", "topic": "t", "publishers": publishers})


def sink(checkpoint: Path, publishers: int = 2) -> PublishingSink:
    made = make("q", connector(publishers), SCHEMA, checkpoint)
    assert isinstance(made, PublishingSink)
    return made


def page(*numbers: int) -> Page:
    return page_of(SCHEMA, [{"n": n} for n in numbers], list(numbers))


def staged(made: PublishingSink, batch: int, *parts: Sequence[int]) -> list[str]:
    """Let tasks write results, as every try of a micro-batch does."""
    return [made.stage(page(*numbers), f"b{batch}-{task}-1") for task, numbers in enumerate(parts)]


PARTS = ((1, 2), (3,), (4, 5, 6))


def test_publishers_share_the_files_of_tasks_and_what_the_driver_got(tmp_path: Path) -> None:
    made, shares = sink(tmp_path), list[Publication]()
    made.publish = lambda publications: shares.extend(pickle.loads(pickle.dumps(publications)))
    made.write(7, [page(9)], staged(made, 7, *PARTS))
    assert [share.files for share in shares] == [
        ["b7-0-1.arrow", "b7-2-1.arrow"],
        ["b7-1-1.arrow", "b7-driver.arrow"],
    ]
    assert not broker.values
    for share in shares:
        publish(share)
        publish(share)  # a task that is run again
    assert sorted(broker.values) == [1, 2, 3, 4, 5, 6, 9]


def test_a_publisher_in_a_new_process_learns_how_stores_are_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_settings, "_given", {})
    made, shares = sink(tmp_path), list[Publication]()
    made.publish = shares.extend
    made.write(7, [], staged(made, 7, (1, 2)))
    publish_elsewhere({object_settings.ENDPOINT: "http://store:9000"}, shares[0])
    assert object_settings.configured()[object_settings.ENDPOINT] == "http://store:9000"
    assert broker.values == [1, 2]


def test_little_is_sent_by_the_driver(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.write(7, [page(1, 2)])
    made.write(7, [page(1, 2)])
    assert broker.values == [1, 2]
    assert len(broker.epochs) == 1


@settings(max_examples=60, deadline=None)
@given(
    deaths=st.lists(st.integers(0, 25), max_size=4),
    counts=st.lists(st.integers(1, 4), min_size=5, max_size=5),
    travels=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_a_process_that_dies_anywhere_loses_nothing_and_repeats_nothing(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[int], counts: list[int], travels: list[bool]
) -> None:
    """Each try has its own number of publishers, and may get the results by pages instead of files."""
    broker.__init__()  # type: ignore[misc]
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    for batch in (0, 1):
        parts = [[10 * batch + n for n in numbers] for numbers in PARTS]
        for attempt, dies_in in enumerate([*deaths, None]):
            made = sink(checkpoint, counts[attempt])
            made.sweep()
            broker.dies_in = dies_in
            try:
                if travels[attempt]:
                    made.write(batch, [page(*numbers) for numbers in parts])
                else:
                    made.write(batch, [], staged(made, batch, *parts))
            except Killed:
                continue
            break
        broker.dies_in = None
    assert Counter(broker.values) == Counter(10 * batch + n for batch in (0, 1) for numbers in PARTS for n in numbers)


def test_a_publisher_that_was_given_up_for_lost_is_fenced_off(tmp_path: Path) -> None:
    made, shares = sink(tmp_path, 1), list[Publication]()
    made.publish = shares.extend
    made.write(7, [], staged(made, 7, (1, 2)))
    slow = kafka_sink.Sender(shares[0].name, kafka_sink.target(connector(1), SCHEMA), SCHEMA)
    assert not slow.has_sent(7)
    publish(shares[0])
    with pytest.raises(SinkFault):
        slow.send(7, lambda: [page(1, 2).visible()])
    assert broker.values == [1, 2]
    publish(shares[0])
    assert broker.values == [1, 2]


def test_nothing_is_left_of_a_micro_batch_once_the_next_is_delivered(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.write(7, [], staged(made, 7, *PARTS))
    assert made.sweep() == 0, "it may be repeated"
    made.write(8, [])
    assert not [path for path in (tmp_path / "sinks" / "published").rglob("*") if path.is_file()]
    made.write(9, [], staged(made, 9, (8,)))
    assert sorted(broker.values) == [1, 2, 3, 4, 5, 6, 8]


def test_without_publishers_the_driver_sends_everything(tmp_path: Path) -> None:
    made = make("q", connector(0), SCHEMA, tmp_path)
    assert type(made) is KafkaSink
    assert [can_stage(connector(count)) for count in (0, 1)] == [False, True]
    with pytest.raises(QueryError, match="'publishers' must be a whole number"):
        make("q", connector(-1), SCHEMA, tmp_path)
