"""FILES: a stream of the records in a file or in the files that appear in a directory.

An offset is [files read completely, position in the next one]. A position counts rows in Parquet and Arrow files and
bytes in CSV and JSON text. A sequence number is the file's number and the position of the row or of the line's first
byte.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import polars as pl

from headrace.catalog.definitions import BAD, Connector, Stream
from headrace.connectors.connector import Offset, Skipped, Slice, Split
from headrace.connectors.files.index import NAMELESS, Entry, FileIndex, is_glob, named, readable_files
from headrace.connectors.files.left_out import leave_out, read_left_out
from headrace.connectors.files.parquet_groups import Groups, newest_in
from headrace.connectors.files.partitions import Partition, partition_of
from headrace.connectors.formats import columnar, text
from headrace.connectors.formats.conversion import select
from headrace.connectors.formats.messages import Messages, read_messages
from headrace.connectors.options import check_names, delimiter, epoch, flag, near, require, whole
from headrace.connectors.options import text as word
from headrace.errors import NameFault, QueryError, SourceFault, TypeFault
from headrace.model.calendar import python_rows
from headrace.model.option import Option
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.storage import files
from headrace.storage.location import absolute, location
from headrace.storage.names import file_name
from headrace.storage.reading import open_to_read, size_of

Format: TypeAlias = Literal["parquet", "arrow", "csv", "json", "text", "python"]
FORMATS: tuple[Format, ...] = ("parquet", "arrow", "csv", "json", "text")
OPTIONS = ("path", "format", "header", "delimiter", "null_value", "epoch", "terminator", "pattern", "max_rows")
_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".txt": "text", ".log": "text",
}  # fmt: skip

#: How whole files of rows end.
_ENDS: dict[Format, bytes] = {"parquet": b"PAR1", "arrow": b"ARROW1"}

#: Room for positions in a file below the file's number.
SHIFT = 40
_SAMPLE = 1 << 16
#: How files of gzip, zstd, bzip2, xz and zip begin.
_PACKED = (
    b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PK\x03\x04",
    *(b"BZh%d%s" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
)  # fmt: skip
#: The size of a file that a repair leaves out, in a split; that of one without a readable name is less.
_LEFT_OUT = -1
_REPAIR = "headrace repair --checkpoint FOLDER --skip-file"
#: Less than this is not worth a task of its own.
_LEAST_ROWS, _LEAST_BYTES = 10_000, 1 << 18
#: Nor is less than this of a Parquet group, of which a part takes more time to decode than its share.
_LEAST_CUT_ROWS = 1 << 15
#: The border of a group is near if it is off by one part in so many of the share: the longest task decides.
_NEAR = 16
#: So many rows that are left out unread count as one that is read.
_UNREAD = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files are and how they are written; `messages` where a function reads them."""

    path: str
    format: Format
    header: bool
    delimiter: str
    null: str
    pattern: str
    max_rows: int
    messages: Messages | None = None
    epoch: int = 1

    @property
    def is_text(self) -> bool:
        return self.format in ("csv", "json", "text", "python")

    @property
    def mark(self) -> bytes:
        """Return the bytes that end a record of text."""
        return text.NEWLINE if self.messages is None else self.messages.terminator


def layout(connector: Connector) -> Layout:
    """Read and check the options of a FILES connector."""
    check_names(connector, OPTIONS)
    options: Mapping[str, Option] = connector.options
    path = str(absolute(location(str(require(connector, "path", "'data/input'")))))
    form = str(options.get("format", _SUFFIXES.get(Path(path).suffix, "")))
    if not form:
        raise QueryError("FILES needs the option 'format'", hint=f"one of {', '.join(FORMATS)}")
    messages = read_messages(form, options)
    if messages is None and form not in FORMATS:
        raise NameFault(
            f"FILES cannot read format {form!r}",
            hint=f"{near(form, FORMATS)}; or a function of yours, 'python:module:function'",
        )
    max_rows = whole(options, "max_rows", 0)
    header, null, pattern = (
        flag(options, "header", True),
        word(options, "null_value", ""),
        word(options, "pattern", "*"),
    )
    chosen: Format = next((known for known in FORMATS if known == form), "python")
    return Layout(path, chosen, header, delimiter(options), null, pattern, max_rows, messages, epoch(options, form))


def check_files(connector: Connector, schema: Schema) -> None:
    """Refuse options that are wrong and paths that do not exist."""
    where = layout(connector)
    check_line_column(where, schema)
    if where.messages is not None:
        where.messages.load()
    if not is_glob(where.path):
        for path in sorted(readable_files(where.path, where.pattern))[:1]:
            _check_unpacked(path, where)


