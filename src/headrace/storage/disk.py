"""The local disk as a storage. A file is written under a hidden name, forced to disk and renamed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal


class LocalDisk:
    """Files of the operating system."""

    def read(self, path: Path, start: int = 0) -> bytes:
        try:
            with open(path, "rb") as file:
                file.seek(start)
                return file.read()
        except NotADirectoryError as error:  # there is no file below a file
            raise FileNotFoundError(*error.args) from error

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(name for name in os.listdir(directory) if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def replace(self, path: Path, write: Callable[[BinaryIO], Any], *, durable: bool = True) -> None:
        hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with _open(hidden, "wb") as file:
                write(file)
                if durable:
                    _force(file)
            os.replace(hidden, path)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        if durable:
            _force_directory(path.parent)

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        is_new = not path.exists()
        with _open(path, "ab") as file:
            if keep is not None:
                file.truncate(keep)
            file.write(data)
            _force(file)
        if is_new:
            _force_directory(path.parent)

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        for source, destination in moves:
            os.replace(source, destination)
        for directory in {destination.parent for _, destination in moves}:
            _force_directory(directory)

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        touched = set()
        for path in paths:
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            touched.add(path.parent)
        if durable:
            for directory in touched:
                _force_directory(directory)


def _open(path: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open a file for writing; make the directory durably if it is missing."""
    try:
        return open(path, mode)
    except FileNotFoundError:
        _make_directory(path.parent)
        return open(path, mode)


def _make_directory(directory: Path) -> None:
    missing = [directory]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    directory.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        _force_directory(made.parent)


def _force(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _force_directory(directory: Path) -> None:
    """Force to disk which names a directory has."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
