"""A file to which lines are added, such as a journal.

A line is complete once its line feed is written. A crash while adding may leave the beginning of a line, which was
never acknowledged: reading leaves it out, and the next addition cuts it off. Each line has a checksum.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.storage import files, sealed


class LineFile:
    """The lines of one file; one process adds, others may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0  # of the complete lines that were read or added here

    def read_new(self) -> list[bytes]:
        """Return the complete lines that were not read or added here before."""
        try:
            data = files.read_appended(self.path, self._end)
        except FileNotFoundError:
            return []
        *lines, rest = data.split(b"\n")
        if sealed.is_sealed_line(rest[:-1]):
            raise sealed.damaged(self.path, "the end of its last line has changed")
        self._end += len(data) - len(rest)
        return [sealed.unseal_line(line, self.path) for line in lines]

    def read_all(self) -> list[bytes]:
        """Return all complete lines."""
        self._end = 0
        return self.read_new()

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines durably behind the last that was read or added here."""
        data = _joined(lines)
        files.append(self.path, data, keep=self._end)
        self._end += len(data)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Put these lines in place of all."""
        data = _joined(lines)
        files.replace_appended(self.path, data)
        self._end = len(data)


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(sealed.seal_line(line) + b"\n" for line in lines)
