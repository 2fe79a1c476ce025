"""The statements that made the catalog, on disk, each with the definition that came of it.

The definition counts when it is read again: a statement may say less (columns learned from a file that is gone by then,
a path that begins elsewhere). One JSON text a line.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.catalog.definitions import Definition
from headrace.errors import HostFault
from headrace.storage.lines import LineFile


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statement and what it defined; nothing if it dropped something."""

    text: str
    definition: Definition | None = None


_DECODER = msgspec.json.Decoder(Entry)


class Journal:
    """An append-only file of statements."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lines = LineFile(self.path)

    def append(self, entry: Entry) -> None:
        """Write an entry; on return it is on disk."""
        try:
            self._lines.read_new()
            self._lines.append([msgspec.json.encode(entry)])
        except OSError as error:
            raise HostFault(
                f"cannot write {self.path}: {error.strerror}", hint="choose a checkpoint folder that can be written"
            ) from error

    def has_new(self) -> bool:
        """Return whether another process has added entries since the last reading."""
        return bool(self._lines.read_new())

    def read(self) -> list[Entry]:
        """Return all entries, oldest first."""
        lines = self._lines.read_all()
        try:
            return [_DECODER.decode(line) for line in lines]
        except msgspec.DecodeError as error:
            raise HostFault(
                f"{self.path} is damaged: {error}", hint="restore the checkpoint folder from a copy"
            ) from error
