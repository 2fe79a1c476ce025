"""Keys of pushed rows: a push that is repeated under its key adds nothing, also after a crash.

The key is part of the name of the file that holds the rows, so both become durable at once. When the file is deleted,
after it was read, its name goes to a file of lines first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from headrace.storage.lines import LineFile

#: Keys are remembered for so many seconds, and the newest so many of a stream.
DAY, MOST = 86_400, 100_000
_LINES = "keys.jsonl"


def mark_of(key: str, at: int) -> str:
    """Return the part of a file's name that stands for a key which was used at a time (seconds)."""
    return f"k{at:x}-{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"


class DeletedNames:
    """The names of files with keys that were read and deleted; the driver adds, and who pushes reads."""

    def __init__(self, directory: Path) -> None:
        self._lines = LineFile(directory / _LINES)
        self._count: int | None = None  # of the lines, once they were read

    def all(self) -> list[str]:
        """Return all names, the oldest first."""
        lines = self._lines.read_all()
        self._count = len(lines)
        return [msgspec.json.decode(line, type=str) for line in lines]

    def add(self, names: Sequence[str]) -> None:
        """Add names durably; of too many, the oldest are left out."""
        if not names:
            return
        if self._count is None:
            self._count = len(self._lines.read_all())
        if self._count + len(names) > 2 * MOST:
            names = [*self.all(), *names][-MOST:]
            self._lines.replace(map(msgspec.json.encode, names))
            self._count = len(names)
        else:
            self._lines.append(map(msgspec.json.encode, names))
            self._count += len(names)


class PushKeys:
    """The keys of a stream that count: how many rows were pushed under each, and when."""

    def __init__(self, pushed: Iterable[tuple[str, int]]) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        for mark, rows in pushed:
            at, _, digest = mark.removeprefix("k").partition("-")
            self._known[digest] = int(at, 16), rows

    def find(self, key: str, at: int) -> int | None:
        """Return how many rows were pushed under a key in the day before a time; None if it is new."""
        _, _, digest = mark_of(key, at).partition("-")
        used, rows = self._known.get(digest, (0, 0))
        return rows if digest in self._known and at - used < DAY else None

    def add(self, key: str, at: int, rows: int) -> None:
        """Remember a key."""
        _, _, digest = mark_of(key, at).partition("-")
        self._known.pop(digest, None)
        self._known[digest] = at, rows
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
