"""A disk whose process dies after some changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.storage.disk import LocalDisk


class Killed(BaseException):
    """The process is no more."""


class DyingDisk(LocalDisk):
    """A disk of a process that dies after some changes; `changes` are those that are still allowed."""

    def __init__(self, changes: int) -> None:
        self.changes = changes

    def replace(self, path: Path, *args: Any, **options: Any) -> None:
        self._step()
        super().replace(path, *args, **options)

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        for move in moves:
            self._step()
            super().move([move])

    def remove(self, paths: Any, *, durable: bool = True) -> None:
        for path in list(paths):
            self._step()
            super().remove([path], durable=durable)

    def _step(self) -> None:
        if not self.changes:
            raise Killed
        self.changes -= 1
