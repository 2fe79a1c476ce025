"""KAFKA: a stream of the records in a topic.

An offset is where each partition was when the stream began, and where it is read up to: {"from": [...], "at": [...]}.
The first micro-batch reads nothing and settles where to begin. A split is a range of one partition, and each partition
is a lane: its records have an order, those of different partitions have none.

With the option `key`, a partition into which none of the needed keys belongs is left unread. Time must go on as if it
were read, so that is done only where time is known without reading: if the stream's time is the record's own (option
`record_time`), whose index the brokers keep, or if the stream has no time of its own. The index knows malformed records
too: of a partition that is left out, their time counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.catalog.definitions import Connector, Stream
from headrace.connectors.connector import Offset, Skipped, Slice, Split
from headrace.connectors.formats import text
from headrace.connectors.formats.conversion import select
from headrace.connectors.formats.messages import read_messages
from headrace.connectors.kafka.client import CLIENT_OPTIONS, Asked, KafkaTopic, Place, Topic, library, place
from headrace.connectors.kafka.columns import check_column
from headrace.connectors.kafka.keys import KEY_TYPES, TimeTest, homes, needed_keys
from headrace.connectors.kafka.limit import cut
from headrace.connectors.kafka.records import Arrow, Form, Reading
from headrace.connectors.options import check_names, delimiter, epoch, near, require, whole
from headrace.connectors.options import text as word
from headrace.errors import NameFault, QueryError, SourceFault, TypeFault
from headrace.model.patterns.match import Match
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import Schema
from headrace.model.time import MILLISECOND, parse_instant
from headrace.model.types import DataType, Type

FORMATS = ("json", "csv", "arrow", "text")
OPTIONS = (
    "bootstrap", "topic", "format", "delimiter", "null_value", "epoch", "key", "record_time", "start", "timeout",
    "max_rows", "record_partition", "record_offset",
)  # fmt: skip
#: The columns that options name, with the types that they may have.
_COLUMNS: dict[str, tuple[DataType, ...]] = {
    "key": KEY_TYPES,
    "record_time": (Type.TIMESTAMP,),
    "record_partition": (Type.INT,),
    "record_offset": (Type.BIGINT,),
}
#: Formats that Spark reads, and how.
_BINARY = ("avro", "protobuf")
_BY_SPARK = "read the topic by Spark, with from_avro or from_protobuf: session.stream('name', dataframe)"
#: Fewer records are not worth a task of their own.
_LEAST = 10_000


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a topic is, how its records are read, and where to begin."""

    place: Place
    reading: Reading
    start: Asked
    max_rows: int


def layout(connector: Connector, schema: Schema) -> Layout:
    """Read and check the options of a KAFKA source."""
    check_names(connector, OPTIONS, prefixes=CLIENT_OPTIONS)
    there, options = place(connector), connector.options
    start = _start(word(options, "start", "earliest"))
    named = {option: str(options[option]) for option in _COLUMNS if option in options}
    for option, name in named.items():
        check_column(option, name, "the stream", schema, _COLUMNS[option])
        other = next(other for other, known in named.items() if known == name)
        if other != option:
            raise QueryError(f"KAFKA: {name!r} cannot be both {other} and {option}", hint="name two columns")
    beside = {name for option, name in named.items() if option != "key"}
    form = _form(str(require(connector, "format", "'json'")), options, schema, beside)
    columns = (named.get(option) for option in ("record_time", "key", "record_partition", "record_offset"))
    return Layout(there, Reading(there.topic, form, *columns), start, whole(options, "max_rows", 0))


def check_kafka(stream: Stream) -> None:
    """Refuse wrong options, and machines without the client; asks no broker."""
    layout(stream.connector, stream.schema)
    library()


