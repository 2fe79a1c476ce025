"""A file to which lines are added, such as a journal.

A line is complete once its line feed is written. A crash while adding may leave the beginning of a line, which was
never acknowledged: reading leaves it out, and the next addition cuts it off.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.storage import files


class LineFile:
    """The lines of one file; one process adds, others may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0  # of the complete lines that were read or added here

    def read_new(self) -> list[bytes]:
        """Return the complete lines that were not read or added here before."""
        try:
            data = files.read(self.path, self._end)
        except FileNotFoundError:
            return []
        data = data[: data.rfind(b"\n") + 1]
        self._end += len(data)
        return data.split(b"\n")[:-1]

    def read_all(self) -> list[bytes]:
        """Return all complete lines."""
        self._end = 0
        return self.read_new()

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines durably behind the last that was read or added here."""
        data = b"".join(line + b"\n" for line in lines)
        files.append(self.path, data, keep=self._end)
        self._end += len(data)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Put these lines in place of all."""
        data = b"".join(line + b"\n" for line in lines)
        files.replace(self.path, data)
        self._end = len(data)
