"""The parts of exchanges: which files of pages wait to be read, and which can be deleted.

Tasks write pages that change bucket into files of their own. The delivery of the micro-batch names these files in
`progress.json`, which is what makes them count: a file of an attempt that failed has no name there. The next
micro-batch reads them all, and its offset repeats their names, so that a repetition reads the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from headrace.connectors.spool import Spooled, deal, exchange_spool
from headrace.driver.offset import ExchangeAt, Offset
from headrace.driver.progress import Progress
from headrace.errors import HostFault
from headrace.model.time import BEGIN
from headrace.storage import files
from headrace.storage.names import file_name

#: In a store, the parts that so many micro-batches have read are deleted together.
_DELETED_TOGETHER = 16


def waiting_parts(origin: str, progress: Progress, directory: Path) -> list[Spooled]:
    """Return the parts of an exchange that are not known to be read."""
    if progress.parts is None:  # an earlier version has left the files that are there
        return exchange_spool(origin, directory).files()
    return [_part(name) for name in progress.parts.get(origin, ())]


def next_exchange(origin: str, before: ExchangeAt, progress: Progress, directory: Path) -> ExchangeAt:
    """Return up to where the next micro-batch reads an exchange: to the end."""
    parts = [part for part in waiting_parts(origin, progress, directory) if part.number >= (before.at or 0)]
    return ExchangeAt(
        at=max(part.number for part in parts) + 1 if parts else before.at,
        bound=max(before.bound, progress.exchanges.get(origin, BEGIN)),
        parts=[part.name for part in parts],
    )


def exchange_splits(
    origin: str, start: ExchangeAt, end: ExchangeAt, directory: Path, *, parallel: int
) -> list[list[Spooled]]:
    """Divide what a micro-batch reads of an exchange among tasks."""
    if end.parts is None:
        return deal(exchange_spool(origin, directory).between(start.at, end.at), parallel)
    return deal([_part(name) for name in end.parts], parallel)


def check_parts(origin: str, start: ExchangeAt, end: ExchangeAt, directory: Path) -> None:
    """Raise a fault if a micro-batch could not be repeated because a part that it reads is gone."""
    spool = exchange_spool(origin, directory)
    for part in itertools.chain.from_iterable(exchange_splits(origin, start, end, directory, parallel=1)):
        if not files.exists(spool.path(part)):
            raise spool.lost(spool.path(part))


def keeps_parts(end: Offset, directory: Path) -> bool:
    """Return whether there are parts that were read in the micro-batch up to an offset, or before."""
    return any(
        bool(exchange.parts) if exchange.parts is not None else exchange_spool(origin, directory).keeps(exchange.at)
        for origin, exchange in end.exchanges.items()
    )


class ReadParts:
    """Parts that were read in micro-batches that are never repeated, until they are deleted.

    Where a deletion is a request, it is one for several micro-batches. What a process does not delete before it ends is
    swept by the next one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._most = _DELETED_TOGETHER if files.is_remote(directory) else 1
        self._waiting: list[list[Path]] = []  # of each micro-batch

    def add(self, end: Offset) -> None:
        """Delete the parts that the micro-batch up to an offset has read, now or together with later ones."""
        read: list[Path] = []
        for origin, exchange in end.exchanges.items():
            spool = exchange_spool(origin, self._directory)
            if exchange.parts is None:
                read += [spool.path(part) for part in spool.all() if part.number < (exchange.at or 0)]
            else:
                read += [spool.path(_part(name)) for name in exchange.parts]
        if read:
            self._waiting.append(read)
        if len(self._waiting) >= self._most:
            files.remove(*itertools.chain.from_iterable(self._waiting), durable=False)
            self._waiting = []


def sweep_parts(end: Offset, progress: Progress, directory: Path) -> bool:
    """Delete all parts that do not wait to be read: of lost attempts, of dropped queries, or back after a power cut.

    Does nothing and returns False if a micro-batch after `end` has been delivered: it may be repeated, and read again.
    """
    if progress.parts is None or progress.time > end.time:
        return False
    waiting = {file_name(origin): set(names) for origin, names in progress.parts.items()}
    folder = directory / "exchange"
    for name in files.names(folder):
        stale = [other for other in files.names(folder / name) if other not in waiting.get(name, ())]
        files.remove(*(folder / name / other for other in stale if Spooled.named(other) is not None), durable=False)
    return True


def clear_parts(directory: Path) -> None:
    """Delete all parts, once a deployment has ended and no micro-batch follows."""
    folder = directory / "exchange"
    files.remove(
        *(folder / name / part for name in files.names(folder) for part in files.names(folder / name)), durable=False
    )


def parts_after(
    batch: int, written: Mapping[str, Sequence[Spooled]], before: Progress, directory: Path, *, unread: Collection[str]
) -> dict[str, list[str]]:
    """Return the names of the parts that wait after a micro-batch: those it wrote, and older ones of `unread` origins.

    The micro-batch has read all other parts.
    """
    waiting: dict[str, list[str]] = {}
    for origin in {*written, *unread}:
        older = waiting_parts(origin, before, directory) if origin in unread else []
        parts = [*(part for part in older if part.number < batch), *written.get(origin, ())]
        if parts:
            waiting[origin] = [part.name for part in parts]
    return dict(sorted(waiting.items()))


def _part(name: str) -> Spooled:
    part = Spooled.named(name)
    if part is None:
        raise HostFault(
            f"{name!r} is not the name of a part of an exchange",
            hint="restore the checkpoint from a copy, or start with a new one",
        )
    return part