class KafkaSource:
    """Reads ranges of partitions."""

    def __init__(self, stream: Stream, checkpoint: Path, connect: Callable[[Place], Topic] = KafkaTopic) -> None:
        self._schema = stream.schema
        self._time_column, self._skew = stream.time_column, stream.skew
        self._layout = layout(stream.connector, stream.schema)
        self._connect = connect
        self._topic: Topic | None = None
        self._last_ends: list[int] | None = None  # where the partitions ended when last looked at
        self._last_cut: tuple[Sequence[int], int] = ((), 0)  # where a limit stopped us last, and the moment of it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_topic": None}

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Look for new records and partitions; advance about `limit` records, in all partitions up to the same time."""
        return self._latest(start, limit, lambda *_: True)

    def latest_without(
        self, start: Offset, columns: tuple[str, ...] | None, unneeded: Sequence[Pattern], *, now: int, limit: int
    ) -> Offset:
        """Do as `latest`, with the limit on records of partitions that are needed."""
        return self._latest(start, limit, lambda split: not self._is_unneeded(split, unneeded))

    def _latest(self, start: Offset, limit: int, counts: Callable[[Split], bool]) -> Offset:
        topic = self._open()
        partitions = range(topic.partitions())
        ends = [end or 0 for end in topic.offsets("latest", partitions)]
        self._last_ends = ends
        if start is None:
            first = topic.offsets(self._layout.start, partitions)
            # a partition without a record since a moment begins with the next one
            begins = [end if begin is None else begin for begin, end in zip(first, ends, strict=True)]
            return {"from": begins, "at": begins}
        missing = len(ends) - len(start["at"])
        if missing < 0 or any(end < at for end, at in zip(ends, start["at"], strict=False)):
            raise SourceFault(
                f"{self._layout.place}: the end offset is below the checkpoint's; was the topic recreated?",
                hint="start with a new checkpoint to read the new topic",
            )
        # records of a partition that is new begin at 0
        begins = [*start["at"], *[0] * missing]
        all_of_it = {"from": start["from"], "at": ends}
        limit = min(limit, self._layout.max_rows or limit)
        if sum(ends) - sum(begins) <= limit:
            return all_of_it
        splits = {split[0]: split for split in self._pieces(start, all_of_it)}
        counted = [partition in splits and counts(splits[partition]) for partition in partitions]
        newest = max((stamp for stamp in topic.newest(partitions) if stamp is not None), default=0)

        def at(moment: int) -> list[int]:
            return [
                end if offset is None else offset
                for offset, end in zip(topic.offsets(moment, partitions), ends, strict=True)
            ]

        stops, moment = self._last_cut
        since = moment if stops == start["at"] else 0
        self._last_cut = cut(begins, ends, counted, limit, at, newest, since)
        return {"from": start["from"], "at": self._last_cut[0]}

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Divide by partitions, and large ranges further.

        A split is [partition, from, to, where its range begins, where the stream began in it, partitions then,
        partitions now].
        """
        pieces = [] if start is None or end is None else self._pieces(start, end)
        target = max(_LEAST, -(-sum(piece[2] - piece[1] for piece in pieces) // max(parallel, 1)))
        splits = []
        for partition, begin, stop, *rest in pieces:
            parts = -(-(stop - begin) // target)
            borders = [begin + (stop - begin) * part // parts for part in range(parts + 1)]
            splits += [[partition, low, high, *rest] for low, high in itertools.pairwise(borders)]
        return splits

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Read a range of a partition; with `columns`, only these and the key are looked at."""
        partition, begin, end, *_, first, count = split
        selected, counts = select(self._schema, columns), range(first, count + 1)
        reading = self._layout.reading
        has_stamps, has_keys = reading.time_of_record is not None, reading.key is not None
        for records in self._open().read(partition, begin, end, stamps=has_stamps, keys=has_keys):
            yield reading.slice_of(records, partition, counts, self._schema, selected)

    def read_without(
        self,
        split: Split,
        columns: tuple[str, ...] | None,
        unneeded: Sequence[Pattern],
        *,
        newest: int | None = None,
    ) -> Iterator[Slice | Skipped]:
        """Leave out a partition into which no key belongs that is needed."""
        if not self._is_unneeded(split, unneeded, newest):
            yield from self.read(split, columns)
            return
        partition, begin, end, _, origin, *_ = split
        reached = self._newest_before(partition, end, origin) if self._time_column is not None else None
        if reached is None and self._time_column is not None:
            yield from self.read(split, columns)
        else:
            yield Skipped(end - begin, 0, reached)  # how many bytes they take is not known

    def lanes(self, offset: Offset) -> dict[str, bool]:
        """Return the partitions, and which have records from `offset` on."""
        if offset is None:
            return {}
        ends = self._ends()
        reached = [*offset["at"], *[0] * (len(ends) - len(offset["at"]))]
        return {str(partition): at < end for partition, (at, end) in enumerate(zip(reached, ends, strict=False))}

    def lane(self, split: Split) -> str:
        return str(split[0])

    def finished(self, offset: Offset) -> bool:
        if offset is None:
            return False
        ends = self._ends()
        return len(offset["at"]) >= len(ends) and all(at >= end for at, end in zip(offset["at"], ends, strict=False))

    def unread(self, offset: Offset) -> int:
        """Return the number of offsets up to the ends of the partitions."""
        reached = [] if offset is None else offset["at"]
        ends = self._ends()
        return sum(end - at for end, at in zip(ends, [*reached, *[0] * len(ends)], strict=False) if end > at)

    def forget(self, offset: Offset) -> None:
        """Do nothing: the topic is not ours."""

    def _open(self) -> Topic:
        if self._topic is None:
            self._topic = self._connect(self._layout.place)
        return self._topic

    def _ends(self) -> list[int]:
        """Return where the partitions ended when last looked at."""
        if self._last_ends is None:
            topic = self._open()
            self._last_ends = [end or 0 for end in topic.offsets("latest", range(topic.partitions()))]
        return self._last_ends

    def _pieces(self, start: Offset, end: Offset) -> list[Split]:
        begins, origins, first = [*start["at"]], end["from"], len(end["from"])
        pieces = []
        for partition, stop in enumerate(end["at"]):
            begin = begins[partition] if partition < len(begins) else 0
            if begin < stop:
                pieces.append(
                    [
                        partition,
                        begin,
                        stop,
                        begin,
                        origins[partition] if partition < first else 0,
                        first,
                        len(end["at"]),
                    ]
                )
        return pieces

    def _is_unneeded(self, split: Split, unneeded: Sequence[Pattern], newest: int | None = None) -> bool:
        key, time = self._layout.reading.key, self._time_column
        if key is None or (time is not None and time != self._layout.reading.time_of_record):
            return False
        partition, _, end, begin, origin, first, count = split

        def first_at(moment: int) -> int | None:
            return self._open().offsets(max(moment, 0), [partition])[0]

        test = TimeTest(first_at, origin=origin, begin=begin, end=end, skew=self._skew, newest=newest)

        def covers_time(match: Match) -> bool:
            return time is not None and test(match)

        field = self._schema.find(key)
        assert field is not None
        needed = needed_keys(key, field.type, unneeded, covers_time, () if time is None else (time,))
        return needed is not None and all(
            partition not in homes(str(value), range(first, count + 1)) for value in needed
        )

    def _newest_before(self, partition: int, end: int, origin: int) -> int | None:
        """Return the greatest timestamp of the records before `end`; None if that record is not of the stream."""
        topic = self._open()
        (newest,) = topic.newest([partition])
        if newest is None:
            return None
        low, high, middle = (
            0,
            newest + 1,
            newest,
        )  # from `high` on there is no record before the end; mostly the newest of all is before it
        while high - low > 1:
            (at,) = topic.offsets(middle, [partition])
            low, high = (middle, high) if at is not None and at < end else (low, middle)
            middle = (low + high) // 2
        (at,) = topic.offsets(low, [partition])
        return low * 1000 if at is not None and origin <= at < end else None


def _start(written: str) -> Asked:
    """Read where a new stream begins: an end of the partitions, or a moment, in milliseconds."""
    if written == "earliest":
        return "earliest"
    if written == "latest":
        return "latest"
    try:
        return max(0, -(-parse_instant(written) // MILLISECOND))  # brokers take a negative number for something else
    except ValueError:
        hint = "there are: earliest, latest, and the time of the first record, such as '2026-01-31 12:00:00'"
        raise NameFault(f"KAFKA cannot start at {written!r}", hint=hint) from None


def _form(form: str, options: Any, schema: Schema, beside: Collection[str]) -> Form:
    messages, unit = read_messages(form, options), epoch(options, form)
    if messages is not None:
        messages.load()
        return messages
    for name in ("delimiter", "null_value"):
        if name in options and form != "csv":
            raise QueryError(f"KAFKA: format {form!r} takes no option {name!r}", hint="it is an option of format 'csv'")
    match form:
        case "json":
            return text.Json(unit)
        case "arrow":
            return Arrow()
        case "text":
            names = [field.name for field in schema if field.name not in beside and field.type is Type.STRING]
            if len(names) != len(schema) - len(beside) or len(names) != 1 or "key" in options:
                raise TypeFault(
                    "KAFKA: format 'text' has one STRING column, and may have others beside the value, but no key",
                    hint="declare (value STRING), or (value STRING, at TIMESTAMP) with record_time 'at'",
                )
            return text.Plain(names[0])
        case "csv":
            return text.Csv(
                tuple(name for name in schema.names if name not in beside),
                delimiter(options),
                word(options, "null_value", ""),
                unit,
            )
        case _:
            is_binary = form.lower().startswith(_BINARY)
            hint = f"{near(form, FORMATS)}; or a function of yours for texts, 'python:module:function'"
            raise NameFault(f"KAFKA cannot read format {form!r}", hint=_BY_SPARK if is_binary else hint)
