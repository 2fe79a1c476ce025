"""The statements that made the catalog, on disk, each with the definition that came of it.

The definition counts when it is read again: a statement may say less (columns learnt from a file that is gone by then, a path that begins elsewhere).
One JSON text a line. A line is complete once its line feed is written, so a crash while appending leaves at most a torn last line, which was
never acknowledged: reading skips it and the next append cuts it off.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headrace.catalog.definitions import Definition
from headrace.errors import HostFault


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statement and what it defined; nothing if it dropped something."""

    text: str
    definition: Definition | None = None


_DECODER = msgspec.json.Decoder(Entry)


class Journal:
    """An append-only file of statements."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, entry: Entry) -> None:
        """Write an entry; on return it is on disk."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab+") as file:
                file.truncate(self._complete())
                file.write(msgspec.json.encode(entry) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise HostFault(
                f"cannot write {self.path}: {error.strerror}", hint="choose a checkpoint folder that can be written"
            ) from error

    def read(self) -> list[Entry]:
        """All entries, oldest first."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes()[: self._complete()].splitlines()
        try:
            return [_DECODER.decode(line) for line in lines]
        except msgspec.DecodeError as error:
            raise HostFault(
                f"{self.path} is damaged: {error}", hint="restore the checkpoint folder from a copy"
            ) from error

    def _complete(self) -> int:
        """How many bytes the complete lines take."""
        return self.path.read_bytes().rfind(b"\n") + 1
