"""Lines of CSV and JSON text turned into rows, with bad lines set aside.

One record is one line. The Arrow readers do the work while a block is well-formed. A block of CSV in which they find
fault is cut in halves, and these again, until few lines are left beside the malformed one: only these are read line by
line. A block of JSON, also one with nested values, is then read by a typed decoder, and only what it refuses line by
line. All ways accept the same records, so where blocks are cut does not show.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from headrace.connectors.formats.conversion import convert_all, texts_of
from headrace.connectors.formats.json_records import MOMENTS, raw_type, read_records, record_reader
from headrace.model.json_columns import usual_instants
from headrace.model.schema import Schema
from headrace.model.types import DataType, Type
from headrace.storage.reading import open_to_read

BLOCK = 4 << 20
NEWLINE = b"\n"
_QUOTE = b'"'
_NOT_JSON = (b"NaN", b"Inf")  # Arrow takes them for numbers, JSON does not have them

#: So many bytes of JSON, or records of a topic, are decoded at a time: few enough for the caches of a processor.
_CACHED, _TOGETHER = 1 << 20, 1 << 12

#: So many lines are read one by one; and so often a block is cut in halves, because lines are malformed.
_FEW_LINES, _MOST_FAULTS = 128, 32

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines (or other records) of a file: their bytes, their offset, and start and end of each non-blank one."""

    data: bytes
    begin: int
    starts: Positions
    ends: Positions

    def line(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.ends[i]].rstrip(b"\r")


@dataclass(frozen=True, slots=True)
class Csv:
    """How to read CSV: the file's columns in order, the separator, and the text that stands for NULL.

    Numbers in TIMESTAMP columns count in so many microseconds from 1970.
    """

    names: tuple[str, ...]
    delimiter: str = ","
    null: str = ""
    epoch: int = 1


@dataclass(frozen=True, slots=True)
class Json:
    """How to read JSON lines: missing keys are NULL, other keys are ignored; numbers in TIMESTAMP columns as in CSV."""

    epoch: int = 1


@dataclass(frozen=True, slots=True)
class Plain:
    """How to read lines as they are: each is the value of one column, and other columns are NULL."""

    column: str


