"""A Kafka topic as the KAFKA source and sink see it, and the client that talks to the brokers.

Only this module knows the client library, which need not be installed. Waiting is bounded: what does not answer within
the option `timeout` is a fault; until then the client connects again by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import extras
from headrace.catalog.definitions import Connector
from headrace.connectors.options import duration, require
from headrace.errors import QueryError, SinkFault, SourceFault
from headrace.model.time import SECOND

_LOG = logging.getLogger(__name__)

#: Options that are handed to the client as they are.
CLIENT_OPTIONS = ("security.", "sasl.", "ssl.", "client.", "socket.", "message.")
#: An end of a partition, or a moment in milliseconds.
Asked: TypeAlias = Literal["earliest", "latest"] | int
#: Records that are handed on at once, and bytes of their values: with so many it is enough, whatever their number.
PIECE, PIECE_BYTES = 1 << 16, 32 << 20
#: Messages that the client hands out at once. Python looks for cycles among new objects whenever there are 700; with
#: fewer it seldom meets one of these.
_AT_ONCE = 500
#: Answers that the next broker, or the same one a little later, does not give, and the seconds until it is asked again.
_PASSING = ("_TRANSPORT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE")
_PAUSE = 0.2
#: Of what the client logs, what the brokers answer comes as a fault anyway.
_ERRORS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Which topic of which brokers, how long to wait for them, and further settings of the client."""

    bootstrap: str
    topic: str
    timeout: float
    settings: Mapping[str, str]

    def __str__(self) -> str:
        return f"topic {self.topic!r} at {self.bootstrap}"

    def client(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a client."""
        return {"bootstrap.servers": self.bootstrap, "log_level": _ERRORS, **self.settings, **more}


def place(connector: Connector) -> Place:
    """Read and check the options that say where a topic is."""
    bootstrap = str(require(connector, "bootstrap", "'localhost:9092'"))
    topic = str(require(connector, "topic", "'readings'"))
    for name, value in (("bootstrap", bootstrap), ("topic", topic)):
        if not value.strip():
            raise QueryError(
                f"KAFKA: the option {name!r} is empty",
                hint="write KAFKA (bootstrap 'localhost:9092', topic 'readings')",
            )
    settings = {name: str(value) for name, value in connector.options.items() if name.startswith(CLIENT_OPTIONS)}
    return Place(bootstrap, topic, duration(connector.options, "timeout", "30 seconds") / SECOND, settings)


def library(module: str = "confluent_kafka") -> ModuleType:
    """Return the client library; HostFault if it is not installed."""
    return extras.load(module, "kafka", "KAFKA")


@dataclass(frozen=True, slots=True)
class Records:
    """Some records of a partition, by offset; stamps are in milliseconds, -1 where a record has none.

    Stamps and keys that were not asked for are empty.
    """

    offsets: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


class Topic(Protocol):
    """What a source asks of a topic; partitions are numbered from 0."""

    def partitions(self) -> int:
        """Return the number of partitions."""
        ...

    def offsets(self, asked: Asked, partitions: Sequence[int]) -> list[int | None]:
        """Return the first offset, the one after the last, or that of the first record from a moment on, if any."""
        ...

    def newest(self, partitions: Sequence[int]) -> list[int | None]:
        """Return the greatest timestamp of a record; None if there is no record."""
        ...

    def read(self, partition: int, begin: int, end: int, *, stamps: bool, keys: bool) -> Iterator[Records]:
        """Return the records with offsets in [begin, end), also their stamps and keys; offsets may be missing."""
        ...


class KafkaTopic:
    """A topic read with the client library."""

    def __init__(self, there: Place) -> None:
        self._there = there
        self._kafka = library()
        admin = library("confluent_kafka.admin")
        self._specs = admin.OffsetSpec
        # what transactions have not committed yet is not there, as for the consumer
        self._committed = self._kafka.IsolationLevel.READ_COMMITTED
        self._admin = self._made(lambda: admin.AdminClient(there.client(), logger=_LOG))

    def partitions(self) -> int:
        asked = self._kafka.TopicCollection([self._there.topic])
        answers = self._answers(lambda seconds: self._admin.describe_topics(asked, request_timeout=seconds))
        return len(answers[self._there.topic].partitions)

    def offsets(self, asked: Asked, partitions: Sequence[int]) -> list[int | None]:
        match asked:
            case "earliest":
                spec = self._specs.earliest()
            case "latest":
                spec = self._specs.latest()
            case int():
                spec = self._specs.for_timestamp(asked)
        return [None if result.offset < 0 else result.offset for result in self._list(spec, partitions)]

    def newest(self, partitions: Sequence[int]) -> list[int | None]:
        return [
            None if result.offset < 0 else result.timestamp
            for result in self._list(self._specs.max_timestamp(), partitions)
        ]

    def read(self, partition: int, begin: int, end: int, *, stamps: bool, keys: bool) -> Iterator[Records]:
        settings = {
            "group.id": "headrace",  # must be said; we join no group and commit nothing
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 20_000,  # what is fetched beyond the end is thrown away
            "fetch.queue.backoff.ms": 5,  # else the client stops for a second whenever so many records wait in it
        }
        consumer = self._made(lambda: self._kafka.Consumer(self._there.client(**settings), logger=_LOG))
        try:
            consumer.assign([self._kafka.TopicPartition(self._there.topic, partition, begin)])
            collected = _Collected(stamps, keys)
            patience = time.monotonic() + self._there.timeout
            while begin < end:
                # what is here, else wait for one: there may be fewer records than numbers, so no count can be waited
                # for
                polled = consumer.consume(min(_AT_ONCE, PIECE - len(collected)), 0) or consumer.consume(
                    1, max(0.0, patience - time.monotonic())
                )
                before, problem = begin, None
                records = [message for message in polled if message.error() is None]
                if records:
                    begin = records[-1].offset() + 1
                    collected.add(records if begin <= end else [each for each in records if each.offset() < end])
                for message in polled if len(records) < len(polled) else ():
                    if message.error() is None:
                        continue
                    if message.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                        # the marks of transactions are not handed out, but have offsets
                        begin = max(begin, message.offset())
                    else:
                        problem = message.error()
                        self._check_present(problem, partition, begin)
                if len(collected) == PIECE or collected.size >= PIECE_BYTES:
                    yield collected.records()
                    collected = _Collected(stamps, keys)
                if begin > before:
                    patience = time.monotonic() + self._there.timeout
                elif time.monotonic() >= patience:  # until then the client tries again whatever went wrong
                    why = "nothing came" if problem is None else problem.str()
                    raise SourceFault(f"{self._there}: {why} (partition {partition} from {begin} on)", hint=_REACHABLE)
            if len(collected):
                yield collected.records()
        finally:
            consumer.close()

    def _check_present(self, problem: Any, partition: int, at: int) -> None:
        if problem.code() in (self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            raise SourceFault(
                f"{self._there}: record {at} of partition {partition} was deleted before it was read",
                hint="raise the topic's retention (retention.ms), or start with a new checkpoint to read what is there",
            )

    def _list(self, spec: Any, partitions: Sequence[int]) -> list[Any]:
        asked = {self._kafka.TopicPartition(self._there.topic, partition): spec for partition in partitions}
        if not asked:
            return []
        answers = self._answers(
            lambda seconds: self._admin.list_offsets(asked, isolation_level=self._committed, request_timeout=seconds)
        )
        by_partition = {key.partition: answer for key, answer in answers.items()}
        return [by_partition[partition] for partition in partitions]

    def _answers(self, ask: Callable[[float], Mapping[Any, Any]]) -> dict[Any, Any]:
        """Return the answers to a request.

        The client does not repeat a request that broke off with the connection, or that came to a broker which has just
        been started. We do, within the time that a broker has for its answer.
        """
        deadline = time.monotonic() + self._there.timeout
        while True:
            futures = ask(max(_PAUSE, deadline - time.monotonic()))
            try:
                return {key: future.result() for key, future in futures.items()}
            except self._kafka.KafkaException as error:
                passing = {getattr(self._kafka.KafkaError, name) for name in _PASSING}
                if error.args[0].code() not in passing or time.monotonic() + _PAUSE >= deadline:
                    raise self._fault(error.args[0]) from error
            time.sleep(_PAUSE)

    def _made(self, make: Any) -> Any:
        try:
            return make()
        except self._kafka.KafkaException as error:
            raise SourceFault(
                f"KAFKA: {error.args[0].str()}", hint="check the options that are passed to the client"
            ) from error

    def _fault(self, error: Any) -> SourceFault:
        if error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return SourceFault(f"there is no {self._there}", hint="create it, or correct the option topic")
        return SourceFault(f"{self._there}: {error.str()}", hint=_REACHABLE)


def within(seconds: float, call: Callable[[], Any]) -> None:
    """Make a call of the client; TimeoutError if it takes longer, and then it goes on in a thread of its own.

    The client does not keep the timeout of every call: one may wait for a broker for ever that was started again.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # raised below, in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name="kafka", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if thread.is_alive():
        raise TimeoutError


def largest_record(there: Place) -> int | None:
    """Return how many bytes a topic allows for a record, or several that are sent together; None if it does not say."""
    kafka, admin = library(), library("confluent_kafka.admin")
    try:
        client = admin.AdminClient(there.client(), logger=_LOG)
        asked = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, there.topic)
        (answer,) = client.describe_configs([asked], request_timeout=there.timeout).values()
        return int(answer.result()["max.message.bytes"].value)
    except (kafka.KafkaException, KeyError, TypeError, ValueError):
        return None  # not everybody may ask; if nobody answers, the first record will tell


