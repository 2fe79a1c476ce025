"""The files of a watched directory in the order in which they were found, stored so that a restart keeps the order.

What was read and is gone from the directory is forgotten in the end, so that the list does not grow for ever: a file
must be missing in two listings, a while apart, since a file that was moved away and came back would be read again.
"""

from __future__ import annotations

import fnmatch
import glob
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec

from headrace.connectors.files.objects import find_objects, is_final
from headrace.connectors.files.partitions import is_partition
from headrace.errors import SourceFault
from headrace.storage import sealed
from headrace.storage.lines import LineFile
from headrace.storage.location import is_object_url, is_unicode


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was when found; a text file that has grown since is found again, from its old end on.

    One whose name is not UTF-8 is not read: its size is NAMELESS, and its path is as `shown` writes it.
    """

    path: str
    size: int
    begin: int = 0


#: The size of a file whose name no text can hold.
NAMELESS = -2
#: Behind the path of such a file, since no other has it.
_MARK = "\0"


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A file that was read, as the list remembers it when its entry is gone."""

    path: str
    size: int
    is_missing: bool  # in the listing by which the entry went


class Fold(msgspec.Struct, frozen=True):
    """The beginning of a list without the entries of files that were read."""

    time: int  # when they went, in nanoseconds
    entries: int  # how many there were
    bytes: int  # in all of them
    known: tuple[Known, ...]


#: Entries of files that were read go when there are so many, and at least a quarter of all that is known, but not more
#: often than every so many nanoseconds.
FOLDED, FOLD_INTERVAL = 256, 60_000_000_000
#: A directory that changed less than so many nanoseconds before it was listed may change again without showing a later
#: time.
RACY = 2_000_000_000
#: So long an unchanged directory is believed, whatever its file system does.
BELIEVED = 5_000_000_000
#: A file that does not end as a whole one does, or an empty text file, is finished when it has not changed for so long.
SETTLED = 10_000_000_000
#: An object store is listed at most so often, in nanoseconds: a listing costs as much as a write.
POLL = 1_000_000_000
#: Of so many files that were found last, growth is noticed.
_WATCHED = 64
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    """A directory as it was when it was listed."""

    at: int
    marks: tuple[tuple[int, int, int], ...]  # of it and of its partitions: device, inode, time of the last change

    def holds(self, now: int, marks: tuple[tuple[int, int, int], ...]) -> bool:
        """Say whether a listing would show the same again."""
        return (
            marks == self.marks
            and all(self.at - mark[2] >= RACY for mark in self.marks)
            and 0 <= now - self.at < BELIEVED
        )


