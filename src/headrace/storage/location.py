"""Places by text: a path of the local disk, or the URL of an object store or of HDFS, which counts as one.

Both are a `Path`, so that the same code joins and names them. The path of an object store is an `ObjectPath`: its text
is the URL, and the operating system does not take it. Only a `Storage` can open it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PosixPath
from typing import NoReturn
from urllib.parse import unquote

from headrace.errors import QueryError, Span

HDFS = "hdfs"
#: Schemes of object stores, and how we write each; Spark knows S3 as s3a.
SCHEMES = {"s3": "s3a", "s3a": "s3a", "s3n": "s3a", "gs": "gs", "abfs": "abfs", "abfss": "abfss", HDFS: HDFS}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/+")
#: The machine of a file, between two slashes and a third.
_FILE_HOST = re.compile(r"file://([^/]+)(?=/|$)", re.IGNORECASE)
_USER = re.compile(r"[^/@]*:[^/@]*@")
#: Schemes of file systems that machines can mount.
_MOUNTED = ("dbfs", "nfs", "viewfs")
_KNOWN = "a local path, file:, hdfs:, s3:, s3a:, gs:, abfs: and abfss:"


class ObjectPath(PosixPath):
    """A place in an object store: the scheme with its colon, the bucket, and the parts of a key."""

    def __str__(self) -> str:
        scheme, *rest = self.parts or ("",)
        return f"{scheme}//{'/'.join(rest)}" if scheme.endswith(":") else super().__str__()

    def __fspath__(self) -> NoReturn:
        raise TypeError(f"{self} is not on the local disk")

    @property
    def scheme(self) -> str:
        return self.parts[0].removesuffix(":")

    @property
    def bucket(self) -> str:
        return self.parts[1]

    @property
    def key(self) -> str:
        return "/".join(self.parts[2:])


def located(path: Path) -> Path:
    """Return a path as what it is: one that was made from the text of an object store's URL is an `ObjectPath`."""
    if isinstance(path, ObjectPath) or path.is_absolute() or not path.parts:
        return path
    is_url = len(path.parts) > 1 and path.parts[0].removesuffix(":") in SCHEMES and path.parts[0].endswith(":")
    return ObjectPath(*path.parts) if is_url else path


def location(text: str, *, span: Span | None = None, is_data: bool = True) -> Path:
    """Return the place that a user names, of data or of a checkpoint; refuse a scheme that is not known."""
    if not text.strip():
        raise QueryError("a path is empty", span=span, hint="name a file or a folder; '.' is the current one")
    if "\0" in text or not is_unicode(text):
        raise QueryError(f"{text!a} cannot be a path", span=span, hint="write it in UTF-8, without NUL")
    scheme, match = scheme_of(text), _SCHEME.match(text)
    if match is None:
        return Path(text)
    rest = text[match.end() :]
    if scheme == "file":
        host = _FILE_HOST.match(text)
        if host is not None and host[1] != "localhost":
            raise QueryError(
                f"{text!r} names a file of the machine {host[1]}", span=span, hint="write three slashes: file:///path"
            )
        return Path("/" + unquote(rest if host is None else rest.removeprefix(host[1])).lstrip("/"))
    if scheme not in SCHEMES:
        hint = f"use {_KNOWN}"
        if is_data:
            hint += "; or FROM SPARK and INTO SPARK for data elsewhere"
        elif scheme in _MOUNTED:
            hint += "; a file system that is mounted on all machines under the same name has a local path"
        raise QueryError(f"{_plain(text)!r} begins with {scheme}:, which is not supported", span=span, hint=hint)
    if _USER.match(rest):
        raise QueryError(
            f"{_plain(text)!r} holds a password or a key",
            span=span,
            hint="leave it out: credentials come from the environment or the machine's role",
        )
    if scheme == HDFS and text[: match.end()].endswith("///"):
        raise QueryError(
            f"{_plain(text)!r} does not name a name node",
            span=span,
            hint="write it, or the name service: hdfs://host:8020/path",
        )
    parts = [part for part in rest.split("/") if part]
    if not parts or any(part in (".", "..") for part in parts):
        raise QueryError(
            f"{_plain(text)!r} does not name a place", span=span, hint="write scheme, bucket and path: s3a://lake/state"
        )
    return ObjectPath(f"{SCHEMES[scheme]}:", *parts)


def absolute(path: Path) -> Path:
    """Return a place that does not depend on the working directory."""
    path = located(path)
    return path if isinstance(path, ObjectPath) else Path(os.path.abspath(path))


def resolved(path: Path) -> Path:
    """Return the same, without symbolic links: processes that name it in different ways get one path."""
    path = located(path)
    return path if isinstance(path, ObjectPath) else path.resolve()


def scheme_of(text: str) -> str:
    """Return the scheme that a text begins with, in lower case; an empty one for a path."""
    match = _SCHEME.match(text)
    return "" if match is None else match[1].lower()


def is_unicode(text: str) -> bool:
    """Return whether a text can be written in UTF-8: it has no bytes that were not, nor halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_object_url(text: str) -> bool:
    """Return whether a text is the URL of an object store."""
    return scheme_of(text) in SCHEMES


def _plain(text: str) -> str:
    """Return a URL without what may be a password, and with both slashes, one of which is lost in a `Path`."""
    return re.sub(r"//[^/@]*:[^/@]*@", "//...@", _SCHEME.sub(r"\1://", text, count=1))