Form: TypeAlias = Csv | Json | Plain


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows that could be read, the position in the bytes of each, and (line, reason) of lines that could not."""

    rows: pl.DataFrame
    positions: Positions
    bad: Sequence[tuple[int, str]]


def blocks(
    file: BinaryIO, begin: int, end: int, *, size: int, first: int = 0, block: int | None = None, mark: bytes = NEWLINE
) -> Iterator[Lines]:
    """Read the lines that start in [begin, end) of a file of `size` bytes; the first record is at `first`.

    A line belongs to the range its first byte is in, so ranges may be cut anywhere, also within a mark. No mark may
    begin within another.
    """
    block = block or BLOCK
    position = _line_start(file, max(begin, first), first, size, mark)
    while position < end:
        file.seek(position)
        data = file.read(min(block, size - position))
        if not data:
            return
        while not data.endswith(mark) and position + len(data) < size:
            cut = data.rfind(mark)
            if cut >= 0:
                data = data[: cut + len(mark)]
                break
            more = file.read(min(block, size - position - len(data)))  # a line longer than a block
            if not more:
                break
            data += more
        lines = _lines(data, position, end, mark)
        position += len(data)
        if len(lines.starts):
            yield lines


def parse(lines: Lines, schema: Schema, form: Form) -> Parsed:
    """Turn lines into rows of `schema`."""
    match form:
        case Plain():
            return _plain(lines, schema, form)
        case Csv():
            return _CsvBlocks(schema, form).parse(lines)
        case Json():
            raw = _json_block(lines, schema)
            parsed = _json_lines(lines, schema, form) if raw is None else _judged(raw, [], lines.line, schema, form)
            return Parsed(parsed.rows, lines.starts[parsed.positions], parsed.bad)


class _CsvBlocks:
    """Reads blocks of CSV as a whole where that is possible."""

    def __init__(self, schema: Schema, form: Csv) -> None:
        self._schema, self._form = schema, form
        self._faults = 0

    def parse(self, lines: Lines) -> Parsed:
        count = len(lines.starts)
        raw = _csv_block(lines, self._schema, self._form)
        if raw is not None:
            return _typed(lines, raw, np.arange(count, dtype=np.int64), [], self._schema, self._form)
        self._faults += 1
        if count <= _FEW_LINES or self._faults > _MOST_FAULTS:
            return _one_by_one(lines, self._schema, self._form)
        half = count // 2
        parts = [self.parse(_part(lines, start, stop)) for start, stop in ((0, half), (half, count))]
        shift = int(lines.starts[half])
        return Parsed(
            pl.concat([part.rows for part in parts]),
            np.concatenate([parts[0].positions, parts[1].positions + shift]),
            [*parts[0].bad, *((line + half, why) for line, why in parts[1].bad)],
        )


def _part(lines: Lines, start: int, stop: int) -> Lines:
    """Return some of the lines; the first part begins where all of them do."""
    begin = int(lines.starts[start]) if start else 0
    end = int(lines.starts[stop]) if stop < len(lines.starts) else len(lines.data)
    return Lines(
        lines.data[begin:end], lines.begin + begin, lines.starts[start:stop] - begin, lines.ends[start:stop] - begin
    )


def parse_each(lines: Lines, schema: Schema, form: Form) -> Parsed:
    """Do the same record by record, for records that may contain line ends."""
    match form:
        case Plain():
            return _plain(lines, schema, form)
        case Csv():
            return _one_by_one(lines, schema, form)
        case Json():
            parsed = _json_lines(lines, schema, form)
            return Parsed(parsed.rows, lines.starts[parsed.positions], parsed.bad)


def parse_json(records: Sequence[bytes], schema: Schema, form: Json) -> Parsed:
    """Turn records of JSON into rows; here the position of a row is the number of its record."""

    def part(first: int, stop: int) -> Parsed:
        texts = records[first:stop]
        return _json_records(texts, schema, form, is_utf8=_is_utf8(NEWLINE.join(texts)))

    return _in_parts([*range(0, len(records), _TOGETHER), len(records)], part)


def _plain(lines: Lines, schema: Schema, form: Plain) -> Parsed:
    data, pairs = lines.data, zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
    texts = texts_of([data[start:end] for start, end in pairs]).str.strip_chars_end("\r").alias(form.column)
    wrong = texts.is_null()
    bad = [(int(line), "the line is not UTF-8") for line in wrong.arg_true()]
    frame = pl.DataFrame([texts]).filter(~wrong)
    others = [pl.lit(None, dtype=field.type.polars).alias(field.name) for field in schema if field.name != form.column]
    rows = frame.with_columns(others).select(schema.names)
    if not schema.names:
        rows = pl.DataFrame(height=frame.height)
    return Parsed(rows, lines.starts[(~wrong).to_numpy()], bad)


def lines_of(records: Sequence[bytes]) -> Lines:
    """Return records that arrived one by one as if they were lines."""
    data = NEWLINE.join([*records, b""])
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(lengths + 1) - 1
    return Lines(data, 0, ends - lengths, ends)


def count_lines(path: Path | str, begin: int, end: int) -> int:
    """Count the line ends in a range of bytes."""
    count = 0
    with open_to_read(path) as file:
        file.seek(begin)
        while begin < end and (data := file.read(min(BLOCK, end - begin))):
            count += data.count(b"\n")
            begin += len(data)
    return count


def split_csv(line: str, delimiter: str) -> list[str]:
    """Split a line into fields; raise ValueError if a quote is left open, or a carriage return stands inside."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        if "end of data" in str(error):
            raise ValueError("a quote is not closed") from None
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error as error:
        is_returned = "new-line" in str(error)
        raise ValueError("a carriage return stands inside the line" if is_returned else str(error)) from None


def _line_start(file: BinaryIO, position: int, first: int, size: int, mark: bytes) -> int:
    if position <= first:
        return position
    at = max(first, position - len(mark))
    file.seek(at)
    rest = b""  # the end of what was read, which may be the beginning of a mark
    while at < size and (data := file.read(min(65536, size - at))):
        mark_at = (rest + data).find(mark)
        if mark_at >= 0:
            return at - len(rest) + mark_at + len(mark)
        at += len(data)
        rest = (rest + data)[-(len(mark) - 1) :] if len(mark) > 1 else b""
    return size


