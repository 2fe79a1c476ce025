"""SOCKET: JSON lines from a TCP server, kept on disk so that they can be read again.

A thread of the driver receives; `latest` moves the complete lines that came to a spool of segment files and forces them
to disk. An offset is a byte position in the spool. What arrived but was not yet spooled is lost in a crash: TCP cannot
replay.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.definitions import Connector, Stream
from headrace.connectors.connector import Offset, Slice, Split
from headrace.connectors.files.source import bad_lines
from headrace.connectors.formats import text
from headrace.connectors.formats.conversion import select
from headrace.connectors.options import check_names, epoch, require, whole
from headrace.errors import SourceFault
from headrace.model.limits import LINE_BYTES
from headrace.storage import files
from headrace.storage.names import file_name

_LOG = logging.getLogger(__name__)

OPTIONS = ("host", "port", "epoch")
_SEGMENT = 64 << 20
_SUFFIX = ".lines"
_SAMPLE = 1 << 16
_WAITING = 64 << 20  # bytes in memory; beyond that the peer has to wait
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


def address(connector: Connector) -> tuple[str, int]:
    """Read and check the options of a SOCKET source."""
    check_names(connector, OPTIONS)
    require(connector, "port", "9999")
    epoch(connector.options, "json")
    return str(connector.options.get("host", "localhost")), whole(connector.options, "port", 0, least=1)


class SocketSource:
    """Spools and reads what a server sends."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        self._schema = stream.schema
        self._address = address(stream.connector)
        self._form = text.Json(epoch(stream.connector.options, "json"))
        self._directory = Path(checkpoint) / "sources" / file_name(stream.name)
        self._receiver: _Receiver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_receiver": None}

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        """Spool what has come, and go about `limit` lines on; never waits for the peer."""
        if self._receiver is None:
            self._receiver = _Receiver(self._address)
            weakref.finalize(self, self._receiver.stop)
        self._append(self._receiver.take())
        begin, end = start or 0, self._end()
        if end <= begin:
            return start
        first, path = self._segment_of(begin)
        with path.open("rb") as file:
            file.seek(begin - first)
            sample = file.read(_SAMPLE)
        return min(end, begin + 1 + int(limit * len(sample) / max(1, sample.count(b"\n"))))

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        """Cut by bytes; a split is [segment's first byte, from, to]. A line belongs to where its first byte is."""
        begin, splits = start or 0, []
        target = max(1 << 18, -(-((end or 0) - begin) // max(1, parallel)))
        segments = [*(first for first, _ in self._segments()), self._end()]
        for first, after in itertools.pairwise(segments):
            low = max(begin, first)
            while low < min(after, end or 0):
                high = min(after, end, low + target)
                splits.append([first, low, high])
                low = high
        if splits and splits[0][1] != begin:
            raise SourceFault(
                f"the spool {self._directory} no longer holds position {begin}",
                hint="restore the checkpoint, or start with a new one",
            )
        return splits

    def read(self, split: Split, columns: tuple[str, ...] | None = None) -> Iterator[Slice]:
        """Read lines; with `columns`, only these are looked at."""
        first, begin, end = split
        schema = select(self._schema, columns)
        path = self._directory / _segment_name(first)
        origin = f"{self._address[0]}:{self._address[1]}"
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise SourceFault(
                f"{path} was deleted before it was read", hint="restore the checkpoint, or start with a new one"
            ) from None
        with path.open("rb") as file:
            for lines in text.blocks(file, begin - first, end - first, size=size):
                parsed = text.parse(lines, schema, self._form)
                seq = pl.Series("seq", first + lines.begin + parsed.positions, dtype=pl.Int64)
                bad = (
                    bad_lines(lines, parsed.bad, origin, 1 + text.count_lines(path, 0, lines.begin))
                    if parsed.bad
                    else None
                )
                yield Slice(parsed.rows, seq, bad)

    def finished(self, offset: Offset) -> bool:
        waiting = self._receiver is not None and self._receiver.has_lines()
        return not waiting and (offset or 0) >= self._end()

    def unread(self, offset: Offset) -> int:
        """Return the number of bytes that were received after an offset."""
        return max(0, self._end() - (offset or 0))

    def forget(self, offset: Offset) -> None:
        """Delete segments that lie before `offset`; the newest stays, it says where to go on."""
        files.remove(*self._done(offset), durable=False)  # a segment that comes back is not read again

    def keeps(self, offset: Offset) -> bool:
        return bool(self._done(offset))

    def _done(self, offset: Offset) -> list[Path]:
        """Return the segments that lie before an offset, without the newest."""
        return [path for (_, path), (after, _) in itertools.pairwise(self._segments()) if after <= (offset or 0)]

    def close(self) -> None:
        """Stop receiving."""
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None

    def _segments(self) -> list[tuple[int, Path]]:
        names = [name for name in files.names(self._directory) if name.endswith(_SUFFIX)]
        return sorted((int(name.removesuffix(_SUFFIX)), self._directory / name) for name in names)

    def _segment_of(self, position: int) -> tuple[int, Path]:
        return [segment for segment in self._segments() if segment[0] <= position][-1]

    def _end(self) -> int:
        segments = self._segments()
        return segments[-1][0] + segments[-1][1].stat().st_size if segments else 0

    def _append(self, data: bytes) -> None:
        if not data:
            return
        segments = self._segments()
        first, path = segments[-1] if segments else (0, self._directory / _segment_name(0))
        size = path.stat().st_size if segments else 0
        if size and not _ends_a_line(path):  # torn by a crash: what is left of the line is a bad record
            data = b"\n" + data
        if size >= _SEGMENT:
            path = self._directory / _segment_name(first + size)
        files.append(path, data)


class _Receiver:
    """Keeps a connection and the bytes that came, in a thread of its own."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._lines = bytearray()  # complete lines
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"socket {address[0]}:{address[1]}", daemon=True)
        self._thread.start()

    def take(self) -> bytes:
        with self._changed:
            data, self._lines = bytes(self._lines), bytearray()
            self._changed.notify_all()
        return data

    def has_lines(self) -> bool:
        return bool(self._lines)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped:
            try:
                with socket.create_connection(self._address, timeout=5) as connection:
                    connection.settimeout(0.2)
                    if self._receive(connection):
                        pause = _FIRST_PAUSE
            except OSError as error:
                if pause == _FIRST_PAUSE:  # the first of a row of failures; tried again for as long as the stream lives
                    _LOG.warning("no connection to %s:%d: %s; trying again", *self._address, error)
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _receive(self, connection: socket.socket) -> bool:
        """Take bytes until the peer closes or we stop; whether any came."""
        rest, some, skipping = b"", False, False
        while not self._stopped:
            try:
                data = connection.recv(1 << 16)
            except TimeoutError:
                continue
            if not data:
                break
            some = True
            if skipping:  # the rest of a line that is too long
                _, newline, data = data.partition(b"\n")
                skipping = not newline
            lines, mark, rest = (rest + data).rpartition(b"\n")
            if len(rest) > LINE_BYTES:  # its beginning is a record, a bad one
                lines, mark, rest, skipping = lines + mark + rest[:LINE_BYTES], b"\n", b"", True
                _LOG.warning("%s:%d sent a line of more than %d bytes; it is cut", *self._address, LINE_BYTES)
            with self._changed:
                self._lines += lines + mark
                self._changed.wait_for(lambda: self._stopped or len(self._lines) < _WAITING)
        if rest:  # the peer closed in the middle of a line: it is a record too, mostly a bad one
            with self._changed:
                self._lines += rest + b"\n"
        return some


def _segment_name(first: int) -> str:
    return f"{first:020d}{_SUFFIX}"


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
