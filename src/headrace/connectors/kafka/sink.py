"""KAFKA as a sink: the results of a micro-batch are one transaction, which also notes the number of the micro-batch.

The note is an offset of a consumer group of the query's own: what is sent again after a crash is recognized by it, so
each result is in the topic once for all who read what is committed. The group's name is kept in the checkpoint: a new
checkpoint counts its micro-batches anew.

With the option `publishers`, tasks leave large results in the checkpoint, and so many other tasks send them, each in a
transaction with a note of its own (`connectors.kafka.publishing`).
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.files.sink import as_text
from headrace.connectors.formats.json_lines import json_lines
from headrace.connectors.identity import identity
from headrace.connectors.kafka.client import (
    CLIENT_OPTIONS,
    Place,
    largest_record,
    library,
    no_answer,
    place,
    sink_fault,
    within,
)
from headrace.connectors.kafka.columns import check_column
from headrace.connectors.kafka.keys import KEY_TYPES
from headrace.connectors.options import check_names, flag, near
from headrace.connectors.upserts import GONE, in_order, latest, unknown_change
from headrace.errors import NameFault, QueryError
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.types import Type

_LOG = logging.getLogger(__name__)

FORMATS = ("json", "arrow")
#: The bytes of key and value that the client accepts for a record at most, unless the option of this name says so.
_MAX_BYTES, _MAX_BYTES_OPTION = 1_000_000, "message.max.bytes"
#: The share of the timeout for which the first try waits.
_FIRST_TRY = 0.3
#: The seconds to wait while the client holds as many records as it may.
_FULL_PAUSE = 0.01
#: The time of a record that has no column for it, as the client understands it.
_NOW = 0
#: Bytes that a topic counts beside the key and value of a record that is sent alone.
_FRAME = 120
OPTIONS = ("bootstrap", "topic", "format", "key", "record_time", "upsert", "timeout", "publishers")
#: More publishers than this are of no use to a topic.
_MOST_PUBLISHERS = 1000

#: Key, value and time in milliseconds of a record.
Record: TypeAlias = tuple[str | None, bytes | None, int | None]


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go, how they are written, and which columns are key and time of their records."""

    place: Place
    format: str
    key: str | None
    time: str | None
    max_bytes: int = _MAX_BYTES
    publishers: int = 0  # tasks that send results; 0: the driver does
    is_upsert: bool = False  # whether a record is the newest row of its key, and one without a value deletes it


def target(connector: Connector, schema: Schema) -> Target:
    """Read and check the options of a KAFKA sink."""
    check_names(connector, OPTIONS, prefixes=CLIENT_OPTIONS)
    there = place(connector)
    form = str(connector.options.get("format", "json"))
    if form not in FORMATS:
        raise NameFault(f"KAFKA cannot write format {form!r}", hint=near(form, FORMATS))
    chosen: dict[str, str | None] = {"key": None, "record_time": None}
    for option, types in (("key", KEY_TYPES), ("record_time", (Type.TIMESTAMP,))):
        if option not in connector.options:
            continue
        name = str(connector.options[option])
        check_column(option, name, "the query", schema, types)
        if form == "arrow":
            raise QueryError(
                f"KAFKA: format 'arrow' takes no {option}, because a record holds many rows", hint="write format 'json'"
            )
        chosen[option] = name
    publishers, is_upsert = publishers_of(connector), flag(connector.options, "upsert", default=False)
    if is_upsert and chosen["key"] is None:
        raise QueryError("KAFKA: upsert needs the option 'key'", hint="write key 'item', the column that names a row")
    if is_upsert and publishers:
        raise QueryError(
            "KAFKA: upsert takes no publishers, because the records of a key keep their order", hint="leave one out"
        )
    return Target(
        there, form, chosen["key"], chosen["record_time"], _max_bytes(connector), publishers, is_upsert=is_upsert
    )


def publishers_of(connector: Connector) -> int:
    """Read how many tasks send the results of a KAFKA sink; 0: the driver does."""
    chosen = str(connector.options.get("publishers", 0))  # no secret: the tasks that make results look, too
    if not chosen.isdigit() or int(chosen) > _MOST_PUBLISHERS:
        raise QueryError(
            f"KAFKA: the option 'publishers' must be a whole number from 0 to {_MOST_PUBLISHERS}", hint="publishers 4"
        )
    return int(chosen)


def _max_bytes(connector: Connector) -> int:
    chosen = str(connector.options.get(_MAX_BYTES_OPTION, _MAX_BYTES))
    if not chosen.isdigit() or not 1000 <= int(chosen) <= 1_000_000_000:
        raise QueryError(
            f"KAFKA: the option {_MAX_BYTES_OPTION!r} must be a whole number from 1000 to 1000000000",
            hint=f"{_MAX_BYTES_OPTION} {_MAX_BYTES}",
        )
    return int(chosen)