def _check_unpacked(path: str, where: Layout) -> None:
    """Refuse compressed text, whose lines begin at no known places."""
    if where.is_text and where.messages is None and _head(path).startswith(_PACKED):
        hint = f"unpack it, or let Spark read it: FROM SPARK (format '{where.format}', path '{where.path}')"
        raise SourceFault(f"{path} is compressed", hint=hint)


def _head(path: str) -> bytes:
    """Return the first line of a file."""
    with _named(path), open_to_read(path) as file:
        return file.readline()


def check_line_column(where: Layout, schema: Schema) -> None:
    """Refuse columns of which none can hold a line of text."""
    first = next(iter(schema), None)
    if where.format == "text" and (first is None or first.type is not Type.STRING):
        said = "none" if first is None else f"{first.name} {first.type.value}"
        raise TypeFault(
            f"FILES: the first column holds the lines of format 'text' and is a STRING, not {said}",
            hint="declare (line STRING); further columns are those of directories such as day=7",
        )


class FilesSource:
    """Reads files in the order in which they appeared."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        self._schema = stream.schema
        self._time_column = stream.time_column
        self._layout = layout(stream.connector)
        self._log = _log_of(stream, checkpoint / "sources" / file_name(stream.name))
        self._files: FileIndex | None = None
        self._left_out = frozenset[int]()  # numbers of files that a repair leaves out; known with the list
        self._foldable: int | None = None  # files of which the list can do without, as `keeps` has said

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": None, "_foldable": None}

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Look for new files and go about `limit` records on."""
        return self._latest(start, limit, lambda entry: None)

    def latest_without(
        self, start: Offset, columns: tuple[str, ...] | None, unneeded: Sequence[Pattern], *, now: int, limit: int
    ) -> Offset:
        """Do as `latest`; of files and groups of Parquet files that are not needed, only the metadata is read."""
        schema = select(self._schema, columns)
        return self._latest(start, limit, lambda entry: self._unneeded(entry, schema, unneeded))

    def _latest(self, start: Offset, limit: int, skipping: Callable[[Entry], Callable[[int], bool] | None]) -> Offset:
        index = self._index()
        index.refresh()
        number, position = start or [0, 0]
        remaining = min(limit, self._layout.max_rows or limit)
        while number < len(index) and remaining > 0:
            entry = index[number]
            if self._is_left_out(number):
                number, position, remaining = number + 1, 0, remaining - 1
                continue
            position = max(position, entry.begin)
            skip = skipping(entry)
            if not self._layout.is_text:
                end, taken = self._row_end(
                    entry, position, remaining, first=[number, position] == (start or [0, 0]), skip=skip
                )
            elif skip is not None:
                end, taken = None, 1
            else:
                end, taken = self._text_end(entry, position, remaining)
            remaining -= max(taken, 1)
            number, position = (number + 1, 0) if end is None else (number, end)
            if end is not None:
                break
        return [number, position]

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Divide by files, row groups or byte ranges; a split is a list of [file number, path, size, from, to]."""
        index = self._index()
        (number, position), (last, stop) = start or (0, 0), end or (0, 0)
        pieces = []
        while (number, position) < (last, stop):
            entry = index[number]
            position = max(position, entry.begin)
            if self._is_left_out(number):  # one bad record, with the micro-batch that goes on behind the file
                entry = msgspec.structs.replace(entry, size=min(entry.size, _LEFT_OUT))
                until = position if number == last else position + 1
            else:
                until = stop if number == last else self._length(entry)
            if position < until:
                pieces.append((number, entry, position, until))
            number, position = number + 1, 0
        least = _LEAST_BYTES if self._layout.is_text else _LEAST_ROWS
        target = max(least, -(-sum(piece[3] - piece[2] for piece in pieces) // max(parallel, 1)))
        return self._share(pieces, target)

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Read pieces of files; with `columns`, only these are read, checked and returned."""
        schema = select(self._schema, columns)
        for number, path, size, begin, end in split:
            yield from self._read_piece(number, path, size, begin, end, schema)

    def read_without(
        self,
        split: Split,
        columns: tuple[str, ...] | None,
        unneeded: Sequence[Pattern],
        *,
        newest: int | None = None,
    ) -> Iterator[Slice | Skipped]:
        """Leave out files by their directories and Parquet groups by their statistics where they are not needed."""
        schema = select(self._schema, columns)
        for number, path, size, begin, end in split:
            partition = self._partition(path)
            if self._layout.format != "parquet" or size <= _LEFT_OUT:
                if size > _LEFT_OUT and partition.is_unneeded(schema, self._time_column, unneeded):
                    # unopened, text does not tell how many records it holds
                    records, length = (0, end - begin) if self._layout.is_text else (end - begin, size)
                    yield Skipped(records, length, partition.newest(self._time_column))
                else:
                    yield from self._read_piece(number, path, size, begin, end, schema)
                continue
            _check_present(path, size)
            groups = Groups(path, schema, self._time_column, unneeded, partition)
            for piece in self._read_piece(number, path, size, begin, end, schema, groups.skip):
                yield from groups.take_skipped()  # in the order of the file: what follows may be late
                yield piece
            yield from groups.take_skipped()

    def newest(self, split: Split, columns: tuple[str, ...] | None) -> int | None:
        """Return the newest timestamp of pieces of Parquet files by their statistics, if all rows are good."""
        if self._layout.format != "parquet" or self._time_column is None:
            return None
        schema, times = select(self._schema, columns), []
        for _, path, size, begin, end in split:
            if size <= _LEFT_OUT:
                return None
            _check_present(path, size)
            newest = newest_in(path, begin, end, self._partition(path).stored(schema), self._time_column)
            if newest is None:
                return None
            times.append(newest)
        return max(times, default=None)

    def finished(self, offset: Offset) -> bool:
        index = self._index()
        index.refresh()
        return bool((offset or [0, 0])[0] >= len(index)) and not index.is_waiting

    def unread(self, offset: Offset) -> int:
        """Return the number of bytes after an offset; within a file of rows, in proportion to the rows."""
        index = self._index()
        number, position = map(int, offset or (0, 0))
        waiting = index.bytes_before(len(index)) - index.bytes_before(number)
        if number >= len(index) or not position or self._is_left_out(number):
            return waiting
        entry = index[number]
        done = max(0, position - entry.begin)
        return waiting - (done if self._layout.is_text else entry.size * position // max(1, self._length(entry)))

    def hurry(self) -> None:
        """Read what there is of files that are still being written: the stream ends."""
        self._index().hurry()

    def keeps(self, offset: Offset) -> bool:
        """Say whether `forget` would shorten the list of files; the files themselves are not ours."""
        number = (offset or [0, 0])[0]
        self._foldable = number if self._index().is_foldable(number) else None
        return self._foldable is not None

    def forget(self, offset: Offset) -> None:
        """Let go what the list says of files before an offset, if that is worth it."""
        if self._foldable is not None and self._foldable <= (offset or [0, 0])[0]:
            self._index().fold(self._foldable)
        self._foldable = None

    def leave_out(self, path: str) -> bool:
        """Read nothing more of a file from the next start on, durably; return whether it is known here."""
        numbers = frozenset(self._index().numbers_of(path))
        if numbers:
            leave_out(self._log, numbers)
        return bool(numbers)

    def _is_left_out(self, number: int) -> bool:
        """Return whether nothing is read of a file, because of a repair or of its name."""
        return number in self._left_out or self._index()[number].size == NAMELESS

    def _index(self) -> FileIndex:
        if self._files is None:
            mark = self._layout.mark if self._layout.is_text else None
            end = _ENDS.get(self._layout.format)
            self._files = FileIndex(self._log, self._layout.path, self._layout.pattern, mark=mark, end=end)
            self._left_out = read_left_out(self._log)
        return self._files

    def _length(self, entry: Entry) -> int:
        return entry.size if self._layout.is_text else sum(self._groups(entry))

    def _groups(self, entry: Entry) -> tuple[int, ...]:
        _check_present(entry.path, entry.size)
        return columnar.groups(entry.path, self._layout.format)

    def _partition(self, path: str) -> Partition:
        return partition_of(path, self._layout.path, self._schema)

    def _unneeded(self, entry: Entry, schema: Schema, unneeded: Sequence[Pattern]) -> Callable[[int], bool] | None:
        """Return the groups of a file that may be left out; None if there are none."""
        partition = self._partition(entry.path)
        if self._layout.format != "parquet":
            return (lambda group: True) if partition.is_unneeded(schema, self._time_column, unneeded) else None
        self._groups(entry)  # complains of a file that cannot be read
        return Groups(entry.path, schema, self._time_column, unneeded, partition).is_unneeded

    def _read_piece(
        self,
        number: int,
        path: str,
        size: int,
        begin: int,
        end: int,
        schema: Schema,
        skip: Callable[[int, int, int], bool] | None = None,
    ) -> Iterator[Slice]:
        if size <= _LEFT_OUT:
            repaired = "the file could not be read, and was left out by headrace repair"
            why = "the name of the file is not UTF-8: rename it, and it is read" if size == NAMELESS else repaired
            yield Slice(
                pl.DataFrame(schema=schema.polars()),
                pl.Series("seq", [], dtype=pl.Int64),
                bad_frame([""], [why], [named(path)]),
            )
            return
        _check_present(path, size)
        partition = self._partition(path)
        stored = partition.stored(schema)
        if self._layout.is_text:
            pieces = self._read_text(number, path, size, begin, end, stored)
        else:
            pieces = self._read_columns(number, path, begin, end, stored, skip)
        yield from (partition.complete(piece, schema) for piece in pieces)

    def _row_end(
        self, entry: Entry, position: int, remaining: int, *, first: bool, skip: Callable[[int], bool] | None = None
    ) -> tuple[int | None, int]:
        """Return where to stop in a file (None: at its end) and how many rows that costs.

        It stops at the border of a group, or inside the `first` group.
        """
        groups = self._groups(entry)
        border, best, taken = 0, position, 0
        for number, count in enumerate(groups):
            begin, border = border, border + count
            if border <= position:
                continue
            cost = border - max(begin, position)
            if skip is not None and begin >= position and skip(number):
                cost = -(-cost // _UNREAD)
            if taken + cost > remaining:
                break
            best, taken = border, taken + cost
        end = sum(groups)
        if first and best == position and end > position:
            best, taken = min(position + remaining, end), remaining
        return (None if best >= end else best), taken

    def _text_end(self, entry: Entry, position: int, remaining: int) -> tuple[int | None, int]:
        """Do the same for text, by the length of the lines at `position`."""
        _check_present(entry.path, entry.size)
        with _named(entry.path), open_to_read(entry.path) as file:
            file.seek(position)
            sample = file.read(min(_SAMPLE, entry.size - position))
        per_line = len(sample) / max(sample.count(self._layout.mark), 1)
        end = position + int(remaining * per_line) + 1
        if end >= entry.size:
            return None, int((entry.size - position) / max(per_line, 1))
        return end, remaining

    def _share(self, pieces: list[tuple[int, Entry, int, int]], target: int) -> list[Split]:
        shares: list[list[list[Any]]] = [[]]
        filled = 0
        for number, entry, begin, end in pieces:
            while begin < end:
                cut = (
                    end
                    if filled + end - begin <= target * 1.2
                    else self._cut(entry, begin, end, begin + target - filled)
                )
                shares[-1].append([number, entry.path, entry.size, begin, cut])
                filled += cut - begin
                begin = cut
                if filled >= target * 0.8:
                    shares.append([])
                    filled = 0
        return [share for share in shares if share]

    def _cut(self, entry: Entry, begin: int, end: int, wish: int) -> int:
        """Return where to cut a piece: anywhere in text and Arrow, between groups in Parquet if there is a border near.

        A long Parquet group is cut, too, unless it is decoded from its start for every part.
        """
        wish = max(begin + 1, min(wish, end))
        if self._layout.format != "parquet":
            return wish
        borders = [at for at in itertools.accumulate(self._groups(entry)) if begin < at < end]
        border = min([*borders, end], key=lambda border: abs(border - wish))
        is_near = _NEAR * abs(border - wish) <= wish - begin
        is_long = min(wish - begin, end - wish) >= _LEAST_CUT_ROWS
        names = self._partition(entry.path).stored(self._schema).names
        return wish if not is_near and is_long and columnar.can_cut(entry.path, tuple(names), wish - begin) else border

    def _read_columns(
        self,
        number: int,
        path: str,
        begin: int,
        end: int,
        schema: Schema,
        skip: Callable[[int, int, int], bool] | None = None,
    ) -> Iterator[Slice]:
        columnar.check_columns(path, self._layout.format, schema)
        for first, raw in columnar.read_rows(path, self._layout.format, begin, end, schema, skip):
            rows, wrong, reasons = columnar.typed(raw, schema)
            seq = pl.int_range(
                (number << SHIFT) + first, (number << SHIFT) + first + raw.height, dtype=pl.Int64, eager=True
            ).alias("seq")
            if wrong is None:
                yield Slice(rows, seq)
                continue
            records = [json.dumps(row, default=str) for row in python_rows(raw.filter(wrong))]
            origins = [f"{path}:{first + at + 1}" for at in wrong.arg_true()]
            yield Slice(rows.filter(~wrong), seq.filter(~wrong), bad_frame(records, reasons, origins))

    def _read_text(self, number: int, path: str, size: int, begin: int, end: int, schema: Schema) -> Iterator[Slice]:
        head = _head(path)
        if head.startswith(_PACKED) and self._layout.messages is None and not self._has_header:
            if begin == 0:
                origin = bad_frame([""], ["the file is compressed: unpack it, or read it FROM SPARK"], [path])
                yield Slice(pl.DataFrame(schema=schema.polars()), pl.Series("seq", [], dtype=pl.Int64), origin)
            return
        form, first = self._form(path, head, schema)
        counted, line = 0, 1  # bytes up to which line ends are counted, and the number of the line there
        with _named(path), open_to_read(path) as file:
            for lines in text.blocks(file, begin, end, size=size, first=first, mark=self._layout.mark):
                parsed = form.parse(lines, schema) if isinstance(form, Messages) else text.parse(lines, schema, form)
                seq = pl.Series("seq", (number << SHIFT) + lines.begin + parsed.positions, dtype=pl.Int64)
                if not parsed.bad:
                    yield Slice(parsed.rows, seq)
                    continue
                line += text.count_lines(path, counted, lines.begin)
                counted = lines.begin
                yield Slice(parsed.rows, seq, bad_lines(lines, parsed.bad, path, line))

    @property
    def _has_header(self) -> bool:
        return self._layout.format == "csv" and self._layout.header

    def _form(self, path: str, head: bytes, schema: Schema) -> tuple[text.Form | Messages, int]:
        """Return how to parse a file with this first line, and where its first record begins."""
        mark = 3 if head.startswith(b"\xef\xbb\xbf") else 0
        if self._layout.messages is not None:
            return self._layout.messages, mark
        if self._layout.format == "json":
            return text.Json(self._layout.epoch), mark
        if self._layout.format == "text":
            return text.Plain(self._schema.names[0]), mark
        if not self._layout.header:
            return self._csv(self._schema.names), mark
        try:
            names = (
                tuple(
                    name.strip() for name in text.split_csv(head[mark:].decode().rstrip("\r\n"), self._layout.delimiter)
                )
                if head
                else ()
            )
        except ValueError as error:
            why = "it is compressed: unpack it" if head.startswith(_PACKED) else f"write it in UTF-8: {error}"
            raise SourceFault(
                f"{path}: the header line cannot be read", hint=f"{why}; or leave it out: {_REPAIR} {path}"
            ) from error
        for field in schema if head else ():
            if names.count(field.name) != 1:
                raise SourceFault(
                    f"{path} has {'no' if field.name not in names else 'more than one'} column {field.name!r}",
                    hint=f"its first line names {', '.join(names)}; say header false if that is a record, or leave the "
                    f"file out: {_REPAIR} {path}",
                )
        return self._csv(names), len(head)

    def _csv(self, names: tuple[str, ...]) -> text.Csv:
        return text.Csv(names, self._layout.delimiter, self._layout.null, self._layout.epoch)


def bad_frame(records: Sequence[str], reasons: Sequence[str], origins: Sequence[str]) -> pl.DataFrame:
    """Return bad records as rows of BAD."""
    return pl.DataFrame([records, reasons, origins], schema=BAD.polars())


def bad_lines(lines: text.Lines, bad: Sequence[tuple[int, str]], origin: str, line: int) -> pl.DataFrame:
    """Return bad lines as rows of BAD; the bytes of `lines` begin at line number `line` of `origin`."""
    records = [lines.line(i).decode(errors="replace") for i, _ in bad]
    origins, counted = [], 0
    for i, _ in bad:
        line += lines.data.count(b"\n", counted, lines.starts[i])
        counted = lines.starts[i]
        origins.append(f"{origin}:{line}")
    return bad_frame(records, [why for _, why in bad], origins)


def _log_of(stream: Stream, folder: Path) -> Path:
    """Return the index of a stream's files: another source of the same name has another; older checkpoints have one."""
    return folder / ("files.jsonl" if "files.jsonl" in files.names(folder) else f"files-{stream.source}.jsonl")


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the file that cannot be read."""
    try:
        yield
    except OSError as error:
        raise SourceFault(
            f"{path} cannot be read: {error.strerror or error}",
            hint=f"put it back as it was, give the right to read, or leave it out: {_REPAIR} {path}",
        ) from error


def _check_present(path: str, size: int) -> None:
    try:
        size_now = size_of(path)
    except FileNotFoundError:
        raise SourceFault(
            f"{path} was deleted before it was read",
            hint=f"put it back, or leave it out: {_REPAIR} {path}",
        ) from None
    except OSError as error:
        raise SourceFault(f"{path} cannot be read: {error.strerror}", hint="give the right to read it") from error
    if size_now < size:
        raise SourceFault(
            f"{path} had {size} bytes when it was listed and has {size_now} now",
            hint=f"files must not change; put the whole file back, or leave it out: {_REPAIR} {path}",
        )
