"""Content by its digest: written once, never changed, and the same wherever it is found.

What is large and needed by many tasks travels as a digest. Whoever needs it looks into the places that its process
knows (`offer`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from headrace.errors import HostFault
from headrace.storage import files, sealed

#: A process looks into so many places; more than one are those of tests.
_MOST_PLACES = 64
_places: dict[Path, None] = {}


def offer(directory: Path) -> None:
    """Let this process look for content in a directory, which need not exist yet."""
    _places.pop(directory, None)
    _places[directory] = None
    if len(_places) > _MOST_PLACES:
        del _places[next(iter(_places))]


def keep(directory: Path, data: bytes) -> str:
    """Write content durably, unless it is there; return its digest."""
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    if not files.exists(directory / digest):
        files.replace(directory / digest, data)
    return digest


def fetch(digest: str) -> bytes:
    """Return the content with a digest; raise a fault if it is nowhere, or damaged."""
    for directory in reversed(_places):
        data = files.read_if_exists(directory / digest)
        if data is None:
            continue
        if hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
            raise sealed.damaged(directory / digest, "its digest is another one")
        return data
    raise HostFault(
        f"{next(reversed(_places), Path()) / digest} is missing",
        hint="restore the checkpoint from a copy, or create the queries that use the table again",
    )
