"""The statements that made the catalog, on disk, each with the definition that came of it.

The definition counts when it is read again: a statement may say less (columns learned from a file that is gone by then,
a path that begins elsewhere). One JSON text a line. Entries of what was dropped or replaced go when they are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from headrace.catalog.definitions import Aggregate, Definition, Function, Sink
from headrace.errors import HostFault
from headrace.storage.lines import LineFile


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statement and what it defined; nothing if it dropped something."""

    text: str
    definition: Definition | None = None


#: So many entries that no longer matter may stay.
MAX_DEAD = 256
_DECODER = msgspec.json.Decoder(Entry)


class Journal:
    """An append-only file of statements."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = LineFile(self.path)
        self._known: list[bytes] = []  # as read or added here

    def append(self, entry: Entry) -> None:
        """Write an entry; on return it is on disk."""
        try:
            line = msgspec.json.encode(entry)
            self._known += [*self._lines.read_new(), line]
            self._lines.append([line])
        except OSError as error:
            raise HostFault(
                f"cannot write {self.path}: {error.strerror}", hint="choose a checkpoint folder that can be written"
            ) from error

    def has_changed(self) -> bool:
        """Return whether another process has added entries, or deleted some, since the last reading."""
        return self._lines.read_all() != self._known

    def settle(self, definitions: Sequence[Definition]) -> None:
        """Compact the file if it has become long; otherwise it is not even read."""
        if len(self._known) - len(definitions) > max(MAX_DEAD, len(definitions)):
            with suppress(OSError):  # the disk may be full; the next start compacts it
                self.compact(definitions)

    def compact(self, definitions: Iterable[Definition]) -> None:
        """Keep only the entries of these definitions, which are all there are, if enough others would go."""
        entries = self.read()
        latest = {_key(entry.definition): entry for entry in entries if entry.definition is not None}
        kept = [latest[_key(definition)] for definition in definitions if _key(definition) in latest]
        if len(entries) - len(kept) > max(MAX_DEAD, len(kept)):
            lines = [msgspec.json.encode(entry) for entry in kept]
            self._lines.replace(lines)
            self._known = lines

    def read(self) -> list[Entry]:
        """Return all entries, oldest first."""
        self._known = self._lines.read_all()
        try:
            return [_DECODER.decode(line) for line in self._known]
        except ValueError as error:  # DecodeError is one
            raise HostFault(
                f"{self.path} is damaged: {error}", hint="restore the checkpoint folder from a copy"
            ) from error


def _key(definition: Definition) -> tuple[str, str]:
    """Return what tells definitions apart: aggregates, functions, sinks and all others have names of their own."""
    kind = type(definition).__name__ if isinstance(definition, Aggregate | Function | Sink) else ""
    return kind, definition.name.lower()
