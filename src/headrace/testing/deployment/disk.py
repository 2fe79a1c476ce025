"""A disk in memory that can lose power.

It keeps two images: what processes read, and what is on disk for sure. Between them lie changes that were not forced to
disk. A crash of the process keeps everything. A power cut keeps any of the waiting changes and loses the others;
content that was not forced may be torn. The disk takes a snapshot after each step, so that a run is made once and can
be cut anywhere.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headrace.storage.disk import content_tag
from headrace.storage.storage import Tag, Write

#: The content of a file; None: there is none.
Content: TypeAlias = bytes | None


class Crashed(BaseException):
    """The process is dead. No handler of ours may catch it, and no write after it counts."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is not on disk for sure; all of its files change together, or none."""

    files: tuple[tuple[str, Content], ...]
    sure: int | None = None  # so many bytes of the content are complete; None: all


@dataclass(frozen=True, slots=True)
class Image:
    """What a disk holds: what is on it for sure, and the changes that wait, oldest first."""

    forced: dict[str, bytes]
    waiting: tuple[Change, ...] = ()

    def seen(self) -> dict[str, bytes]:
        """Return the files as a process sees them, and as they are after a crash that is not a power cut."""
        content = dict(self.forced)
        for change in self.waiting:
            apply(content, change.files)
        return content


class SimulatedDisk:
    """A `Storage` in memory; Spark's files may lie on it as well.

    After each step, `note` is called with a name of the step. A step raises `Crashed` once `steps_to_live` have passed,
    and an OSError for a full disk while `is_full` says so. `ignored` names files that are never forced to disk, however
    durable they were meant to be.
    """

    def __init__(self, image: Image | None = None, *, ignored: Callable[[str], bool] | None = None) -> None:
        self._forced = dict(image.forced) if image is not None else {}
        self._waiting = list(image.waiting) if image is not None else []
        self._files = image.seen() if image is not None else {}
        # another number than any process has whose half-done files are there: none is replaced by chance
        self._process = sum(path.endswith(".tmp") for path in self._files) + 1
        self._ignored = ignored or (lambda path: False)
        self.steps = 0
        self.steps_to_live: int | None = None
        self.is_full: Callable[[int], bool] = lambda step: False
        self.note: Callable[[str], None] | None = None

    def image(self) -> Image:
        """Return what the disk holds now."""
        return Image(dict(self._forced), tuple(self._waiting))

    # the storage

    def read(self, path: Path, start: int = 0) -> bytes:
        data = self._files.get(str(path))
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return data[start:] if start else data

    def exists(self, path: Path) -> bool:
        return str(path) in self._files

    def names(self, directory: Path) -> list[str]:
        beginning = f"{directory}/"
        names = {path[len(beginning) :].split("/", 1)[0] for path in self._files if path.startswith(beginning)}
        return sorted(name for name in names if not name.startswith("."))

    def replace(self, path: Path, write: Write, *, durable: bool = True, shared: bool = False) -> None:
        file = io.BytesIO()
        write(file)
        data, name = file.getvalue(), str(path)
        hidden = self._hidden(path)
        self._room()
        self._change("write", ((hidden, data),), sure=0)
        self._change("rename", ((hidden, None), (name, data)), sure=None if durable else 0)
        if durable:
            self._force(name)

    def create(self, path: Path, data: bytes) -> bool:
        return self._replace_if(path, data, lambda: not self.exists(path))

    def read_tagged(self, path: Path) -> tuple[bytes, Tag] | None:
        data = self._files.get(str(path))
        return None if data is None else (data, content_tag(data))

    def swap(self, path: Path, data: bytes, tag: Tag) -> Tag | None:
        def is_unchanged() -> bool:
            known = self.read_tagged(path)
            return known is not None and known[1] == tag

        return content_tag(data) if self._replace_if(path, data, is_unchanged) else None

    def _replace_if(self, path: Path, data: bytes, may: Callable[[], bool]) -> bool:
        """Replace a file as `replace` does, if that may be when it gets its name; return whether it did."""
        if not may():
            return False
        name, hidden = str(path), self._hidden(path)
        self._room()
        self._change("write", ((hidden, data),), sure=0)
        if not may():  # another process was faster
            self._change("remove", ((hidden, None),))
            return False
        self._change("rename", ((hidden, None), (name, data)))
        self._force(name)
        return True

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        name = str(path)
        self._room()
        before = self._files.get(name, b"")
        if keep is not None and keep < len(before):
            before = before[:keep]
            self._change("truncate", ((name, before),))
        if len(data) > 1:
            self._change("write a part", ((name, before + data[: len(data) // 2]),), sure=len(before))
        self._change("write", ((name, before + data),), sure=len(before))
        self._force(name)

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        return self.read(path, start)

    def replace_appended(self, path: Path, data: bytes) -> None:
        self.replace(path, lambda file: file.write(data))

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        for source, destination in moves:
            data = self.read(source)
            self._change("rename", ((str(source), None), (str(destination), data)))
        for _, destination in moves:
            self._force(str(destination))

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        removed = [str(path) for path in paths if str(path) in self._files]
        for path in removed:
            self._change("remove", ((path, None),))
        if durable:
            for path in removed:
                self._force(path)

    def sweep(self, directory: Path) -> int:
        beginning = f"{directory}/."
        hidden = [path for path in self._files if path.startswith(beginning) and path.endswith(".tmp")]
        for path in hidden:
            self._change("remove", ((path, None),))
        return len(hidden)

    def force(self, directory: Path) -> None:
        """Force everything below a directory to disk."""
        beginning = f"{directory}/"
        touched = {path for change in self._waiting for path, _ in change.files if path.startswith(beginning)}
        for path in sorted(touched):
            self._force(path)

    def _hidden(self, path: Path) -> str:
        return str(path.with_name(f".{path.name}.{self._process}.tmp"))

    # steps

    def _room(self) -> None:
        if self.is_full(self.steps):
            self.steps += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _change(self, what: str, changed: tuple[tuple[str, Content], ...], *, sure: int | None = None) -> None:
        self._step()
        change = Change(changed, sure)
        apply(self._files, change.files)
        self._waiting.append(change)
        self._noted(f"{what} {changed[-1][0]}")

    def _force(self, path: str) -> None:
        """Let a file be on disk for sure, with all that changed together with it."""
        if self._ignored(path):
            return
        self._step()
        touched = {path}
        for change in reversed(self._waiting):
            if any(name in touched for name, _ in change.files):
                touched.update(name for name, _ in change.files)
        rest = []
        for change in self._waiting:
            if any(name in touched for name, _ in change.files):
                apply(self._forced, change.files)
            else:
                rest.append(change)
        self._waiting = rest
        self._noted(f"force {path}")

    def _step(self) -> None:
        if self.steps_to_live is not None and self.steps >= self.steps_to_live:
            raise Crashed
        self.steps += 1

    def _noted(self, what: str) -> None:
        if self.note is not None:
            self.note(what)


def apply(content: dict[str, bytes], changed: Iterable[tuple[str, Content]]) -> None:
    """Change files."""
    for path, data in changed:
        if data is None:
            content.pop(path, None)
        else:
            content[path] = data
