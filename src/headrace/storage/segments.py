"""Files to which bytes are added, in a store that cannot append.

Such a file is a folder of segments. A segment is named `<generation>-<position of its first byte>`; the content is that
of the newest generation that has a beginning. An addition writes a segment, which must be new. Once there are many
segments, or if the end of the content is to be cut off, all of it becomes the first segment of the next generation, and
the older ones are deleted. So a reader sees all of one generation at any time, whatever crashes.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: With so many segments, the next addition makes one of all.
MOST_SEGMENTS = 64
_NAME = re.compile(r"(\d{8})-(\d{16})")


class Objects(Protocol):
    """What segments need of a store."""

    def read(self, path: Path, start: int = 0) -> bytes: ...

    def names(self, directory: Path) -> list[str]: ...

    def create(self, path: Path, data: bytes) -> bool: ...

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None: ...


@dataclass(frozen=True, slots=True)
class _Chain:
    """The segments of one generation: where each begins, and where the last ends."""

    generation: int
    begins: tuple[int, ...]
    end: int


class Segments:
    """The files of a store to which bytes are added. One process adds to a file; any may read."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._known: dict[Path, _Chain] = {}  # as read or written here

    def read(self, path: Path, start: int = 0) -> bytes:
        """Return the content from byte `start` on; raise FileNotFoundError if there is no such file."""
        while True:
            generation, begins = self._newest(path)
            if generation is None:
                raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path))
            first = max((place for place, begin in enumerate(begins) if begin <= start), default=0)
            pieces, at = [], begins[first]
            try:
                for begin in begins[first:]:
                    if begin != at:
                        break  # never: a segment begins where the one before it ends
                    piece = self._objects.read(_path(path, generation, begin))
                    pieces.append(piece)
                    at += len(piece)
            except FileNotFoundError:
                continue  # a newer generation has just taken its place
            self._known[path] = _Chain(generation, begins, at)
            return b"".join(pieces)[start - begins[first] :]

    def append(self, path: Path, data: bytes, keep: int | None) -> None:
        """Add bytes after cutting the content to `keep` bytes."""
        chain = self._known.get(path)
        if chain is None or (keep is not None and keep != chain.end):
            chain = self._look(path)
        end = 0 if chain is None else chain.end
        is_cut = keep is not None and keep < end
        if chain is None:
            self.replace(path, data)
        elif is_cut or len(chain.begins) >= MOST_SEGMENTS:
            self.replace(path, self.read(path)[:keep] + data)
        elif data:
            self._create(_path(path, chain.generation, end), data)
            self._known[path] = _Chain(chain.generation, (*chain.begins, end), end + len(data))

    def replace(self, path: Path, data: bytes) -> None:
        """Write the whole content."""
        names = self._objects.names(path)
        generation = max((_parsed(name)[0] for name in names if _NAME.fullmatch(name)), default=-1) + 1
        self._create(_path(path, generation, 0), data)
        self._known[path] = _Chain(generation, (0,), len(data))
        self._objects.remove([path / name for name in names], durable=False)

    def _look(self, path: Path) -> _Chain | None:
        try:
            self.read(path)
        except FileNotFoundError:
            return None
        return self._known[path]

    def _newest(self, path: Path) -> tuple[int | None, tuple[int, ...]]:
        """Return the newest generation that has a beginning, and where its segments begin."""
        segments: dict[int, list[int]] = {}
        for generation, begin in (_parsed(name) for name in self._objects.names(path) if _NAME.fullmatch(name)):
            segments.setdefault(generation, []).append(begin)
        for generation, begins in sorted(segments.items(), reverse=True):
            if begins[0] == 0:
                return generation, tuple(begins)
        return None, ()

    def _create(self, path: Path, data: bytes) -> None:
        if not self._objects.create(path, data):
            raise OSError(errno.EEXIST, "another process has added to it", str(path.parent))


def _parsed(name: str) -> Sequence[int]:
    return tuple(map(int, name.split("-")))


def _path(path: Path, generation: int, begin: int) -> Path:
    return path / f"{generation:08d}-{begin:016d}"
