"""What the statistics of a Parquet file say about its row groups: which of them hold nothing that anybody needs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import polars as pl

from headrace.connectors.connector import Skipped
from headrace.connectors.files.partitions import Partition
from headrace.connectors.formats.columnar import metadata
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import Between, Value
from headrace.model.patterns.pattern import STAMP, Pattern, covers, pattern
from headrace.model.schema import Schema
from headrace.model.types import DataType, Type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Groups:
    """The row groups of one file, for readers of `schema` that do not need rows matching a pattern of `unneeded`."""

    def __init__(
        self, path: str, schema: Schema, time_column: str | None, unneeded: Sequence[Pattern], partition: Partition
    ) -> None:
        self._partition = partition
        self._metadata = metadata(path)
        self._schema, self._time_column, self._unneeded = schema, time_column, unneeded
        self._places = {self._metadata.schema.column(i).path: i for i in range(self._metadata.num_columns)}
        self._skipped: Skipped | None = None

    def skip(self, number: int, begin: int, end: int) -> bool:
        """Say whether these rows of a group can be skipped, and count them if so."""
        if not self.is_unneeded(number):
            return False
        group = self._metadata.row_group(number)
        size = sum(
            group.column(self._places[name]).total_compressed_size
            for name in self._schema.names
            if name in self._places
        )
        before = self._skipped or Skipped(0, 0, None)
        # the newest of the group may be in its last row
        newest = self._newest(group) if end == group.num_rows else None
        times = [time for time in (before.newest, newest) if isinstance(time, int)]
        share = size * (end - begin) // group.num_rows
        self._skipped = Skipped(before.records + end - begin, before.size + share, max(times, default=None))
        return True

    def _newest(self, group: Any) -> Value | None:
        limits = self._limits(group, self._time_column, Type.TIMESTAMP) if self._time_column is not None else None
        return limits[1] if limits else self._partition.newest(self._time_column)

    def take_skipped(self) -> list[Skipped]:
        """Return the groups that were skipped since the last call, as one or none."""
        skipped, self._skipped = self._skipped, None
        return [] if skipped is None else [skipped]

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

    def _limits(self, group: Any, name: str, type_: DataType) -> tuple[Value, Value] | None:
        """Return the least and the greatest value of a column without NULLs."""
        statistics = group.column(self._places[name]).statistics if name in self._places else None
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return None
        low, high = _value(statistics.min, type_), _value(statistics.max, type_)
        return None if low is None or high is None else (low, high)


def newest_in(path: str, begin: int, end: int, schema: Schema, time_column: str) -> int | None:
    """Return the greatest timestamp of the rows [begin, end) of a file; None if its statistics do not tell.

    They tell it for whole groups, and if every row is good: the file has the declared types.
    """
    known = metadata(path)
    types = pl.Schema(known.schema.to_arrow_schema())
    if not all(_is_declared(types.get(field.name), field.type) for field in schema):
        return None
    columns = [known.schema.column(i).path for i in range(known.num_columns)]
    if time_column not in columns:
        return None
    place, first, times = columns.index(time_column), 0, []
    for number in range(known.num_row_groups):
        group = known.row_group(number)
        after = first + group.num_rows
        if first < end and after > begin:
            statistics = group.column(place).statistics
            if first < begin or after > end or statistics is None or not statistics.has_min_max:
                return None
            newest = _value(statistics.max, Type.TIMESTAMP)
            if not isinstance(newest, int):
                return None
            times.append(newest)
        first = after
    return max(times, default=None)


def _is_declared(dtype: pl.DataType | None, type_: DataType) -> bool:
    """Return whether every value of a column can be read as a type; a zone does not matter."""
    return dtype == type_.polars or (
        type_ is Type.TIMESTAMP and isinstance(dtype, pl.Datetime) and dtype.time_unit == "us"
    )


def _value(statistic: Any, type_: DataType) -> Value | None:
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
