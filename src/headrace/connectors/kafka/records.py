"""Records of a partition as rows: JSON objects, CSV lines, Arrow tables, or the output of a user's function."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.ipc

from headrace.connectors.connector import Slice
from headrace.connectors.files.source import bad_frame
from headrace.connectors.formats import columnar, text
from headrace.connectors.formats.conversion import can_convert, texts_of
from headrace.connectors.formats.messages import Messages
from headrace.connectors.kafka.client import Records
from headrace.connectors.kafka.keys import murmur2
from headrace.model.calendar import python_rows
from headrace.model.schema import Schema
from headrace.model.types import Type


@dataclass(frozen=True, slots=True)
class Arrow:
    """Each record is a whole Arrow table, as a stream or as a file."""


Form: TypeAlias = text.Form | Messages | Arrow

#: A sequence number: the partition, the offset, and the row in a record of several; what has no room only ceases to
#: break ties.
_ROW_BITS, _OFFSET_BITS, _PARTITION_BITS = 14, 37, 12


@dataclass(frozen=True, slots=True)
class Reading:
    """How the records of a topic are read: the format of their values, and the columns that are elsewhere in a record.

    The key is in the value, too; time, partition and offset are not.
    """

    topic: str
    form: Form
    time_of_record: str | None
    key: str | None
    partition: str | None = None
    offset: str | None = None

    @property
    def beside(self) -> frozenset[str | None]:
        """Return the columns that are not in the value of a record."""
        return frozenset((self.time_of_record, self.partition, self.offset))

    def slice_of(
        self, records: Records, partition: int, counts: Sequence[int], schema: Schema, columns: Schema
    ) -> Slice:
        """Parse records into rows with the columns `columns`.

        `schema` has all columns, and the topic had these `counts` of partitions.
        """
        beside = self.beside
        looked_at = Schema(
            tuple(f for f in schema if f.name not in beside and (f.name in columns.names or f.name == self.key))
        )
        rows, owner, place, bad = self._rows(records, looked_at)
        if self.time_of_record is not None:
            stamps = pl.Series(self.time_of_record, records.stamps[owner] * 1000, dtype=pl.Int64)
            rows = rows.with_columns(stamps.cast(Type.TIMESTAMP.polars).set(pl.Series(records.stamps[owner] < 0), None))
        if self.partition is not None:
            rows = rows.with_columns(pl.repeat(partition, len(owner), dtype=pl.Int32, eager=True).alias(self.partition))
        if self.offset is not None:
            rows = rows.with_columns(pl.Series(self.offset, records.offsets[owner], dtype=pl.Int64))
        if self.key is not None and rows.height:
            wrong = self._misplaced(records, rows[self.key], owner, partition, counts)
            if wrong:
                bad |= {int(owner[row]): why for row, why in wrong.items()}
                keep = np.ones(rows.height, dtype=bool)
                keep[list(wrong)] = False
                rows, owner, place = rows.filter(pl.Series(keep)), owner[keep], place[keep]
        seq = pl.Series("seq", _numbers(partition, records.offsets[owner], place), dtype=pl.Int64)
        return Slice(
            rows.select(columns.names) if columns.names else rows.select([]), seq, self._bad(records, partition, bad)
        )

    def _rows(
        self, records: Records, schema: Schema
    ) -> tuple[pl.DataFrame, npt.NDArray[np.int64], npt.NDArray[np.int64], dict[int, str]]:
        """Return the rows, the record of each, its place there, and why records are bad."""
        if isinstance(self.form, Arrow):
            return _tables(records, schema)
        bad: dict[int, str] = {}
        if None in records.values:
            bad = {i: "the record has no value" for i, value in enumerate(records.values) if value is None}
        if isinstance(self.form, text.Csv):
            bad |= {
                i: "a record of CSV is one line"
                for i, value in enumerate(records.values)
                if value is not None and b"\n" in value.rstrip(b"\r\n")
            }
        good = np.delete(np.arange(len(records.values), dtype=np.int64), list(bad))
        rest = records.values if not bad else [records.values[i] for i in good.tolist()]
        if isinstance(self.form, text.Json):
            parsed = text.parse_json(cast("Sequence[bytes]", rest), schema, self.form)
            bad |= {int(good[i]): why for i, why in parsed.bad}
            return parsed.rows, good[parsed.positions], np.zeros_like(parsed.positions), bad
        values = [value.rstrip(b"\r\n") for value in rest if value is not None]
        lines = text.lines_of(values)
        if isinstance(self.form, Messages):
            parsed = self.form.parse(lines, schema)
        elif lines.data.count(text.NEWLINE) == len(values):
            parsed = text.parse(lines, schema, self.form)
        else:  # what has several lines must not be taken for several records
            parsed = text.parse_each(lines, schema, self.form)
        bad |= {int(good[i]): why for i, why in parsed.bad}
        at = np.searchsorted(lines.starts, parsed.positions, side="right") - 1
        return parsed.rows, good[at], parsed.positions - lines.starts[at], bad

    def _misplaced(
        self, records: Records, column: pl.Series, owner: npt.NDArray[np.int64], partition: int, counts: Sequence[int]
    ) -> dict[int, str]:
        """Return the rows whose record is not in the partition of its key.

        A reader that skips partitions would not find them, so every reader treats them as bad.
        """
        values = [records.keys[i] for i in owner]
        keys, said = pl.Series(values, dtype=pl.Binary), texts_of(values)
        differs = ~column.cast(pl.String).eq_missing(said) | column.is_null()
        wrong = {
            row: f"its key is {_shown(keys[row])}, but {self.key} is {column[row]!r}" for row in differs.arg_true()
        }
        away = [
            key for key in keys.drop_nulls().unique() if not any(murmur2(key) % count == partition for count in counts)
        ]
        if away:
            for row in keys.is_in(pl.Series(away, dtype=pl.Binary).implode()).arg_true():
                wrong.setdefault(
                    row,
                    f"its key {_shown(keys[row])} does not belong into partition {partition} of {counts[-1]} (murmur2)",
                )
        return wrong

    def _bad(self, records: Records, partition: int, bad: dict[int, str]) -> pl.DataFrame | None:
        if not bad:
            return None
        order = sorted(bad)
        values = [(records.values[i] or b"").decode(errors="replace") for i in order]
        return bad_frame(
            values, [bad[i] for i in order], [f"{self.topic}:{partition}:{records.offsets[i]}" for i in order]
        )


def _tables(
    records: Records, schema: Schema
) -> tuple[pl.DataFrame, npt.NDArray[np.int64], npt.NDArray[np.int64], dict[int, str]]:
    frames: list[pl.DataFrame] = []
    owners: list[int] = []
    bad: dict[int, str] = {}
    for i, value in enumerate(records.values):
        try:
            frame = _table(value, schema)
        except BaseException as error:
            if not columnar.is_unreadable(error):
                raise
            bad[i] = str(error)
            continue
        rows, wrong, reasons = columnar.typed(frame, schema)
        if wrong is not None:  # as a message, a table is bad as a whole
            bad[i] = f"{reasons[0]}: {json.dumps(python_rows(frame.filter(wrong)[:1])[0], default=str)}"
            continue
        frames.append(rows)
        owners.append(i)
    heights = [frame.height for frame in frames]
    place = (
        np.concatenate([np.arange(height, dtype=np.int64) for height in heights])
        if frames
        else np.zeros(0, dtype=np.int64)
    )
    rows = (
        pl.concat(frames)
        if frames and schema.names
        else pl.DataFrame(schema=schema.polars())
        if schema.names
        else pl.DataFrame(height=len(place))
    )
    return rows, np.repeat(np.array(owners, dtype=np.int64), heights), place, bad


def _table(value: bytes | None, schema: Schema) -> pl.DataFrame:
    if value is None:
        raise ValueError("the record has no value")
    buffer = pa.BufferReader(value)
    reader = pa.ipc.open_file(buffer) if value.startswith(b"ARROW1") else pa.ipc.open_stream(buffer)
    table = columnar.checked(reader.read_all())
    for field in schema:
        if table.schema.names.count(field.name) != 1:
            raise ValueError(f"the table has no column {field.name!r}, or several")
    if not schema.names:
        return pl.DataFrame(height=table.num_rows)
    frame = pl.from_arrow(table.select(list(schema.names)))
    assert isinstance(frame, pl.DataFrame)
    for field in schema:
        if not can_convert(frame[field.name].dtype, field.type):
            raise ValueError(
                f"column {field.name!r} is {frame[field.name].dtype}, which cannot be read as {field.type.value}"
            )
    return frame


def _numbers(partition: int, offsets: npt.NDArray[np.int64], place: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    high = np.int64(partition & (1 << _PARTITION_BITS) - 1) << (_OFFSET_BITS + _ROW_BITS)
    numbers: npt.NDArray[np.int64] = (
        high | (offsets & ((1 << _OFFSET_BITS) - 1)) << _ROW_BITS | np.minimum(place, (1 << _ROW_BITS) - 1)
    )
    return numbers


def _shown(key: bytes | None) -> str:
    return "missing" if key is None else repr(key.decode(errors="replace"))