def no_answer(there: Place) -> SinkFault:
    """Return the fault of a broker that does not answer a writer."""
    return SinkFault(f"results cannot be written to {there}: no answer", hint=_REACHABLE)


def sink_fault(there: Place, error: Any) -> SinkFault:
    """Explain a client's error to a writer."""
    if error.name() == "MSG_SIZE_TOO_LARGE":
        return SinkFault(
            f"results cannot be written to {there}: a record is larger than the topic allows",
            hint="raise max.message.bytes of the topic, or lower the option message.max.bytes of the sink: larger "
            "results then go to <query>.failed",
        )
    return SinkFault(f"results cannot be written to {there}: {error.str()}", hint=_REACHABLE)


_REACHABLE = (
    "check that a broker is running there, and that this machine can reach it and the address that it advertises; "
    "the option timeout says how long to wait"
)


class _Collected:
    """Records in the making: the contents of messages, without the client's objects."""

    def __init__(self, stamps: bool, keys: bool) -> None:
        self.size = 0  # bytes of the values
        self._has_stamps, self._has_keys = stamps, keys
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._offsets: list[npt.NDArray[np.int64]] = []
        self._stamps: list[npt.NDArray[np.int64]] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, messages: Sequence[Any]) -> None:
        """Add messages, which are in the order of their offsets."""
        if not messages:
            return
        count, kind = len(messages), type(messages[0])
        first, last = messages[0].offset(), messages[-1].offset()
        is_whole = last - first == count - 1
        self._offsets.append(
            np.arange(first, last + 1) if is_whole else np.fromiter(map(kind.offset, messages), np.int64, count)
        )
        self._values += map(kind.value, messages)
        self.size += sum(map(len, messages))
        if self._has_keys:
            self._keys += map(kind.key, messages)
        if self._has_stamps:
            stamps = (message.timestamp()[1] for message in messages)
            self._stamps.append(np.fromiter(stamps, np.int64, count))

    def records(self) -> Records:
        """Return what was added, at least one record."""
        stamps = np.concatenate(self._stamps) if self._stamps else np.empty(0, np.int64)
        return Records(np.concatenate(self._offsets), stamps, self._keys, self._values)
