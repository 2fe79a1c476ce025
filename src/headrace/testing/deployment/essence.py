"""What of a disk decides how a deployment goes on: two disks with the same essence have the same future.

Who owns the checkpoint, files that were read, notes of tasks, old entries of Spark's logs and old state decide nothing;
nor does the order of rows in a spool.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from headrace.driver.offset import Offset
from headrace.model.page import Page
from headrace.storage.fence import EPOCH_FILE

Essence: TypeAlias = frozenset[tuple[str, Any]]
_SEAL = 11  # bytes of a checksum
_sorted_rows: dict[bytes, str] = {}


def essence(root: Path, content: dict[str, bytes]) -> Essence:
    """Return the essence of the files below a directory."""
    names = {
        path[len(str(root)) :]: data
        for path, data in content.items()
        if "/checkpoint/notes/" not in path and not path.endswith(f"/checkpoint/{EPOCH_FILE}")
    }
    offset = _last_offset(names)
    facts: list[tuple[str, Any]] = []
    newest: dict[str, int] = {}
    for name, data in names.items():
        if name.startswith("/checkpoint/spark/"):
            folder, _, entry = name.rpartition("/")
            if entry.isdigit():
                newest[folder] = max(newest.get(folder, -1), int(entry))
        elif name.endswith(".arrow"):
            folder, _, file = name.rpartition("/")
            number = int(file.split("-")[0])
            newest[folder] = max(newest.get(folder, -1), number)
            if not file.endswith("-0.arrow") and number >= _read_until(folder, offset):
                facts.append((name, _rows(data)))
        else:
            facts.append((name, data))
    for folder, last in newest.items():
        latest = names.get(f"{folder}/{last}") if folder.startswith("/checkpoint/spark/state/") else None
        if not folder.startswith("/checkpoint/exchange/"):
            facts.append((folder, (last, latest)))
    facts.append(("offset", offset and msgspec.json.encode(offset)))
    return frozenset(facts)


def _last_offset(names: dict[str, bytes]) -> Offset | None:
    folder = "/checkpoint/spark/offsets/"
    numbers = [int(number) for name in names if name.startswith(folder) and (number := name[len(folder) :]).isdigit()]
    if not numbers:
        return None
    try:
        return msgspec.json.decode(names[f"{folder}{max(numbers)}"].split(b"\n")[-1], type=Offset)
    except msgspec.DecodeError:
        return None


def _read_until(folder: str, offset: Offset | None) -> int:
    if offset is None:
        return 0
    name = folder.rpartition("/")[2]
    where: Any = offset.exchanges.get(name) if "/exchange/" in folder else offset.streams.get(name)
    return (where.at or 0) if where is not None else 0


def _rows(data: bytes) -> str:
    """Return the rows of a spooled file in an order of their own."""
    if data not in _sorted_rows:
        is_whole = data[-_SEAL:] == b"\n#%08x\n" % zlib.crc32(data[:-_SEAL])
        _sorted_rows[data] = str(sorted(map(str, Page.decode(data[:-_SEAL]).rows.rows()))) if is_whole else repr(data)
    return _sorted_rows[data]
