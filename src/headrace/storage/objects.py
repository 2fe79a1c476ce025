"""Object stores as a storage: S3, Google Cloud Storage, Azure, and HDFS, whose client is in `storage.hdfs`.

An object is complete once it is there, so a file is one PUT. There is no rename: a move copies and then deletes, and
after a crash in between it is done again. There is no append either: a file to which bytes are added is a folder of
segments, see `storage.segments`.

A request that fails for a passing reason is repeated, a bounded number of times. What came of a conditional request
whose answer was lost is found out by reading: the bytes that are there say who wrote them.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from headrace import extras
from headrace.storage.hdfs.faults import HdfsError
from headrace.storage.hdfs.settings import Hdfs, hdfs_of
from headrace.storage.location import HDFS, ObjectPath, located
from headrace.storage.object_settings import configured, store_options
from headrace.storage.requests import Requests
from headrace.storage.segments import Segments

#: How often a request is tried, and the longest pause before each further try, in seconds.
TRIES = 8
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0)
#: After so many tries the log warns that a store does not answer.
_TOLD_AFTER = 4
#: So many objects are deleted by one request.
_DELETED_AT_ONCE = 1000
#: The status of an answer, and what S3 and Azure call the error.
_STATUS = re.compile(r"status code: (\d{3})([^:<{\n]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_ALL = re.compile(r"(.+)")
#: Answers after which the same request may succeed; none at all is the other reason to try again.
_PASSING = ("408", "409", "429", "500", "502", "503", "504")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing."""

    path: ObjectPath
    size: int
    changed: datetime