class FileIndex:
    """List of files; what is in it never changes its number.

    `mark` ends each record of a text file; None: the files are not text. `end` is how a whole file of rows ends.
    """

    def __init__(
        self,
        log: Path,
        path: str,
        pattern: str,
        *,
        mark: bytes | None = None,
        end: bytes | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._log = LineFile(log)
        self._path = path
        self._pattern = pattern
        self._clock = clock
        self._look: _Look | None = None
        self._directories = [directory for directory in [_directory_of(path)] if directory is not None]
        self._entries: list[Entry] = []
        self._known: dict[str, int] = {}  # sizes
        self._ends: list[int] = []  # bytes in each file and in those before it
        self._fold = Fold(0, 0, 0, ())
        self._missing = set[str]()  # files that were not listed when their entries went, nor since
        self._mark = mark
        self._end = mark if end is None else end
        self._is_hurried = False
        self._nameless: dict[str, str] = {}  # files whose names are not UTF-8, by what is shown of them
        self._listed: int | None = None  # when an object store was listed last
        self._unfinished: list[tuple[int, str, int]] = []  # when they changed, their names and sizes
        self._load()

    def __len__(self) -> int:
        return self._fold.entries + len(self._entries)

    @property
    def is_waiting(self) -> bool:
        """Whether there are files that are still being written."""
        return bool(self._unfinished)

    def __getitem__(self, number: int) -> Entry:
        if number >= len(self):
            self._load()
        if not self._fold.entries <= number < len(self):
            raise SourceFault(
                f"file number {number} of {self._path} is not in {self._log.path}",
                hint="the checkpoint is damaged or belongs to another stream; restore it or start with a new one",
            )
        return self._entries[number - self._fold.entries]

    def numbers_of(self, path: str) -> list[int]:
        """Return the numbers under which a file is in the list: several, if it has grown."""
        return [self._fold.entries + at for at, entry in enumerate(self._entries) if entry.path == path]

    def bytes_before(self, number: int) -> int:
        """Return how many bytes there are in the files before one of them, or in all whose entries are gone."""
        at = min(number - self._fold.entries, len(self._ends))
        return self._ends[at - 1] if at > 0 else self._fold.bytes

    def is_foldable(self, number: int) -> bool:
        """Return whether entries before this number should go: enough of them have been read."""
        count = number - self._fold.entries
        is_due = abs(self._clock() - self._fold.time) >= FOLD_INTERVAL  # a clock may be set back
        return is_due and count >= FOLDED and 4 * count >= len(self._known)

    def fold(self, number: int) -> None:
        """Let the entries before this number go, durably; of their files, remember those that may be listed again."""
        try:
            listed = set(self._find()[0])
        except (SourceFault, OSError):
            return  # the next look says so
        if not any(path in listed for path in self._known):
            return  # everything seems to be gone: the directory may be one in which another is to be mounted
        rest = self._entries[number - self._fold.entries :]
        unread = {entry.path for entry in rest}
        gone = self._missing - listed
        known = tuple(
            Known(path, size, path not in listed)
            for path, size in self._known.items()
            if path not in unread and path not in gone
        )
        fold = Fold(self._clock(), number, self.bytes_before(number), known)
        self._log.replace([msgspec.json.encode(fold), *map(msgspec.json.encode, rest)])
        self._begin(fold)
        self._add(rest)

    def refresh(self) -> None:
        """Add the files that appeared since the last look, oldest first; durable before it returns."""
        if is_object_url(self._path):
            self._refresh_objects()
            return
        # An idle deployment looks many times a second: a directory that has not changed is not listed again.
        self._find_grown()
        look = self._glance()
        if look is not None and self._look is not None and self._look.holds(look.at, look.marks):
            return
        self._unfinished = []
        files, self._directories = self._find()
        self._missing.difference_update(files)
        appeared = self._appeared(files)
        is_complete = True
        if appeared and not self._is_unchanged(look):
            # A listing is no snapshot: a file that came meanwhile may be in it, and one that came before that file not.
            listed = self._clock()
            later = set(self._find()[0]).difference(files)
            # a file may claim to be of the future
            newest = max((found for found in appeared if found[0] <= listed), default=None)
            appeared += [found for found in self._appeared(later) if newest is not None and found < newest]
            is_complete = not later
        # A file that ends without a mark is read before later ones. One that is still being written changes again, and
        # comes after them.
        first = min((found for found in self._unfinished if found[2]), default=None)
        appeared = [found for found in appeared if first is None or found < first]
        if appeared:
            self._append([Entry(path, size) for _, path, size in sorted(appeared)])
        # what was found just now may be in directories that were not looked at before
        is_known = look is not None and len(look.marks) == len(self._directories) and not self.is_waiting
        self._look = look if is_known and is_complete else None

    def _appeared(self, files: Iterable[str]) -> list[tuple[int, str, int]]:
        """Return the finished ones of these files that are new: when they changed, their names and sizes."""
        appeared = []
        for path in files:
            if path not in self._known:  # only then a file is asked for its size
                try:
                    status = os.stat(self._nameless.get(path, path))
                    is_unfinished = path not in self._nameless and self._is_unfinished(path, status)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise _unreadable(path, error) from error
                if path in self._nameless:
                    appeared.append((status.st_mtime_ns, path, NAMELESS))
                elif is_unfinished:
                    self._unfinished.append((status.st_mtime_ns, path, status.st_size))
                elif not self._is_blank(status.st_size):
                    appeared.append((status.st_mtime_ns, path, status.st_size))
        return appeared

    def _find(self) -> tuple[Collection[str], list[str]]:
        """Return the finished files and their directories; files without a name in UTF-8 are shown."""
        files, directories = find_files(self._path, self._pattern)
        self._nameless = {shown(path): path for path in files if not is_unicode(path)}
        return [*filter(is_unicode, files), *self._nameless] if self._nameless else files, directories

    def _is_unchanged(self, look: _Look | None) -> bool:
        """Return whether nothing came to the directory since a look at it, so that a listing shows one instant."""
        now = self._glance()
        return look is not None and now is not None and look.holds(now.at, now.marks)

    def _refresh_objects(self) -> None:
        """Do the same in an object store, where a file is complete once it is there."""
        now = self._clock()
        if self._listed is not None and not self._is_hurried and 0 <= now - self._listed < POLL:
            return
        listing = [
            (listed.changed, str(listed.path), listed.size)
            for listed in find_objects(self._path, self._pattern)
            if not self._is_blank(listed.size)
        ]
        self._missing.difference_update(path for _, path, _ in listing)
        appeared = sorted(listed for listed in listing if listed[1] not in self._known)
        for _, path, size in listing:
            if self._known.get(path, size) != size:
                self._warn_changed(path, size)
        if appeared:
            self._append([Entry(path, size) for _, path, size in appeared])
        self._listed = now

    def hurry(self) -> None:
        """Take every file as finished from now on."""
        self._is_hurried = True

    def _is_blank(self, size: int) -> bool:
        """Say whether a file of rows has nothing yet, not even columns: it is found when it has."""
        return size == 0 and self._mark is None and self._end is not None

    def _is_unfinished(self, path: str, status: os.stat_result) -> bool:
        """Say whether the end of a file seems to be missing yet."""
        if self._end is None or self._is_hurried or self._clock() - status.st_mtime_ns >= SETTLED:
            return False
        return _tail(path, status.st_size, len(self._end)) != self._end

    def _find_grown(self) -> None:
        """Find text files again that have grown; say so if another file, or a file that became shorter, was found."""
        grown = []
        for path, size in reversed(list(islice(reversed(self._known.items()), _WATCHED))):
            if size == NAMELESS:
                continue
            try:
                status = os.stat(path)
                if status.st_size == size or (status.st_size > size and self._is_unfinished(path, status)):
                    continue
                is_text = self._mark is not None and status.st_size > size
                is_cut = is_text and size > 0 and _tail(path, size, len(self._mark or b"")) != self._mark
            except FileNotFoundError:
                continue  # it may have been read; if not, reading says so
            except OSError as error:
                raise _unreadable(path, error) from error
            if is_text:
                grown.append(Entry(path, status.st_size, size))
                if is_cut:
                    _LOG.warning("%s has grown in the middle of a record, which was read as it was", path)
            else:
                self._warn_changed(path, status.st_size)
        if grown:
            self._append(grown)

    def _warn_changed(self, path: str, size: int) -> None:
        _LOG.warning(
            "%s had %d bytes when it was found and has %d now; what was read of it stays, and nothing else is read: "
            "write new records to new files",
            path, self._known[path], size,
        )  # fmt: skip
        self._known[path] = size

    def _glance(self) -> _Look | None:
        """Return the time and the state of all directories that are listed; None if they are not known."""
        if is_glob(self._path) and not self._directories:
            return None
        now = self._clock()
        try:
            statuses = [os.stat(path) for path in self._directories or [self._path]]
        except OSError:
            return None  # listing says so
        marks = tuple((status.st_dev, status.st_ino, status.st_mtime_ns) for status in statuses)
        return _Look(now, marks) if all(stat.S_ISDIR(status.st_mode) for status in statuses) else None

    def _load(self) -> None:
        # no offset refers to a line that was being written when the process died
        try:
            lines = self._log.read_new()
            if lines and lines[0].startswith(b"{"):
                self._begin(msgspec.json.decode(lines.pop(0), type=Fold))
            self._add([msgspec.json.decode(line, type=Entry) for line in lines])
        except ValueError as error:  # DecodeError is one
            raise sealed.damaged(self._log.path, error) from error

    def _append(self, entries: list[Entry]) -> None:
        self._log.append(map(msgspec.json.encode, entries))
        self._add(entries)

    def _begin(self, fold: Fold) -> None:
        self._fold = fold
        self._entries, self._ends = [], []
        self._known = {known.path: known.size for known in fold.known}
        self._missing = {known.path for known in fold.known if known.is_missing}

    def _add(self, entries: list[Entry]) -> None:
        self._entries += entries
        for entry in entries:
            before = self._ends[-1] if self._ends else self._fold.bytes
            self._ends.append(before + max(0, entry.size - entry.begin))
            self._known.pop(entry.path, None)  # the one that was found last comes last
            self._known[entry.path] = entry.size


def _tail(path: str, size: int, length: int) -> bytes:
    """Return the last bytes before position `size` of a file."""
    with open(path, "rb") as file:
        file.seek(max(0, size - length))
        return file.read(min(length, size))


def shown(path: str) -> str:
    """Return the path of a file whose name is not UTF-8 as a text that no other file has."""
    escaped = path.replace("\\", "\\\\").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return escaped + _MARK


def named(path: str) -> str:
    """Return the path of an entry as people read it."""
    return path.removesuffix(_MARK)


def list_files(path: str, pattern: str = "*") -> list[str]:
    """Return the finished files of a path: a file, files of a directory that match `pattern`, or those of a glob.

    Raise a fault if the name of one is not UTF-8.
    """
    files = find_files(path, pattern)[0]
    for file in files:
        if not is_unicode(file):
            raise SourceFault(f"the name of the file {file!a} is not UTF-8", hint="rename it, or move it away")
    return files


def readable_files(path: str, pattern: str = "*") -> list[str]:
    """Return the same without files whose names are not UTF-8."""
    return list(filter(is_unicode, find_files(path, pattern)[0]))


def find_files(path: str, pattern: str) -> tuple[list[str], list[str]]:
    """Return all files and the directories that were listed: one, its partitions such as `segment=3`, and theirs.

    Those of a glob are known if just the name of the file has wildcards. Names that start with '.' or '_' or end in
    .tmp, .part or ._COPYING_ are still being written.
    """
    if is_object_url(path):
        return [str(listed.path) for listed in find_objects(path, pattern)], []
    path = os.path.abspath(path)
    if os.path.isdir(path):
        files, directories = list[str](), [path]
        for directory in directories:
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        if is_partition(entry.name) and entry.is_dir():
                            directories.append(entry.path)
                        elif fnmatch.fnmatch(entry.name, pattern) and is_final(entry.name) and entry.is_file():
                            files.append(entry.path)
            except OSError as error:
                if directory == path or not isinstance(error, FileNotFoundError):  # a partition may be deleted
                    raise _unreadable(directory, error) from error
        return files, directories
    if os.path.isfile(path):
        return [path], []
    if is_glob(path):
        only = _directory_of(path)
        if only is not None:
            return _matching(only, os.path.basename(path)), [only]
        matches = [
            match
            for match in glob.iglob(path, recursive=True)
            if is_final(os.path.basename(match)) and os.path.isfile(match)
        ]
        return matches, []
    raise SourceFault(f"there is no file or directory {path}", hint="create it first, or correct the option path")


def _unreadable(path: str, error: OSError) -> SourceFault:
    return SourceFault(f"{path} cannot be read: {error.strerror or error}", hint="give the right to read it")


def _directory_of(path: str) -> str | None:
    """Return the only directory in which files of a glob can be; None if it is no glob, or there may be several."""
    directory, name = os.path.split(path)
    return directory if is_glob(name) and name != "**" and not is_glob(directory) else None


def _matching(directory: str, name: str) -> list[str]:
    """Return the finished files of a directory that match a glob; without asking for the state of each."""
    is_match = re.compile(fnmatch.translate(name)).match
    try:
        with os.scandir(directory) as entries:
            return [
                entry.path
                for entry in entries
                if is_match(entry.name) is not None and is_final(entry.name) and entry.is_file()
            ]
    except OSError:  # a glob matches what there is
        return []


def is_glob(path: str) -> bool:
    """Say whether a path has wildcards."""
    return any(mark in path for mark in "*?[")
