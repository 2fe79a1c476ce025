"""The interface to durable files, and which storage holds which path.

Everything that must survive a crash and is not Spark's own goes through a `Storage`. The local disk holds every path,
except those of object stores, and those below a directory where another storage is mounted, such as one that simulates
crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

from headrace.storage.disk import LocalDisk
from headrace.storage.location import ObjectPath, located
from headrace.storage.objects import ObjectStorage

#: Writes the content of a file.
Write: TypeAlias = Callable[[BinaryIO], Any]
#: Stands for the content that a file had when it was read.
Tag: TypeAlias = str


class Storage(Protocol):
    """Files that are complete or absent, also after a power failure. Faults are OSErrors."""

    def read(self, path: Path, start: int = 0) -> bytes:
        """Return the content from byte `start` on; raise FileNotFoundError if there is no such file."""
        ...

    def exists(self, path: Path) -> bool:
        """Return whether there is such a file."""
        ...

    def names(self, directory: Path) -> list[str]:
        """Return the sorted names of complete files in a directory; none if there is no such directory."""
        ...

    def replace(self, path: Path, write: Write, *, durable: bool = True, shared: bool = False) -> None:
        """Write a whole file, in place of the one that is there; make its directories.

        Readers see the old file or the new one, never a part. With `durable` that holds after a power failure as well,
        and once this has returned they see the new one. Without it, a power failure may leave anything. Other users of
        the machine can read the file only if it is `shared`, as far as the umask allows.
        """
        ...

    def create(self, path: Path, data: bytes) -> bool:
        """Write a file durably if there is none of that name; return whether it was written.

        Of several processes that try, one succeeds. They must write different bytes: a store may not tell whether a
        request that broke off took effect, and then looks whose bytes are there.
        """
        ...

    def read_tagged(self, path: Path) -> tuple[bytes, Tag] | None:
        """Return the content of a file and its tag, for `swap`; None if there is no such file."""
        ...

    def swap(self, path: Path, data: bytes, tag: Tag) -> Tag | None:
        """Write a whole file durably if it still has the content of `tag`; return the new tag, or None if it has not.

        As with `create`, each process must write bytes that no other writes.
        """
        ...

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        """Add bytes durably to a file, after cutting it to `keep` bytes; a crash may leave any prefix of `data`.

        Such a file is read and replaced as a whole by the two functions below only: a store that cannot append keeps it
        in another form.
        """
        ...

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        """Return the content of a file to which bytes are added, as `read` does."""
        ...

    def replace_appended(self, path: Path, data: bytes) -> None:
        """Write the whole of a file to which bytes are added, as `replace` does."""
        ...

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Rename files durably, each atomically, in this order; raise FileNotFoundError if one is missing."""
        ...

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        """Delete those of these files that exist. Without `durable` they may be there again after a power failure."""
        ...

    def force(self, directory: Path) -> None:
        """Force everything to disk that others have written below a directory."""
        ...

    def sweep(self, directory: Path) -> int:
        """Delete what crashes in the middle of `replace` left in a directory into which nobody writes now; count it."""
        ...


_DISK: Storage = LocalDisk()
OBJECTS = ObjectStorage()
_mounts: dict[Path, Storage] = {}
_innermost: tuple[tuple[str, Storage], ...] = ()  # the mounts, with their directories as text, the innermost first


def storage_of(path: Path) -> Storage:
    """Return the storage that holds a path: that of the innermost directory at which one is mounted, else its own."""
    path = located(path)
    own: Storage = OBJECTS if isinstance(path, ObjectPath) else _DISK
    if not _innermost:
        return own
    text = f"{path}/"
    return next((storage for directory, storage in _innermost if text.startswith(directory)), own)


def mount(directory: Path, storage: Storage) -> None:
    """Let `storage` hold everything below a directory of this process, until it is unmounted."""
    _mounts[directory] = storage
    _order()


def unmount(directory: Path, storage: Storage) -> None:
    """End what `mount` has begun, if no other storage has taken the place since."""
    if _mounts.get(directory) is storage:
        del _mounts[directory]
        _order()


@contextmanager
def mounted(directory: Path, storage: Storage) -> Iterator[Storage]:
    """Let `storage` hold everything below a directory of this process."""
    before = _mounts.get(directory)
    mount(directory, storage)
    try:
        yield storage
    finally:
        if before is None:
            _mounts.pop(directory, None)
        else:
            _mounts[directory] = before
        _order()


def _order() -> None:
    global _innermost
    innermost = sorted(_mounts.items(), key=lambda mounted: len(mounted[0].parts), reverse=True)
    _innermost = tuple((f"{directory}/", storage) for directory, storage in innermost)