class ObjectStorage:
    """The objects of all buckets; a path says which."""

    def __init__(
        self, *, pause: Callable[[float], None] = time.sleep, chance: Callable[[], float] = random.random
    ) -> None:
        self._pause = pause
        self._chance = chance
        self._stores: dict[tuple[int, str, str, str], Any] = {}
        self._segments = Segments(self)
        self._lock = threading.Lock()
        self._counted: dict[str, Requests] = {}  # by store
        self._taken: dict[str, Requests] = {}  # of these, as they were when they were last taken

    @property
    def counted(self) -> dict[str, Requests]:
        """The requests that this process has made, by store."""
        with self._lock:
            return dict(self._counted)

    def take_counted(self) -> dict[str, Requests]:
        """Return the requests that this process has made since this was called last."""
        now = self.counted
        before, self._taken = self._taken, now
        return {
            store: Requests(
                requests.made - known.made,
                requests.repeated - known.repeated,
                requests.failed - known.failed,
                requests.fault,
            )
            for store, requests in now.items()
            if requests != (known := before.get(store, Requests()))
        }

    def read(self, path: Path, start: int = 0) -> bytes:
        at, options = _object(path), {"range": {"offset": start}} if start else None
        try:
            return bytes(self._try(at, lambda store: store.get(at.key, options=options).bytes()))
        except _BeyondEnd:
            return b""

    def read_range(self, path: Path, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of an object that has so many."""
        at = _object(path)
        return bytes(self._try(at, lambda store: store.get_range(at.key, start=start, end=end))) if start < end else b""

    def size(self, path: Path) -> int:
        """Return the length of an object; raise FileNotFoundError if there is none."""
        at = _object(path)
        return int(self._try(at, lambda store: store.head(at.key))["size"])

    def exists(self, path: Path) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def names(self, directory: Path) -> list[str]:
        at = _object(directory)
        listing = self._try(at, lambda store: store.list_with_delimiter(_prefix(at)))
        paths = [*listing["common_prefixes"], *(listed["path"] for listed in listing["objects"])]
        names = {path.rstrip("/").rpartition("/")[2] for path in paths}
        return sorted(name for name in names if name and not name.startswith("."))

    def listing(self, directory: Path, after: str | None = None) -> list[Listed]:
        """Return all objects below a directory in the order of their keys; those behind a key if it is given."""
        at = _object(directory)
        objects = self._try(at, lambda store: [one for page in store.list(_prefix(at), offset=after) for one in page])
        root = ObjectPath(f"{at.scheme}:", at.bucket)
        return [Listed(root / one["path"], one["size"], one["last_modified"]) for one in objects]

    def find(self, path: Path) -> list[Listed]:
        """Return one object as a listing would show it; nothing if there is none."""
        at = _object(path)
        try:
            known = self._try(at, lambda store: store.head(at.key)) if at.key else None
        except FileNotFoundError:
            known = None
        return [] if known is None else [Listed(at, known["size"], known["last_modified"])]

    def replace(self, path: Path, write: Callable[[Any], Any], *, durable: bool = True, shared: bool = False) -> None:
        at, file = _object(path), io.BytesIO()
        write(file)
        self._put(at, file.getvalue(), shared=shared)

    def create(self, path: Path, data: bytes) -> bool:
        return self._put_if(path, data, "create") is not None

    def read_tagged(self, path: Path) -> tuple[bytes, str] | None:
        at = _object(path)

        def get(store: Any) -> tuple[bytes, str]:
            answer = store.get(at.key)
            return bytes(answer.bytes()), _tag(answer.meta)

        try:
            return self._try(at, get)
        except FileNotFoundError:
            return None

    def swap(self, path: Path, data: bytes, tag: str) -> str | None:
        e_tag, _, version = tag.partition("\n")
        known = {"e_tag": e_tag, "version": version}
        return self._put_if(path, data, {name: value for name, value in known.items() if value})

    def append(self, path: Path, data: bytes, *, keep: int | None = None) -> None:
        self._segments.append(path, data, keep)

    def read_appended(self, path: Path, start: int = 0) -> bytes:
        return self._segments.read(path, start)

    def replace_appended(self, path: Path, data: bytes) -> None:
        self._segments.replace(path, data)

    def move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        if moves and all(_object(path).scheme == HDFS for pair in moves for path in pair):
            for source, destination in moves:
                self._rename(_object(source), _object(destination), "move")
            return
        self.adopt(moves)
        self.remove([source for source, _ in moves])

    def adopt(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Give files that are not swapped other names, in this order; the old names stay where that costs a request.

        Raise FileNotFoundError if one is missing.
        """
        for source, destination in moves:
            old, new = _object(source), _object(destination)
            if (old.scheme, old.bucket) != (new.scheme, new.bucket):
                self._put(new, self.read(old), shared=True)
            elif old.scheme == HDFS:
                self._rename(old, new, "rename")
            else:
                self._copy(old, new)

    def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
        by_bucket: dict[ObjectPath, list[str]] = {}
        for path in paths:
            at = _object(path)
            by_bucket.setdefault(ObjectPath(f"{at.scheme}:", at.bucket), []).append(at.key)
        for bucket, keys in by_bucket.items():
            for first in range(0, len(keys), _DELETED_AT_ONCE):
                some = keys[first : first + _DELETED_AT_ONCE]
                try:
                    self._delete(bucket, some)
                except FileNotFoundError:  # some stores say so
                    for key in some if len(some) > 1 else ():
                        self.remove([bucket / key])

    def force(self, directory: Path) -> None:
        """Do nothing: an object that is there is durable."""

    def sweep(self, directory: Path) -> int:
        """Delete what was being written to HDFS when a process died; elsewhere it has no name."""
        at = _object(directory)
        return int(self._try(at, lambda store: store.sweep(at.key))) if at.scheme == HDFS else 0

    def remove_empty(self, directory: Path) -> None:
        """Delete a folder of HDFS if nothing is in it; object stores have none."""
        at = _object(directory)
        if at.scheme == HDFS:
            self._try(at, lambda store: store.remove_empty(at.key))

    def _rename(self, old: ObjectPath, new: ObjectPath, how: Literal["move", "rename"]) -> None:
        """Rename a file of HDFS; if the answer to an earlier try was lost, it may have its new name already."""
        tries = 0

        def request(store: Any) -> None:
            nonlocal tries
            tries += 1
            getattr(store, how)(old.key, new.key)

        try:
            self._try(old, request)
        except FileNotFoundError:
            if tries == 1 or not self.exists(new):
                raise

    def _copy(self, old: ObjectPath, new: ObjectPath) -> None:
        self._try(old, lambda store: store.copy(old.key, new.key))

    def _delete(self, bucket: ObjectPath, keys: Sequence[str]) -> None:
        self._try(bucket, lambda store: store.delete(keys))

    def _put(self, at: ObjectPath, data: bytes, *, shared: bool = False) -> None:
        options = {"shared": shared} if at.scheme == HDFS else {}
        try:
            self._try(at, lambda store: store.put(at.key, data, **options))
        except FileNotFoundError as error:
            raise OSError(errno.ENXIO, f"there is no bucket {at.bucket}", str(at)) from error

    def _put_if(self, path: Path, data: bytes, mode: Any) -> str | None:
        """Write an object on a condition; return its tag, or None if the condition does not hold."""
        at, tries = _object(path), 0

        def put(store: Any) -> str:
            nonlocal tries
            tries += 1
            return _tag(store.put(at.key, data, mode=mode, use_multipart=False))

        try:
            return self._try(at, put)
        except _Refused:
            known = self.read_tagged(at) if tries > 1 else None  # an earlier try may have succeeded
            return known[1] if known is not None and known[0] == data else None

    def _try(self, at: ObjectPath, request: Callable[[Any], _T]) -> _T:
        """Make a request, again if it fails for a passing reason."""
        store = self._store(at)
        for tried in range(TRIES):
            self._count(at, Requests(made=1, repeated=int(tried > 0)))
            try:
                return request(store)
            except Exception as error:
                if not isinstance(error, OSError) and not type(error).__module__.startswith("obstore"):
                    raise
                fault, may_pass = _fault_of(error, at, tried + 1)
                if not may_pass or tried + 1 == TRIES:
                    if not isinstance(fault, FileNotFoundError | _Refused | _BeyondEnd):
                        self._count(at, Requests(failed=1, fault=str(fault.strerror)))
                    raise fault from error
                self._count(at, Requests(fault=str(fault.strerror)))
                _LOG.log(
                    logging.WARNING if tried + 1 == _TOLD_AFTER else logging.INFO,
                    "%s: %s; trying again",
                    at,
                    fault.strerror,
                )
                self._pause(_PAUSES[tried] * self._chance())
        raise AssertionError("the last try returns or raises")

    def _count(self, at: ObjectPath, requests: Requests) -> None:
        store = f"{at.scheme}://{at.bucket}"
        with self._lock:
            self._counted[store] = self._counted.get(store, Requests()).plus(requests)

    def _store(self, at: ObjectPath) -> Any:
        """Return the client of a bucket; one for each process, since its connections do not survive a fork."""
        options = hdfs_of(at.bucket, configured()) if at.scheme == HDFS else store_options(at)
        key = os.getpid(), at.scheme, at.bucket, repr(options)
        with self._lock:
            if key not in self._stores:
                self._stores[key] = _client(at, options)
            return self._stores[key]


class _Refused(OSError):
    """The condition of a request does not hold."""


class _BeyondEnd(OSError):
    """A range begins behind the end of an object."""


def _client(at: ObjectPath, options: Hdfs | Mapping[str, Any]) -> Any:
    if isinstance(options, Hdfs):
        from headrace.storage.hdfs.store import HdfsStore  # here: few processes need HTTP

        return HdfsStore(options)
    stores = extras.load("obstore.store", "objects", f"storage at {at.scheme}:")
    match at.scheme:
        case "s3a":
            return stores.S3Store(at.bucket, **options)
        case "gs":
            return stores.GCSStore(at.bucket, **options)
        case _:
            return stores.AzureStore.from_url(f"{at.scheme}://{at.bucket}", **options)


def _fault_of(error: Exception, at: ObjectPath, tries: int) -> tuple[OSError, bool]:
    """Return an error of a store as one of the operating system, and whether another try may succeed.

    Only the status and the name of the error are told: the rest of an answer may hold an access key.
    """
    text, kind = str(error), type(error).__name__
    if isinstance(error, HdfsError):
        status, code = _STATUS.search(f"status code: {error.status}"), _ALL.fullmatch(error.code)
    else:
        status, code = _STATUS.search(text), _CODE.search(text)
    if any(name in text for name in _NO_BUCKET):
        return OSError(errno.ENXIO, f"there is no bucket {at.bucket}", str(at)), False
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(at)), False
    if kind in ("AlreadyExistsError", "PreconditionError"):
        return _Refused(errno.EEXIST, "it has changed", str(at)), False
    number = status[1] if status is not None else None
    if number == "416":
        return _BeyondEnd(errno.EINVAL, "the range lies behind the end", str(at)), False
    told = " ".join(part for part in (number, code[1] if code else "") if part)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or number in ("401", "403"):
        return PermissionError(errno.EACCES, f"the store refuses access ({told or kind})", str(at)), False
    if number is None and not isinstance(error, OSError) and kind != "GenericError":
        return OSError(errno.EINVAL, f"{kind}: {text.splitlines()[0]}", str(at)), False
    what = told or "the connection failed"
    after = f" after {tries} tries" if tries > 1 else ""
    return OSError(
        errno.EIO, f"the store does not answer{after} ({what})", str(at)
    ), number is None or number in _PASSING


def _object(path: Path) -> ObjectPath:
    at = located(path)
    if not isinstance(at, ObjectPath):
        raise TypeError(f"{path} is not in an object store")
    return at


def _prefix(at: ObjectPath) -> str | None:
    return at.key or None


def _tag(meta: Any) -> str:
    """Return the tag of an object: what its store needs for a condition."""
    return f"{meta.get('e_tag') or ''}\n{meta.get('version') or ''}"
