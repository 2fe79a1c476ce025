"""A file to which lines are added, such as a journal.

A line is complete once its line feed is written. A crash while adding may leave the beginning of a line, which was
never acknowledged: reading leaves it out, and the next addition cuts it off.

Each line has a checksum of itself and of all lines before it, so that a line which is missing, repeated or in another
place is noticed, as one that has changed is. Only lines that are missing at the end are not. Earlier versions wrote
checksums of single lines, or none; a file may begin with such lines.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from headrace.storage import files, sealed

_CHAINED = re.compile(rb"\t>([0-9a-f]{8})")
_CHAINED_SIZE = 10
_SINGLE = re.compile(rb"\t([0-9a-f]{8})")
_SINGLE_SIZE = 9


class LineFile:
    """The lines of one file; one process adds, others may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0  # of the complete lines that were read or added here
        self._chain = _Chain()

    def read_new(self) -> list[bytes]:
        """Return the complete lines that were not read or added here before."""
        try:
            data = files.read_appended(self.path, self._end)
        except FileNotFoundError:
            return []
        *lines, rest = data.split(b"\n")
        try:
            contents = [self._chain.unseal(line) for line in lines]
        except ValueError as error:
            raise sealed.damaged(self.path, error) from error
        if self._chain.is_next(rest[:-1]):
            raise sealed.damaged(self.path, "the end of its last line has changed")
        self._end += len(data) - len(rest)
        return contents

    def read_all(self) -> list[bytes]:
        """Return all complete lines."""
        self._end, self._chain = 0, _Chain()
        return self.read_new()

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines durably behind the last that was read or added here."""
        chain = _Chain(self._chain.checksum, self._chain.form)
        data = chain.seal(lines)
        files.append(self.path, data, keep=self._end)
        self._end, self._chain = self._end + len(data), chain

    def replace(self, lines: Iterable[bytes]) -> None:
        """Put these lines in place of all."""
        chain = _Chain()
        data = chain.seal(lines)
        files.replace_appended(self.path, data)
        self._end, self._chain = len(data), chain


class _Chain:
    """The checksum of the lines up to one of them, and how that one is sealed: a later line has no weaker seal."""

    _NONE, _OF_LINE, _OF_ALL = range(3)

    def __init__(self, checksum: int = 0, form: int = _NONE) -> None:
        self.checksum, self.form = checksum, form

    def seal(self, lines: Iterable[bytes]) -> bytes:
        """Return the text of the next lines."""
        parts = []
        for line in lines:
            self.checksum, self.form = zlib.crc32(line, self.checksum), self._OF_ALL
            parts.append(b"%s\t>%08x\n" % (line, self.checksum))
        return b"".join(parts)

    def unseal(self, line: bytes) -> bytes:
        """Return the content of the next line; raise ValueError if it is not what was written there."""
        form, content, seal = _parts(line)
        if form < self.form:
            raise ValueError("a line has lost its checksum")
        if form:
            checksum = zlib.crc32(content, self.checksum if form == self._OF_ALL else 0)
            if checksum != seal:
                wrong = "changed, missing, or in another place" if form == self._OF_ALL else "changed"
                raise ValueError(f"the checksum of a line is wrong: a line is {wrong}")
            self.checksum, self.form = checksum, form
        return content

    def is_next(self, line: bytes) -> bool:
        """Return whether this is a whole line, with its checksum, that can be the next."""
        form, content, seal = _parts(line)
        return form > 0 and zlib.crc32(content, self.checksum if form == self._OF_ALL else 0) == seal


def _parts(line: bytes) -> tuple[int, bytes, int]:
    """Return how a line is sealed, its content and its checksum."""
    if (seal := _CHAINED.fullmatch(line[-_CHAINED_SIZE:])) is not None:
        return _Chain._OF_ALL, line[:-_CHAINED_SIZE], int(seal[1], 16)
    if (seal := _SINGLE.fullmatch(line[-_SINGLE_SIZE:])) is not None:
        return _Chain._OF_LINE, line[:-_SINGLE_SIZE], int(seal[1], 16)
    return _Chain._NONE, line, 0
