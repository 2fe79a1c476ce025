"""Files to which bytes are added, in a store that cannot append, after a crash at any step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from headrace.storage import segments
from headrace.storage.segments import Segments

FILE = Path("file")


class Dead(Exception):
    """The process has ended."""


class Objects:
    """A store in memory, whose process dies after some changes."""

    def __init__(self) -> None:
        self.content: dict[Path, bytes] = {}
        self.changes = 1 << 30

    def read(self, path: Path, start: int = 0) -> bytes:
        if path not in self.content:
            raise FileNotFoundError(path)
        return self.content[path][start:]

    def names(self, directory: Path) -> list[str]:
        return sorted(path.name for path in self.content if path.parent == directory)

    def create(self, path: Path, data: bytes) -> bool:
        self._step()
        return self.content.setdefault(path, data) is data

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        for path in paths:
            self._step()
            self.content.pop(path, None)

    def _step(self) -> None:
        if not self.changes:
            raise Dead
        self.changes -= 1


def test_after_a_crash_at_any_step_a_file_has_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 3)
    for changes in range(40):
        objects = Objects()
        objects.changes = changes
        writer, written, attempted = Segments(objects), b"", b""
        try:
            for number in range(12):
                data = b"%d;" % number
                attempted = b"whole;" if number == 6 else written + data
                if number == 6:
                    writer.replace(FILE, attempted)
                else:
                    writer.append(FILE, data, len(written))
                written = attempted
        except Dead:
            pass
        objects.changes = 1 << 30
        reader = Segments(objects)
        content = reader.read(FILE) if written or objects.content else b""
        assert content in (written, attempted)
        reader.append(FILE, b"on", len(content))
        assert Segments(objects).read(FILE) == content + b"on"
        assert Segments(objects).read(FILE, len(content)) == b"on"


def test_two_processes_cannot_add_at_the_same_place() -> None:
    objects = Objects()
    first, second = Segments(objects), Segments(objects)
    first.append(FILE, b"a", 0)
    second.read(FILE)
    first.append(FILE, b"b", 1)
    with pytest.raises(OSError, match="another process has added to it"):
        second.append(FILE, b"c", 1)
    assert Segments(objects).read(FILE) == b"ab"


def test_a_reader_goes_on_while_segments_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 3)
    objects = Objects()
    writer, reader, read = Segments(objects), Segments(objects), b""
    for number in range(10):
        writer.append(FILE, b"%d;" % number, None)
        read += reader.read(FILE, len(read))
    assert read == b"".join(b"%d;" % number for number in range(10))
    assert len(objects.content) <= 3
