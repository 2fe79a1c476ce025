"""Durable files by path: what callers use; the storage that holds the path does the work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from headrace.storage import disk
from headrace.storage.location import ObjectPath, located
from headrace.storage.storage import OBJECTS, Tag, Write, storage_of


def read(path: Path, start: int = 0) -> bytes:
    """Return the content of a file from byte `start` on; raise FileNotFoundError if there is none."""
    return storage_of(path).read(path, start)


def read_if_exists(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is none."""
    try:
        return read(path)
    except FileNotFoundError:
        return None


def exists(path: Path) -> bool:
    """Return whether there is such a file."""
    return storage_of(path).exists(path)


def names(directory: Path) -> list[str]:
    """Return the sorted names of the complete files in a directory."""
    return storage_of(directory).names(directory)


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a whole file; it is complete or absent at any time, also after a power failure if `durable`."""
    storage_of(path).replace(path, lambda file: file.write(data), durable=durable)


def replace_by(path: Path, write: Write) -> None:
    """Write a whole file durably by a function that takes an open file: nothing is held in memory twice."""
    storage_of(path).replace(path, write)


def replace_encoded(path: Path, encode: Write, *, shared: bool = False) -> None:
    """Write a whole file durably by the function of a library, which takes an open file.

    It encodes into memory. To a library, a disk that is full may look like data that are damaged. Only a `shared` file
    may be read by other users of the machine, as far as the umask allows.
    """
    content = BytesIO()
    encode(content)
    storage_of(path).replace(path, lambda file: file.write(content.getbuffer()), shared=shared)


def create(path: Path, data: bytes) -> bool:
    """Write a file durably if there is none of that name; return whether it was written."""
    return storage_of(path).create(path, data)


def read_tagged(path: Path) -> tuple[bytes, Tag] | None:
    """Return the content of a file and its tag, for `swap`; None if there is no such file."""
    return storage_of(path).read_tagged(path)


def swap(path: Path, data: bytes, tag: Tag) -> Tag | None:
    """Write a whole file durably if it still has the content of `tag`; return the new tag, or None if it has not."""
    return storage_of(path).swap(path, data, tag)


def append(path: Path, data: bytes, *, keep: int | None = None) -> None:
    """Add bytes durably to a file, after cutting it to `keep` bytes."""
    storage_of(path).append(path, data, keep=keep)


def read_appended(path: Path, start: int = 0) -> bytes:
    """Return the content of a file to which bytes are added, from byte `start` on."""
    return storage_of(path).read_appended(path, start)


def replace_appended(path: Path, data: bytes) -> None:
    """Write the whole of a file to which bytes are added, durably."""
    storage_of(path).replace_appended(path, data)


def move(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename files durably, in this order; all of them lie in one storage."""
    if moves:
        storage_of(moves[0][1]).move(moves)


def remove(*paths: Path, durable: bool = True) -> None:
    """Delete those of these files that exist; without `durable` they may come back after a power failure."""
    if paths:
        storage_of(paths[0]).remove(paths, durable=durable)


def is_remote(path: Path) -> bool:
    """Return whether each operation on a path is a request to a store."""
    return isinstance(located(path), ObjectPath)


def make_directory(directory: Path) -> None:
    """Make a directory durably, readable for this user only; an object store has none."""
    if not is_remote(directory):
        disk.make_directory(directory)


def remove_directory(directory: Path) -> None:
    """Delete the files in a directory, and the directory if nothing else is in it; some may come back after a crash."""
    sweep(directory)
    remove(*(directory / name for name in names(directory)), durable=False)
    remove_empty(directory)


def remove_empty(directory: Path) -> None:
    """Delete a directory if nothing is in it and it can be deleted; an object store has none."""
    with suppress(OSError):
        if is_remote(directory):
            OBJECTS.remove_empty(directory)
        else:
            directory.rmdir()


def force(directory: Path) -> None:
    """Force everything to disk that others have written below a directory."""
    storage_of(directory).force(directory)


def sweep(directory: Path) -> int:
    """Delete what crashes in the middle of `replace` left in a directory into which nobody writes now; count it."""
    return storage_of(directory).sweep(directory)
