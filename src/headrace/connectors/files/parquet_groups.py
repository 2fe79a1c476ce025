"""What the statistics of a Parquet file say about its row groups: which of them hold nothing that anybody needs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq

from headrace.connectors.connector import Skipped
from headrace.connectors.files.partitions import Partition
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import Between, Value
from headrace.model.patterns.pattern import STAMP, Pattern, covers, pattern
from headrace.model.schema import Schema
from headrace.model.types import Type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Groups:
    """The row groups of one file, for readers of `schema` that do not need rows matching a pattern of `unneeded`."""

    def __init__(
        self, path: str, schema: Schema, time_column: str | None, unneeded: Sequence[Pattern], partition: Partition
    ) -> None:
        self._partition = partition
        self._metadata = pq.read_metadata(path)
        self._schema, self._time_column, self._unneeded = schema, time_column, unneeded
        self._places = {self._metadata.schema.column(i).path: i for i in range(self._metadata.num_columns)}
        self.skipped: Skipped | None = None

    def skip(self, number: int) -> bool:
        """Say whether a group can be skipped, and count it if so."""
        if not self.is_unneeded(number):
            return False
        group = self._metadata.row_group(number)
        size = sum(
            group.column(self._places[name]).total_compressed_size
            for name in self._schema.names
            if name in self._places
        )
        newest = self._limits(group, self._time_column, Type.TIMESTAMP) if self._time_column is not None else None
        before = self.skipped or Skipped(0, 0, None)
        newest_time = newest[1] if newest else self._partition.newest(self._time_column)
        times = [time for time in (before.newest, newest_time) if isinstance(time, int)]
        self.skipped = Skipped(before.records + group.num_rows, before.size + size, max(times, default=None))
        return True

    def is_unneeded(self, number: int) -> bool:
        """Say whether all rows of a group match one pattern."""
        held = self._held(self._metadata.row_group(number))
        return held is not None and any(covers(condition, held) for condition in self._unneeded)

    def _held(self, group: Any) -> Pattern | None:
        """Return a pattern that all rows of a group match; None if their newest timestamp is unknown."""
        terms = self._partition.terms(self._schema, self._time_column)
        for field in self._schema:
            if field.name in self._partition.columns:
                continue
            limits = self._limits(group, field.name, field.type)
            if limits is not None:
                terms.append((Column(field.name, field.type), Between(*limits)))
            if field.name == self._time_column:
                if limits is None:
                    return None
                terms.append((STAMP, Between(*limits)))
        return pattern(*terms)

    def _limits(self, group: Any, name: str, type_: Type) -> tuple[Value, Value] | None:
        """Return the least and the greatest value of a column without NULLs."""
        statistics = group.column(self._places[name]).statistics if name in self._places else None
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return None
        low, high = _value(statistics.min, type_), _value(statistics.max, type_)
        return None if low is None or high is None else (low, high)


def _value(statistic: Any, type_: Type) -> Value | None:
    """Return a value of the statistics as patterns have it; None for types that Parquet orders differently."""
    match type_:
        case Type.TIMESTAMP if isinstance(statistic, dt.datetime):
            return (statistic.replace(tzinfo=statistic.tzinfo or dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)
        case Type.INT | Type.BIGINT if isinstance(statistic, int):
            return statistic
        case Type.DOUBLE if isinstance(statistic, float) and statistic == statistic:
            return statistic
        case Type.BOOLEAN if isinstance(statistic, bool):
            return statistic
        case _:
            return None
