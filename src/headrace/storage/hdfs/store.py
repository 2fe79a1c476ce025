"""HDFS as an object store: the calls of obstore that `storage.objects` makes, over WebHDFS.

WebHDFS is HTTP: every process of a cluster can speak it without Java and without a package.

HDFS can rename a file over another one, or only if there is none, both atomically. So a file is written under a hidden
name first. HDFS cannot replace a file only if it has not changed. A file that is swapped therefore has versions: the
first one is the file itself, later ones are numbered files in a hidden folder beside it, and the newest one counts.
A swap makes the next number, which only one process can do. It then looks whether its number is still the newest,
because older versions are deleted and their names could be taken again.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.storage.hdfs.faults import AlreadyExistsError, HdfsError, PreconditionError
from headrace.storage.hdfs.settings import Hdfs
from headrace.storage.hdfs.web import WebHdfs

#: How often the newest version is looked for again after it was deleted in favor of a newer one.
_LOOKS = 20
_HIDDEN = ".tmp"


@dataclass(frozen=True, slots=True)
class Content:
    """A file that was read: its bytes and what `put` needs to replace just this content."""

    data: bytes
    tag: str

    def bytes(self) -> bytes:
        return self.data

    @property
    def meta(self) -> Mapping[str, str]:
        return {"e_tag": self.tag}


class HdfsStore:
    """The files of one name node, or of the pair of a name service. Keys are paths without the first slash."""

    def __init__(self, hdfs: Hdfs) -> None:
        self._web = WebHdfs(hdfs)

    def get(self, key: str, *, options: Mapping[str, Any] | None = None) -> Content:
        """Return a file, or the newest version of one that is swapped."""
        start = 0 if options is None else int(options["range"]["offset"])
        for _ in range(_LOOKS):
            number = max(self._versions(key), default=0)
            try:
                data = self._open(_version(key, number), start)
            except FileNotFoundError:
                if number == 0:
                    raise
                continue  # a newer one has just taken its place
            return Content(data, f"v{number}" if number else _digest(data))
        raise HdfsError(None, f"{key} changes all the time")

    def get_range(self, key: str, *, start: int, end: int) -> bytes:
        """Return some bytes of a file that is not swapped."""
        return self._open(key, start, end - start)

    def head(self, key: str) -> dict[str, Any]:
        """Return the size of a file and when it was changed last; of one that is swapped, its first version."""
        status = self._status(key)
        return {"size": status["length"], "last_modified": _time(status)}

    def list_with_delimiter(self, prefix: str | None) -> dict[str, Any]:
        """Return what lies in a folder."""
        entries = self._entries(prefix or "")
        paths = [(_joined(prefix, name), status) for name, status in entries]
        return {
            "common_prefixes": [path for path, status in paths if status["type"] == "DIRECTORY"],
            "objects": [{"path": path} for path, status in paths if status["type"] != "DIRECTORY"],
        }

    def list(self, prefix: str | None, *, offset: str | None = None) -> Iterator[Sequence[dict[str, Any]]]:
        """Return all files below a folder in the order of their keys, those behind `offset`."""
        found = sorted(self._below(prefix or ""), key=lambda entry: str(entry["path"]))
        yield [entry for entry in found if offset is None or entry["path"] > offset]

    def put(
        self, key: str, data: bytes, *, mode: Any = None, use_multipart: bool = False, shared: bool = False
    ) -> Mapping[str, str]:
        """Write a whole file: over another one, only if there is none, or only if that has a tag."""
        newest = max(self._versions(key), default=0)
        if mode == "create":
            if newest or not self._place(key, data, key, shared=shared):
                raise AlreadyExistsError(key)
        elif mode is not None:
            return {"e_tag": self._swap(key, data, str(mode["e_tag"]), newest)}
        elif newest:
            while not self._place(key, data, _version(key, newest + 1), shared=shared):
                newest = max(self._versions(key))
        else:
            self._place(key, data, key, shared=shared, over=True)
        return {"e_tag": _digest(data)}

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of a file of that name. Neither is swapped."""
        self._rename(old, new, over=True)

    def move(self, old: str, new: str) -> None:
        """Do the same with files that may be swapped, for which it is not atomic."""
        if self._versions(old) or self._versions(new):
            self.put(new, self.get(old).bytes())
            self.delete([old])
        else:
            self.rename(old, new)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those of these files that exist, with all versions."""
        for key in keys:
            self._delete(key)
            self._web.ask("DELETE", _folder(key), "DELETE", recursive="true")

    def remove_empty(self, key: str) -> None:
        """Delete a folder if nothing is in it."""
        self._delete(key)

    def sweep(self, key: str) -> int:
        """Delete what was being written in a folder when a process died; count it."""
        hidden = [name for name, _ in self._entries(key) if name.startswith(".") and name.endswith(_HIDDEN)]
        for name in hidden:
            self._delete(_joined(key, name))
        return len(hidden)

    def _swap(self, key: str, data: bytes, tag: str, newest: int) -> str:
        is_known = tag == f"v{newest}" if newest else self._has(key, tag)
        number = newest + 1
        if not is_known or not self._place(key, data, _version(key, number)):
            raise PreconditionError(key)
        numbers = self._versions(key)
        if max(numbers, default=0) != number:
            raise PreconditionError(key)
        for old in numbers:
            if old < number:
                self._delete(_version(key, old))
        return f"v{number}"

    def _has(self, key: str, digest: str) -> bool:
        try:
            return _digest(self._open(key)) == digest
        except FileNotFoundError:
            return False

    def _place(self, key: str, data: bytes, final: str, *, shared: bool = False, over: bool = False) -> bool:
        """Write a file under a hidden name and rename it; return whether that name was free, or may be replaced."""
        folder, name = posixpath.split(key)
        hidden = _joined(folder, f".{name}.{secrets.token_hex(8)}{_HIDDEN}")
        permission = "644" if shared else "600"
        try:
            self._web.ask("PUT", hidden, "CREATE", data, overwrite="true", permission=permission)
            if final != key:
                self._web.ask("PUT", _folder(key), "MKDIRS", permission="700")
            return self._rename(hidden, final, over=over)
        except BaseException:
            self._forget(hidden)
            raise

    def _rename(self, old: str, new: str, *, over: bool) -> bool:
        option = "OVERWRITE" if over else "NONE"
        try:
            answer = self._web.ask("PUT", old, "RENAME", destination=f"/{new}", renameoptions=option)
        except HdfsError as error:
            if error.code != "FileAlreadyExistsException":
                raise
            self._forget(old)
            return False
        if answer and json.loads(answer).get("boolean") is False:  # of a server that does not know the option
            raise HdfsError(400, "the server cannot rename a file over another one; HttpFS is not supported")
        return True

    def _forget(self, hidden: str) -> None:
        try:
            self._delete(hidden)
        except OSError:  # the next sweep deletes it
            return

    def _delete(self, key: str) -> None:
        """Delete a file or an empty folder; nothing if it is not there, or a folder with something in it."""
        try:
            self._web.ask("DELETE", key, "DELETE", recursive="false")
        except HdfsError as error:
            if not error.code.startswith("PathIsNotEmpty"):
                raise

    def _open(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        parameters = {"offset": str(start)} | ({} if length is None else {"length": str(length)})
        try:
            return self._web.ask("GET", key, "OPEN", b"", **parameters)
        except HdfsError as error:
            if start and "out of the range" in error.code:
                raise HdfsError(416, "") from error
            raise

    def _status(self, key: str) -> Mapping[str, Any]:
        status: Mapping[str, Any] = json.loads(self._web.ask("GET", key, "GETFILESTATUS"))["FileStatus"]
        if status["type"] == "DIRECTORY":
            raise FileNotFoundError(key)
        return status

    def _versions(self, key: str) -> Sequence[int]:
        return [int(name) for name, _ in self._entries(_folder(key))]

    def _entries(self, key: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the names in a folder and what is known of each; nothing if there is no such folder."""
        try:
            answer = json.loads(self._web.ask("GET", key, "LISTSTATUS"))
        except FileNotFoundError:
            return []
        statuses = answer["FileStatuses"]["FileStatus"]
        return [(str(status["pathSuffix"]), status) for status in statuses if status["pathSuffix"]]

    def _below(self, key: str) -> Iterator[dict[str, Any]]:
        for name, status in self._entries(key):
            path = _joined(key, name)
            if status["type"] == "DIRECTORY":
                yield from self._below(path)
            else:
                yield {"path": path, "size": status["length"], "last_modified": _time(status)}


def _joined(folder: str | None, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _folder(key: str) -> str:
    """Return where the later versions of a file are."""
    folder, name = posixpath.split(key)
    return _joined(folder, f".{name}.versions")


def _version(key: str, number: int) -> str:
    return f"{_folder(key)}/{number:012d}" if number else key


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _time(status: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(status["modificationTime"] / 1000, UTC)