def check_kafka_sink(connector: Connector, schema: Schema) -> None:
    """Refuse wrong options, and machines without the client; asks no broker."""
    target(connector, schema)
    library()


class Records:
    """How results become records of a topic."""

    def __init__(self, target: Target, schema: Schema) -> None:
        self._target, self._schema = target, schema
        self._max_bytes: int | None = None  # of a record, once the topic was asked

    def of(self, rows: pl.DataFrame) -> Iterator[Record]:
        """Return the records of rows; one without a value deletes the row of its key."""
        if self._target.format == "arrow":
            yield from ((None, table, None) for table in self._tables(rows))
            return
        gone = None
        if self._target.is_upsert and self._target.key is not None:
            rows = latest(rows, [self._target.key])
            gone, rows = rows[GONE], rows.drop(GONE)
        texts = [
            column
            for field in self._schema
            if field.name in rows.columns and (column := as_text(field.name, field.type, "json")) is not None
        ]
        lines: list[bytes | None] = [*json_lines(rows.with_columns(texts)).split(b"\n")[:-1]]
        if gone is not None:
            lines = [None if is_gone else line for line, is_gone in zip(lines, gone, strict=True)]
        nothing: list[None] = [None] * rows.height
        keys = nothing if self._target.key is None else rows[self._target.key].cast(pl.String).to_list()
        times = nothing if self._target.time is None else rows[self._target.time].dt.timestamp("ms").to_list()
        yield from zip(keys, lines, times, strict=True)

    def _tables(self, rows: pl.DataFrame) -> Iterator[bytes]:
        """Yield rows as Arrow tables, as few as are small enough."""
        file = io.BytesIO()
        rows.write_ipc_stream(file, compat_level=pl.CompatLevel.oldest())
        if rows.height == 1 or file.tell() <= self.largest():
            yield file.getvalue()
        else:
            half = rows.height // 2
            yield from self._tables(rows[:half])
            yield from self._tables(rows[half:])

    def largest(self) -> int:
        """Return how many bytes a record may have: what the option says, or less if the topic allows less."""
        if self._max_bytes is None:
            allowed = largest_record(self._target.place)
            # the frame around a record counts for the topic
            least = self._target.max_bytes if allowed is None else max(allowed - _FRAME, 1)
            self._max_bytes = min(self._target.max_bytes, least)
        return self._max_bytes


class Sender:
    """Sends results to a topic, those of a micro-batch once; `name` is that of its transactions and its notes."""

    def __init__(self, name: str, target: Target, schema: Schema) -> None:
        self._name, self._target, self._schema = name, target, schema
        self._records = Records(target, schema)
        self._kafka = library()
        self._producer: Any = None
        self._next = 0  # the first micro-batch that is not in the topic

    def has_sent(self, batch: int) -> bool:
        """Return whether the results of a micro-batch are in the topic."""
        try:
            self._open()
        except self._kafka.KafkaException as error:
            self.close()
            raise sink_fault(self._target.place, error.args[0]) from error
        return batch < self._next

    def send(self, batch: int, frames: Callable[[], Iterable[pl.DataFrame]]) -> None:
        """Send the results of a micro-batch, unless they are in the topic already; `frames` is called for each try."""
        timeout = self._target.place.timeout
        try:
            try:
                self._transact(batch, frames(), timeout * _FIRST_TRY)
            except TimeoutError:
                # after a restart of the broker, only a new producer gets an answer
                self.close()
                self._transact(batch, frames(), timeout * (1 - _FIRST_TRY))
        except TimeoutError as error:
            self.close()
            raise no_answer(self._target.place) from error
        except self._kafka.KafkaException as error:
            self.close()  # the next try begins anew: that ends what this one has left open
            raise sink_fault(self._target.place, error.args[0]) from error
        self._next = max(self._next, batch + 1)

    def _transact(self, batch: int, frames: Iterable[pl.DataFrame], patience: float) -> None:
        """Send rows and the number of their micro-batch in one transaction; TimeoutError if the note is not taken."""
        timeout = self._target.place.timeout
        producer = self._open()
        if batch < self._next:
            return
        producer.begin_transaction()
        for frame in frames:
            self._send(producer, self._records.of(frame.select(self._schema.names)))
        note, group = self._note(batch + 1), self._group.consumer_group_metadata()
        within(patience, lambda: producer.send_offsets_to_transaction([note], group, patience))
        producer.commit_transaction(timeout)

    def close(self) -> None:
        """Release the connections; an open transaction is given up."""
        if self._producer is not None:
            self._producer.purge()
            self._group.close()
            self._producer = None

    def _open(self) -> Any:
        if self._producer is None:
            there = self._target.place
            group = {"group.id": self._name, "enable.auto.commit": False, "isolation.level": "read_committed"}
            self._group = self._kafka.Consumer(there.client(**group), logger=_LOG)
            # keys must be where Kafka's own clients, and our source, look for them
            settings = {"transactional.id": self._name, "partitioner": "murmur2_random", "linger.ms": 5}
            if (largest := self._records.largest()) < self._target.max_bytes:
                settings[_MAX_BYTES_OPTION] = largest + _FRAME  # also what is sent together must be small enough
            producer = self._kafka.Producer(there.client(**settings), logger=_LOG)
            producer.init_transactions(
                there.timeout
            )  # fences off, and ends, what an earlier process of this query began
            (note,) = self._group.committed([self._note(0)], there.timeout)
            self._next = max(note.offset, 0)
            self._producer = producer
        return self._producer

    def _note(self, batch: int) -> Any:
        return self._kafka.TopicPartition(self._target.place.topic, 0, batch)

    def _send(self, producer: Any, records: Iterable[Record]) -> None:
        topic, produce = self._target.place.topic, producer.produce
        for key, value, time in records:
            while True:
                try:
                    produce(topic, value=value, key=key, timestamp=_NOW if time is None else time)
                except BufferError:  # the queue is full: wait until some have been sent
                    producer.poll(_FULL_PAUSE)
                else:
                    break


