"""The files of a FILES connector in an object store: what a listing of its keys gives."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from headrace.connectors.files.partitions import is_partition
from headrace.errors import SourceFault
from headrace.storage.location import ObjectPath, located
from headrace.storage.objects import Listed
from headrace.storage.storage import OBJECTS

_WILD = re.compile(r"[*?\[]")


def find_objects(path: str, pattern: str) -> list[Listed]:
    """Return the objects of a URL: one, those of a folder and its partitions that match `pattern`, or those of a glob.

    Names that start with '.' or '_' or end in .tmp, .part or ._COPYING_ are still being written. A folder without
    objects is not a fault: object stores have no folders.
    """
    place = _object(path)
    fixed = next((i for i, part in enumerate(place.parts) if _WILD.search(part)), None)
    try:
        if fixed is not None:
            glob = re.compile(_translated("/".join(place.parts[2:])))
            listing = OBJECTS.listing(ObjectPath(*place.parts[:fixed]))
            return [listed for listed in listing if glob.fullmatch(listed.path.key) and is_final(listed.path.name)]
        listing = OBJECTS.listing(place)
        below = [listed for listed in listing if _belongs(listed.path.parts[len(place.parts) :], pattern)]
        return below if listing else OBJECTS.find(place)
    except OSError as error:
        raise SourceFault(
            f"{path} cannot be listed: {error.strerror}", hint="correct the option path, or give the right to list it"
        ) from error


def is_final(name: str) -> bool:
    """Return whether a name is that of a file that is complete."""
    return not name.startswith((".", "_")) and not name.endswith((".tmp", ".part", "._COPYING_"))


def _belongs(parts: tuple[str, ...], pattern: str) -> bool:
    """Return whether an object lies in a folder or its partitions, with a name that matches."""
    *folders, name = parts or ("",)
    return all(map(is_partition, folders)) and fnmatch.fnmatchcase(name, pattern) and is_final(name)


def _translated(glob: str) -> str:
    """Return a glob as a regular expression: `**` stands for any folders, other wildcards stay within a name."""
    parts = []
    for part in glob.split("/"):
        if part == "**":
            parts.append(r"(?:[^/]+/)*")
        else:
            inner = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z")
            parts.append(inner.replace(".*", "[^/]*") + "/")
    return "".join(parts).removesuffix("/")


def _object(path: str) -> ObjectPath:
    place = located(Path(path))
    assert isinstance(place, ObjectPath)
    return place
