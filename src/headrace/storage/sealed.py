"""Checksums of durable files: a bit that flipped at rest is a fault, not another value.

The checksum follows the content, so that text stays readable. Content without one is accepted as it is: earlier
versions wrote none.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from headrace.errors import HostFault
from headrace.storage import files

_SEAL = re.compile(rb"\n#([0-9a-f]{8})\n")
_SEAL_SIZE = 11


def read(path: Path) -> bytes:
    """Return the content of a file; raise FileNotFoundError if there is none, and a fault if it is damaged."""
    return unseal(files.read(path), path)


def unseal(data: bytes, path: Path) -> bytes:
    """Return what `seal` was given; raise a fault that names the file if it has changed."""
    try:
        return unsealed(data)
    except ValueError as error:
        raise damaged(path, error) from error


def read_if_exists(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is none."""
    try:
        return read(path)
    except FileNotFoundError:
        return None


def replace(path: Path, content: bytes) -> None:
    """Write a whole file durably, with its checksum."""
    files.replace(path, seal(content))


def create(path: Path, content: bytes) -> bool:
    """Write a whole file durably, with its checksum, if there is none of that name; return whether it was written."""
    return files.create(path, seal(content))


def seal(content: bytes) -> bytes:
    """Return bytes with their checksum."""
    return content + b"\n#" + _checksum(content) + b"\n"


def unsealed(data: bytes) -> bytes:
    """Return what `seal` was given; raise ValueError if it has changed."""
    seal = _SEAL.fullmatch(data[-_SEAL_SIZE:])
    if seal is None:
        return data
    content = data[:-_SEAL_SIZE]
    if _checksum(content) != seal[1]:
        raise ValueError("its checksum is wrong")
    return content


def damaged(path: Path, why: object) -> HostFault:
    """Return the fault of a file that cannot be read as what was written."""
    return HostFault(f"{path} is damaged: {why}", hint="restore the checkpoint from a copy, or start with a new one")


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)
