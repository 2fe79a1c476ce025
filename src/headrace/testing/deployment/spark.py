"""What Spark keeps of a streaming query, as small models: offset log, commit log and state store.

They do as Spark does. A file is written under another name and renamed, and never forced to disk. A file that cannot be
read ends the query.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from headrace.driver.offset import START, Offset
from headrace.hosts.spark.logs import is_whole
from headrace.storage import files
from headrace.storage.fence import unfenced

#: So many micro-batches are kept in logs and state.
RETAINED = 2
_T = TypeVar("_T")
State = dict[str, bytes]


class SparkFailure(Exception):
    """Spark cannot continue: one of its own files is missing or damaged."""


class Log:
    """A numbered file for each micro-batch."""

    def __init__(self, directory: Path, lines: int) -> None:
        self.directory, self._lines = directory, lines

    def add(self, batch: int, *lines: bytes) -> None:
        if files.exists(self.directory / str(batch)):
            raise SparkFailure(f"two queries write the log {self.directory}: {batch} is there")
        _write(self.directory / str(batch), b"\n".join((b"v1", b"{}", *lines)))

    def get(self, batch: int) -> bytes:
        data = _read(self.directory / str(batch))
        if not is_whole(data, self._lines):
            raise SparkFailure(f"Spark cannot read {self.directory / str(batch)}")
        return data.split(b"\n")[-1]

    def latest(self) -> int | None:
        """Return the number of the last micro-batch in the log, which must be readable."""
        numbers = [int(name) for name in files.names(self.directory)]
        if not numbers:
            return None
        self.get(max(numbers))
        return max(numbers)

    def purge(self, before: int) -> None:
        """Delete the files of earlier micro-batches."""
        old = [self.directory / name for name in files.names(self.directory) if int(name) < before]
        unfenced(self.directory).remove(old, durable=False)


class Logs:
    """The offset log, written before a micro-batch runs, and the commit log, written after its delivery."""

    def __init__(self, directory: Path) -> None:
        self.offsets = Log(directory / "offsets", 3)
        self.commits = Log(directory / "commits", 2)

    def offset(self, batch: int) -> Offset:
        """Return the end of a micro-batch; a negative number: the beginning."""
        return START if batch < 0 else msgspec.json.decode(self.offsets.get(batch), type=Offset)

    def next(self) -> tuple[int, bool]:
        """Return the number of the micro-batch to run, and whether its end is in the log already."""
        planned, committed = self.offsets.latest(), self.commits.latest()
        if planned is None:
            return 0, False
        self.offset(planned - 1)  # Spark reads it at the start
        return (planned + 1, False) if committed == planned else (planned, True)

    def purge(self, batch: int) -> None:
        for log in (self.offsets, self.commits):
            log.purge(batch - RETAINED)


class StateStore:
    """The state of one bucket in one micro-batch: `version` micro-batches have been committed before it.

    One that was not in the last of them (`is_new`) has no state.
    """

    def __init__(self, directory: Path, bucket: int, version: int, *, is_new: bool = False) -> None:
        self._directory, self._at = directory / "state" / str(bucket), version
        self._values: State | None = None
        self._encoded: bytes | None = b"\x80"  # no entries
        if version and not is_new:
            data = _read(self._directory / str(version))
            if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4]):
                raise SparkFailure(f"Spark cannot read {self._directory / str(version)}")
            self._encoded = data[4:]

    @property
    def values(self) -> State:
        if self._values is None:
            self._values = msgspec.msgpack.decode(self.encoded, type=State)
        return self._values

    @property
    def encoded(self) -> bytes:
        """The whole state."""
        if self._encoded is None:
            self._encoded = msgspec.msgpack.encode(self.values)
        return self._encoded

    @encoded.setter
    def encoded(self, data: bytes) -> None:
        self._encoded, self._values = data, None

    def get(self, name: str) -> bytes | None:
        return self.values.get(name)

    def save(self, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        self.values.update(changed)
        for name in removed:
            self.values.pop(name, None)
        self._encoded = None

    def commit(self) -> None:
        """Write the state after the micro-batch, at the end of a task; a repeated task writes it again."""
        data = self.encoded
        _write(self._directory / str(self._at + 1), zlib.crc32(data).to_bytes(4) + data)
        unfenced(self._directory).remove([self._directory / str(old) for old in self._old()], durable=False)

    def _old(self) -> list[int]:
        return [number for name in files.names(self._directory) if (number := int(name)) <= self._at - RETAINED]


def _write(path: Path, data: bytes) -> None:
    try:
        # Spark does not ask who owns a checkpoint
        unfenced(path).replace(path, lambda file: file.write(data), durable=False)
    except OSError as error:
        raise SparkFailure(f"Spark cannot write {path}: {error.strerror}") from error


def _read(path: Path) -> bytes:
    data = files.read_if_exists(path)
    if data is None:
        raise SparkFailure(f"Spark misses {path}")
    return data
