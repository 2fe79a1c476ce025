"""The file in which a delivered micro-batch leaves what the planning of the next one needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.catalog.definitions import Stream
from headrace.commands.running import Running
from headrace.errors import HostFault
from headrace.model.time import BEGIN
from headrace.storage import files, sealed
from headrace.worker.wire import Wait


class Progress(Struct, frozen=True):
    """How far streams and exchanges are, what waits for time, and the limits of the next micro-batch."""

    newest: dict[str, int] = {}  # timestamps by stream of one lane
    sources: dict[str, str] = {}  # of these streams
    punctual: dict[str, bool] = {}  # whether a stream's last tuples came within its skew
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
        return msgspec.structs.replace(self, newest=newest, punctual=punctual, lanes=lanes, caused=caused)


_decoder = msgspec.json.Decoder(Progress)


def read_progress(directory: Path) -> Progress:
    """Return what the last delivered micro-batch left."""
    path = directory / "progress.json"
    data = sealed.read_if_exists(path)
    try:
        return Progress() if data is None else _decoder.decode(data)
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error


def has_progress(directory: Path) -> bool:
    """Return whether a delivered micro-batch left anything."""
    return files.exists(directory / "progress.json")


def write_progress(directory: Path, progress: Progress) -> None:
    """Write down what the next micro-batch needs."""
    try:
        sealed.replace(directory / "progress.json", msgspec.json.encode(progress))
    except OSError as error:
        raise HostFault(
            f"cannot write the checkpoint {directory}: {error.strerror}", hint="free space; then start again"
        ) from error


def mark_ended(directory: Path) -> None:
    """Write down that a draining deployment has delivered everything; no micro-batch follows."""
    write_progress(directory, msgspec.structs.replace(read_progress(directory), ended=True))


def guide(directory: Path, budget: int | None, limits: dict[str, int]) -> None:
    """Limit what the next micro-batches do and read."""
    progress = read_progress(directory)
    if (progress.budget, progress.limits) != (budget, limits):
        write_progress(directory, msgspec.structs.replace(progress, budget=budget, limits=limits))
