"""The file in which a delivered micro-batch leaves what the planning of the next one needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.catalog.definitions import Stream
from headrace.commands.running import Running
from headrace.errors import HostFault, OwnerFault
from headrace.model.parcels import Moved
from headrace.model.time import BEGIN
from headrace.storage import files, sealed
from headrace.worker.wire import Wait


class Progress(Struct, frozen=True):
    """How far streams and exchanges are, what waits for time, and the limits of the next micro-batch."""

    newest: dict[str, int] = {}  # timestamps by stream of one lane
    sources: dict[str, str] = {}  # of these streams
    punctual: dict[str, bool] = {}  # whether a stream's last tuples came within its skew
    lags: dict[str, int] = {}  # how far behind the clock the last tuples of streams were that run behind it
    exchanges: dict[str, int] = {}  # bounds by origin
    waits: list[Wait] = []
    unread: int = 0  # tuples that wait in the buckets because the budget did not suffice
    budget: int | None = None  # nanoseconds of estimated service that one bucket may spend next; None: no limit
    limits: dict[str, int] = {}  # most tuples of a stream to read next, where it is not the intake's limit
    raised: dict[str, int] = {}  # bounds of the rules that raise each event
    raising: list[str] = []  # events that the last micro-batch raised
    settled: bool = False  # whether a draining deployment has taken all actions of rules, but for those on failures
    ended: bool = False  # whether a draining deployment has delivered everything
    lanes: dict[str, dict[str, int]] = {}  # bounds by stream of several lanes, and lane
    bounds: dict[str, int] = {}  # of results
    commands: int = 0  # in force in that micro-batch
    caused: dict[str, int] = {}  # bounds on the times of raised events
    parts: dict[str, list[str]] | None = None  # files to read, by origin of an exchange; None: those that are there
    time: int = BEGIN  # of the micro-batch that changed this last
    moved: list[Moved] = []  # files with parcels that the next micro-batch takes in

    def of(self, streams: Mapping[str, Stream], running: Running) -> Progress:
        """Return this without what belongs to streams that had other sources, or whose frontiers were reset since."""
        others = {name for name, stream in streams.items() if self.sources.get(name, stream.source) != stream.source}
        others.update(running.reset_since(self.commands))
        if not others:
            return self
        newest = {name: time for name, time in self.newest.items() if name not in others}
        punctual = {name: kept for name, kept in self.punctual.items() if name not in others}
        lanes = {name: bounds for name, bounds in self.lanes.items() if name not in others}
        caused = {name: bound for name, bound in self.caused.items() if name not in others}
        lags = {name: lag for name, lag in self.lags.items() if name not in others}
        return msgspec.structs.replace(self, newest=newest, punctual=punctual, lags=lags, lanes=lanes, caused=caused)


_decoder = msgspec.json.Decoder(Progress)


def read_progress(directory: Path) -> Progress:
    """Return what the last delivered micro-batch left."""
    path = directory / "progress.json"
    data = sealed.read_if_exists(path)
    return Progress() if data is None else _decode(data, path)


def has_progress(directory: Path) -> bool:
    """Return whether a delivered micro-batch left anything."""
    return files.exists(directory / "progress.json")


def change_progress(directory: Path, change: Callable[[Progress], Progress]) -> None:
    """Write down what the next micro-batch needs, given what was written before; nothing if it stays the same.

    It is swapped: a process that was replaced while it was stopped in here cannot write over what came later.
    """
    path = directory / "progress.json"
    try:
        known = files.read_tagged(path)
        before = Progress() if known is None else _decode(sealed.unseal(known[0], path), path)
        after = change(before)
        if after == before:
            return
        data = sealed.seal(msgspec.json.encode(after))
        if not (files.create(path, data) if known is None else files.swap(path, data, known[1])):
            raise OwnerFault(f"another process has written {path}", hint="let only one of them run")
    except OSError as error:
        raise HostFault(
            f"cannot write the checkpoint {directory}: {error.strerror}", hint="free space; then start again"
        ) from error


def write_progress(directory: Path, progress: Progress) -> None:
    """Write down what the next micro-batch needs, whatever was written before."""
    change_progress(directory, lambda _: progress)


def mark_ended(directory: Path) -> None:
    """Write down that a draining deployment has delivered everything; no micro-batch follows."""
    change_progress(directory, lambda progress: msgspec.structs.replace(progress, ended=True))


def guide(directory: Path, budget: int | None, limits: dict[str, int]) -> None:
    """Limit what the next micro-batches do and read."""
    change_progress(directory, lambda progress: msgspec.structs.replace(progress, budget=budget, limits=limits))


def _decode(data: bytes, path: Path) -> Progress:
    try:
        return _decoder.decode(data)
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error