def _lines(data: bytes, begin: int, end: int, mark: bytes) -> Lines:
    buffer = np.frombuffer(data, dtype=np.uint8)
    ends = _occurrences(buffer, mark)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends + len(mark)))
    if data.endswith(mark):
        starts = starts[:-1]
    else:
        ends = np.append(ends, len(data))
    blank = (ends == starts) | ((ends == starts + 1) & (buffer[np.minimum(starts, len(data) - 1)] == 0x0D))
    keep = ~blank & (starts + begin < end)
    starts, ends = starts[keep], ends[keep]
    stop = int(ends[-1]) + len(mark) if len(ends) else 0
    return Lines(data[:stop], begin, starts, ends)


def _occurrences(buffer: npt.NDArray[np.uint8], mark: bytes) -> Positions:
    positions = np.flatnonzero(buffer == mark[0]).astype(np.int64)
    for i, byte in enumerate(mark[1:], start=1):
        positions = positions[positions + i < len(buffer)]
        positions = positions[buffer[positions + i] == byte]
    return positions


def _csv_block(lines: Lines, schema: Schema, form: Csv) -> pl.DataFrame | None:
    """Parse all lines at once into text columns; return None if a line is malformed."""
    if _QUOTE in lines.data and _has_open_quotes(lines):
        return None
    if not _is_utf8(lines.data):
        return None
    wrong: list[object] = []

    def note(row: object) -> str:
        wrong.append(row)
        return "skip"

    columns = [name for name in form.names if schema.find(name) is not None]
    names = list(form.names)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(lines.data),
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=len(lines.data) + 1, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=form.delimiter, invalid_row_handler=note),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pa.large_string() for name in names},
                include_columns=columns or names[:1],
                null_values=[form.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if wrong or table.num_rows != len(lines.starts):
        return None
    return _from_arrow(_with_instants(table, schema))


def _has_open_quotes(lines: Lines) -> bool:
    """Return whether a line has an odd number of quotes."""
    quotes = np.flatnonzero(np.frombuffer(lines.data, dtype=np.uint8) == ord(_QUOTE))
    return bool((np.diff(np.searchsorted(quotes, np.append(lines.starts, len(lines.data)))) % 2).any())


def _with_instants(table: pa.Table, schema: Schema) -> pa.Table:
    """Read texts of timestamps where all of a column have the usual form."""
    for number, name in enumerate(table.column_names):
        field, texts = schema.find(name), table.column(number)
        if field is None or field.type is not Type.TIMESTAMP or not pa.types.is_large_string(texts.type):
            continue
        instants = usual_instants(texts)
        if instants is not None:
            table = table.set_column(number, name, instants)
    return table


_JSON_TYPES: dict[DataType, pa.DataType] = {
    Type.BOOLEAN: pa.bool_(),
    Type.INT: pa.int64(),
    Type.BIGINT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.DOUBLE: pa.float64(),
}


def _json_block(lines: Lines, schema: Schema) -> pl.DataFrame | None:
    """Parse all lines at once; return None if a line is malformed, or the schema is not flat."""
    if not all(isinstance(field.type, Type) for field in schema):
        return None
    buffer = np.frombuffer(lines.data, dtype=np.uint8)
    last = buffer[lines.ends - 1]
    returned = last == 0x0D
    if returned.any():
        last = np.where(returned, buffer[lines.ends - 2], last)
    if not ((buffer[lines.starts] == ord("{")) & (last == ord("}"))).all():
        return None
    if any(len(_occurrences(buffer, word)) for word in _NOT_JSON) or not _is_utf8(lines.data):
        return None
    # Moments are written as text or as whole microseconds; one block mostly has one of them.
    for moments in (pa.large_string(), pa.int64()):
        types = {f.name: _JSON_TYPES.get(f.type, moments if f.type in MOMENTS else pa.large_string()) for f in schema}
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(lines.data),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines.data) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            if not any(field.type in MOMENTS for field in schema):
                return None
            continue
        raw = _from_arrow(_with_instants(table, schema))
        return raw if raw.height == len(lines.starts) and not any(map(_is_doubtful, raw)) else None
    return None


def _is_doubtful(column: pl.Series) -> bool:
    """Return whether Arrow may have read another number than a decoder does: infinity for 1e999, or -0.0 for -0."""
    if not column.dtype.is_float():
        return False
    inverse = 1 / column
    return bool(column.is_infinite().any() or (inverse.is_infinite() & (inverse < 0)).any())


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or data.decode() is not None
    except UnicodeDecodeError:
        return False


