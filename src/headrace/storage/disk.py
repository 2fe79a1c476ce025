"""The local disk as a storage. A file is written under a hidden name, forced to disk and renamed.

Only the user who runs Headrace can read what it keeps: directories have mode 0700 and files 0600. What is made for
others to read, the files of sinks, has the modes that the umask gives.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

_SYNCFS = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)  # Linux
#: The name of a file that is being written: by a process of ours with this number, or by Spark with a UUID, to which a
#: task adds its own number (where Spark writes checksums, each such file has one).
_HIDDEN = re.compile(r"\.{1,2}[^.].*\.[0-9a-f-]+(\.TID[0-9]+)?\.tmp(\.crc)?")


class LocalDisk:
    """Files of the operating system."""

    def read(self, path: Path, start: int = 0) -> bytes:
        try:
            with open(path, "rb") as file:
                file.seek(start)
                return file.read()
        except NotADirectoryError as error:  # there is no file below a file
            raise FileNotFoundError(*error.args) from error

    def exists(self, path: Path) -> bool:
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(name for name in os.listdir(directory) if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def replace(
        self, path: Path, write: Callable[[BinaryIO], Any], *, durable: bool = True, shared: bool = False
    ) -> None:
        hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with _open(hidden, "xb", shared=shared) as file:
                write(file)
                if durable:
                    _force(file)
            os.replace(hidden, path)
        except BaseException as error:
            hidden.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                error.filename = str(path)
            raise
        if durable:
            _force_directory(path.parent)

    def create(self, path: Path, data: bytes) -> bool:
        hidden = path.with_name(f".{path.name}.{threading.get_ident()}.{os.getpid()}.tmp")
        try:
            with _open(hidden, "xb", shared=False) as file:
                file.write(data)
                _force(file)
            os.link(hidden, path)
        except FileExistsError:
            return False
        finally:
            hidden.unlink(missing_ok=True)
        _force_directory(path.parent)
        return True

    def read_tagged(self, path: Path) -> tuple[bytes, str] | None:
        try:
            data = self.read(path)
        except FileNotFoundError:
            return None
        return data, content_tag(data)

    def swap(self, path: Path, data: bytes, tag: str) -> str | None:
        try:
            directory = os.open(path.parent, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)  # of several that compare, one replaces
            known = self.read_tagged(path)
            if known is None or known[1] != tag:
                return None
            self.replace(path, lambda file: file.write(data))
            return content_tag(data)
        finally:
            os.close(directory)

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        is_new = not path.exists()
        with _open(path, "ab", shared=False) as file:
            if keep is not None:
                file.truncate(keep)
            file.write(data)
            _force(file)
        if is_new:
            _force_directory(path.parent)

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        return self.read(path, start)

    def replace_appended(self, path: Path, data: bytes) -> None:
        self.replace(path, lambda file: file.write(data))

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

    def force(self, directory: Path) -> None:
        try:
            handle = os.open(directory, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            # the whole file system at once: many times faster than file by file
            if _SYNCFS is None:
                os.sync()
            elif _SYNCFS(handle):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(directory))
        finally:
            os.close(handle)

    def sweep(self, directory: Path) -> int:
        try:
            names = [name for name in os.listdir(directory) if _HIDDEN.fullmatch(name)]
        except (FileNotFoundError, NotADirectoryError):
            return 0
        for name in names:
            (directory / name).unlink(missing_ok=True)
        return len(names)


def content_tag(data: bytes) -> str:
    """Return the tag of a content, for stores that keep none themselves."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def open_private(path: str, flags: int) -> int:
    """Open a file that only this user can read if it is new: the `opener` of `open`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def make_directory(directory: Path, *, shared: bool = False) -> None:
    """Make a directory durably, with those above it that are missing; one that exists stays as it is."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o777 if shared else 0o700, exist_ok=True)
        _force_directory(path.parent)


def _open(path: Path, mode: Literal["xb", "ab"], *, shared: bool) -> BinaryIO:
    """Open a file for writing; make the directory durably if it is missing."""
    opener = None if shared else open_private
    try:
        return open(path, mode, opener=opener)
    except FileNotFoundError:
        make_directory(path.parent, shared=shared)
    except FileExistsError:  # an earlier process of that number left it, or somebody else a link: neither is written to
        path.unlink()
    return open(path, mode, opener=opener)


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
