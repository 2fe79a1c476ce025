"""What processes count of their requests of object stores, and how the one that answers SHOW STORES learns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.storage.disk import LocalDisk


class Requests(Struct, frozen=True, omit_defaults=True):
    """The requests of one store: how many, how many of them were repetitions, and how many were given up."""

    made: int = 0
    repeated: int = 0
    failed: int = 0
    fault: str = ""  # why a request was repeated or given up last

    def plus(self, later: Requests) -> Requests:
        """Return what was counted before and after."""
        return Requests(
            self.made + later.made,
            self.repeated + later.repeated,
            self.failed + later.failed,
            later.fault or self.fault,
        )


def added(counted: Iterable[Mapping[str, Requests]]) -> dict[str, Requests]:
    """Return the sums by store."""
    sums: dict[str, Requests] = {}
    for store, requests in (item for some in counted for item in some.items()):
        sums[store] = sums.get(store, Requests()).plus(requests)
    return sums


_decoder = msgspec.json.Decoder(dict[str, Requests])


def leave(path: Path, counted: Mapping[str, Requests]) -> None:
    """Leave what this process has counted for another one of this machine; nothing depends on it."""
    with suppress(OSError):
        LocalDisk().replace(path, lambda file: file.write(msgspec.json.encode(counted)), durable=False)


def left(path: Path) -> dict[str, Requests]:
    """Return what another process has left."""
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, ValueError):  # DecodeError is one
        return {}