class KafkaSink:
    """Sends results, each once."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        self._query, self._checkpoint = query, checkpoint
        self._target, self._schema = target(connector, schema), schema
        self._records = Records(self._target, schema)
        library()

    @cached_property
    def name(self) -> str:
        """The name of its transactions; only the driver asks, since the first to do so chooses a part of it."""
        # two sinks of a query must not take each other for an earlier process
        topic = self._target.place.topic
        return f"headrace-{self._query}-{topic}-{identity(Path(self._checkpoint), 'kafka')}"

    @cached_property
    def sender(self) -> Sender:
        """What sends the results that are on the driver."""
        return Sender(self.name, self._target, self._schema)

    def write(self, batch: int, pages: Sequence[Page]) -> None:
        """Send the results of a micro-batch, unless they are in the topic already."""
        pages = [page for page in pages if len(page)]
        if pages:
            rows = (
                in_order(pages, self._schema)
                if self._target.is_upsert
                else pl.concat([page.visible() for page in pages])
            )
            self.sender.send(batch, lambda: [rows])

    def refused(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return for each row why it cannot be a record, NULL if it can; None if all can."""
        large, unfit = self._too_large(rows), self._unfit(rows)
        if large is None or unfit is None:
            return unfit if large is None else large
        return pl.select(pl.coalesce(unfit, large)).to_series()

    def _unfit(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return for each row why it changes no row of a table by key, NULL if it does."""
        if not self._target.is_upsert or self._target.key is None:
            return None
        key = self._target.key
        without = pl.when(pl.col(key).is_null()).then(pl.lit(f"column '{key}' is NULL, and a record has no other key"))
        why = rows.select(pl.coalesce(without, unknown_change(rows))).to_series()
        return None if why.null_count() == why.len() else why

    def _too_large(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return for each row why it is too large for a record, NULL if it is not; None if all are small enough."""
        largest = self._records.largest()
        rows = rows.select(self._schema.names).with_row_index("__row")
        large = rows.filter(self._bound() > largest)
        if not large.height:
            return None
        sizes = [
            sum(len(value or b"") + len((key or "").encode()) for key, value, _ in self._records.of(row))
            for row in large.drop("__row").iter_slices(1)
        ]
        reasons: list[str | None] = [None] * rows.height
        for row, size in zip(large["__row"].to_list(), sizes, strict=True):
            if size > largest:
                limit = f"{_MAX_BYTES_OPTION} is" if largest == self._target.max_bytes else "the topic takes"
                reasons[row] = f"the record would have {size:,} bytes; {limit} {largest:,}"
        return pl.Series(reasons, dtype=pl.String) if any(reasons) else None

    def _bound(self) -> pl.Expr:
        """Return how large a record is at most: a letter may take six bytes of JSON, and a key comes twice."""
        fixed = sum(len(name.encode()) * 6 + 256 for name in self._schema.names) + 1024
        texts = [pl.col(field.name).str.len_bytes() * 7 for field in self._schema if field.type is Type.STRING]
        binary = [pl.col(field.name).bin.size() * 2 for field in self._schema if field.type is Type.BINARY]
        return pl.sum_horizontal(pl.lit(fixed), *(size.cast(pl.Int64).fill_null(0) for size in (*texts, *binary)))

    def close(self) -> None:
        """Release the connections; an open transaction is given up."""
        if "sender" in self.__dict__:
            self.sender.close()