def _json_lines(lines: Lines, schema: Schema, form: Json) -> Parsed:
    """Read lines by a typed decoder; the position of a row is the number of its line."""
    is_utf8 = _is_utf8(lines.data)

    def part(first: int, stop: int) -> Parsed:
        places = zip(lines.starts[first:stop].tolist(), lines.ends[first:stop].tolist(), strict=True)
        return _json_records([lines.data[begin:end] for begin, end in places], schema, form, is_utf8=is_utf8)

    cuts = np.searchsorted(lines.starts, np.arange(_CACHED, len(lines.data), _CACHED))
    return _in_parts(np.unique([0, *cuts, len(lines.starts)]).tolist(), part)


def _in_parts(borders: Sequence[int], parse_part: Callable[[int, int], Parsed]) -> Parsed:
    """Read some records at a time, those from each border to the next."""
    parts = [(first, parse_part(first, stop)) for first, stop in pairwise(borders)] or [(0, parse_part(0, 0))]
    return Parsed(
        pl.concat([part.rows for _, part in parts]),
        np.concatenate([part.positions + first for first, part in parts]),
        [(first + record, why) for first, part in parts for record, why in part.bad],
    )


def _json_records(records: Sequence[bytes], schema: Schema, form: Json, *, is_utf8: bool) -> Parsed:
    raw, refused = read_records(records, schema, is_utf8=is_utf8)
    return _judged(raw, refused.tolist(), records.__getitem__, schema, form)


def _judged(
    raw: pl.DataFrame, refused: list[int], record: Callable[[int], bytes], schema: Schema, form: Json
) -> Parsed:
    """Turn the columns of all records into their types; what was refused, or cannot be turned, is read one by one."""
    rows, failed = convert_all(raw, schema, form.epoch)
    rest = np.array(sorted({*refused, *failed}), dtype=np.int64)
    everything = np.arange(raw.height)
    if not len(rest):
        return Parsed(rows, everything, [])
    lines = lines_of(list(map(record, rest.tolist())))
    single = _one_by_one(lines, schema, form)
    keep = np.ones(raw.height, dtype=bool)
    keep[rest] = False
    positions = np.concatenate([everything[keep], rest[np.searchsorted(lines.starts, single.positions)]])
    order = np.argsort(positions)
    rows = pl.concat([rows.filter(pl.Series(keep)), single.rows])[order]
    return Parsed(rows, positions[order], [(int(rest[line]), why) for line, why in single.bad])


def _one_by_one(lines: Lines, schema: Schema, form: Csv | Json) -> Parsed:
    record = _csv_record(schema, form) if isinstance(form, Csv) else record_reader(schema)
    good: list[int] = []
    bad: list[tuple[int, str]] = []
    records: list[tuple[Any, ...]] = []
    for i in range(len(lines.starts)):
        try:
            records.append(record(lines.line(i)))
            good.append(i)
        except UnicodeDecodeError:
            bad.append((i, "the line is not UTF-8"))
        except (ValueError, msgspec.MsgspecError) as error:
            bad.append((i, str(error)))
    kinds = [pl.String() if isinstance(form, Csv) else raw_type(field.type) for field in schema]
    columns = [pl.Series(f.name, [r[k] for r in records], dtype=kinds[k], strict=False) for k, f in enumerate(schema)]
    raw = pl.DataFrame(columns) if columns else pl.DataFrame(height=len(good))
    return _typed(lines, raw, np.array(good, dtype=np.int64), bad, schema, form)


def _csv_record(schema: Schema, form: Csv) -> Callable[[bytes], tuple[Any, ...]]:
    places = [form.names.index(name) for name in schema.names]

    def record(line: bytes) -> tuple[Any, ...]:
        fields = split_csv(line.decode(), form.delimiter)
        if len(fields) != len(form.names):
            raise ValueError(f"{len(fields)} fields instead of {len(form.names)}")
        return tuple(None if fields[place] == form.null else fields[place] for place in places)

    return record


def _typed(
    lines: Lines, raw: pl.DataFrame, good: Positions, bad: list[tuple[int, str]], schema: Schema, form: Csv | Json
) -> Parsed:
    rows, failed = convert_all(raw, schema, form.epoch)
    if failed:
        keep = np.ones(len(good), dtype=bool)
        keep[list(failed)] = False
        bad = sorted([*bad, *((int(good[row]), why) for row, why in failed.items())])
        rows, good = rows.filter(pl.Series(keep)), good[keep]
    return Parsed(rows, lines.starts[good], bad)


def _from_arrow(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
