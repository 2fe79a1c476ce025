"""Copies of a checkpoint: a manifest with the digest of every file says that a copy is complete and unchanged.

A copy is taken while nobody else changes the checkpoint, so its files fit each other. It is made beside its place and
renamed at the end: a copy, or a restored checkpoint, that is there is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from headrace.errors import HostFault
from headrace.storage import files
from headrace.storage.fence import EPOCH_FILE
from headrace.storage.format import check_format, format_of
from headrace.storage.location import ObjectPath, located
from headrace.storage.owner import OWNER_FILE, Ownership

MANIFEST = "manifest.json"
#: What a checkpoint does without: the next start makes it again.
_LEFT_OUT = ("cache", "spark.log", OWNER_FILE, EPOCH_FILE, MANIFEST, "pause", "writable")
#: Files that were being written when a process died.
HIDDEN = re.compile(r"\..+\.tmp(\.crc)?")
_PIECE = 1 << 20


class Copied(Struct, frozen=True):
    """A file of a copy: its size and the digest of its content."""

    size: int
    digest: str


class Manifest(Struct, frozen=True, kw_only=True):
    """What a copy consists of."""

    format: int
    version: str  # of Headrace
    time: str  # when the copy was taken, in UTC
    source: str  # the checkpoint that was copied
    files: dict[str, Copied]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


def back_up(checkpoint: Path, to: Path, *, version: str, time: str) -> Manifest:
    """Copy a checkpoint that nobody uses; `to` must be free."""
    _check_local(checkpoint, to)
    number = format_of(checkpoint)
    if number is None:
        raise HostFault(f"there is no checkpoint in {checkpoint}", hint="give the folder of --checkpoint")
    if checkpoint.resolve() in (to.resolve(), *to.resolve().parents):
        raise HostFault(f"the copy {to} would be in the checkpoint itself", hint="choose another folder")
    _check_free(to)
    ownership = Ownership(checkpoint)
    ownership.take()
    try:
        partial = _partial(to)
        copied = {name: _copy(checkpoint / name, partial / name) for name in content(checkpoint)}
        source = str(checkpoint.resolve())
        manifest = Manifest(format=number, version=version, time=time, source=source, files=copied)
        files.replace(partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        files.move([(partial, to)])
    except OSError as error:
        raise HostFault(
            f"cannot copy {checkpoint} to {to}: {error.strerror}", hint="free space or choose another folder"
        ) from error
    finally:
        ownership.release()
    return manifest


def restore(copy: Path, checkpoint: Path) -> Manifest:
    """Make a checkpoint from a copy, after a look at every byte of it; `checkpoint` must be free."""
    _check_local(copy, checkpoint)
    manifest = read_manifest(copy)
    check_format(copy)
    _check_free(checkpoint)
    try:
        partial = _partial(checkpoint)
        for name, expected in manifest.files.items():
            try:
                copied = _copy(copy / name, partial / name)
            except FileNotFoundError as error:
                raise HostFault(f"{copy / name} is missing", hint="use another copy") from error
            if copied != expected:
                raise HostFault(f"{copy / name} has changed since the copy was taken", hint="use another copy")
        files.move([(partial, checkpoint)])
    except OSError as error:
        raise HostFault(
            f"cannot copy {copy} to {checkpoint}: {error.strerror}", hint="free space or choose another folder"
        ) from error
    return manifest


def read_manifest(copy: Path) -> Manifest:
    """Return what a copy consists of."""
    data = files.read_if_exists(copy / MANIFEST)
    if data is None:
        raise HostFault(f"there is no copy of a checkpoint in {copy}", hint=f"a complete copy has a file {MANIFEST}")
    try:
        return msgspec.json.decode(data, type=Manifest)
    except ValueError as error:  # DecodeError is one
        raise HostFault(f"{copy / MANIFEST} is damaged: {error}", hint="use another copy") from error


def content(checkpoint: Path) -> list[str]:
    """Return the names of the files that a checkpoint needs, relative to it."""
    names = []
    for folder, folders, inside in os.walk(checkpoint):
        where = Path(folder).relative_to(checkpoint)
        folders[:] = sorted(name for name in folders if str(where / name) not in _LEFT_OUT)
        names += [str(where / name) for name in sorted(inside) if not HIDDEN.fullmatch(name)]
    return [name for name in names if name not in _LEFT_OUT]


def _check_local(*places: Path) -> None:
    for place in map(located, places):
        if isinstance(place, ObjectPath):
            raise HostFault(
                f"{place} is in an object store: backup and restore copy folders of the local disk",
                hint="stop the process and copy everything below the URL with the tools of the store, or use versions",
            )


def _check_free(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise HostFault(f"{directory} exists and is not empty", hint="choose another folder, or move it away first")


def _partial(directory: Path) -> Path:
    """Return an empty place beside a directory, to be renamed to it; what an interrupted copy left there goes."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    return partial


def _copy(source: Path, destination: Path) -> Copied:
    digest, size = hashlib.blake2b(digest_size=32), 0

    def write(file: BinaryIO) -> None:
        nonlocal size
        with open(source, "rb") as content:
            while piece := content.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                file.write(piece)

    files.replace_by(destination, write)
    return Copied(size, digest.hexdigest())
