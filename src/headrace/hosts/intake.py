"""Plans micro-batches: how far each stream is read, and which ingest task reads what. Runs on the driver; both hosts use it.

An offset is a JSON value that says everything a micro-batch depends on: the time, how many commands are in force, and for each stream its position,
its newest timestamp and whether it has ended. Spark keeps offsets in its log, so a replayed micro-batch sees the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from headrace.catalog.definitions import Stream, Timing
from headrace.connectors import SOURCES
from headrace.connectors.connector import Source
from headrace.elements.time import BEGIN, END, MILLISECOND
from headrace.graph.command import CommandLog, Running, encode_command
from headrace.graph.place import Placement
from headrace.hosts.exchange import ExchangeSource, exchange_directory
from headrace.runtime.bucket import placement_of
from headrace.runtime.ingest import Task, Work
from headrace.runtime.wire import Control

Offset: TypeAlias = dict[str, Any]
#: With nothing new to read, time is told to waiting operators this often.
TICK = 200 * MILLISECOND
START: Offset = {"time": BEGIN, "commands": 0, "streams": {}, "exchanges": {}}


class Deployed:
    """What some number of commands amounts to: queries, placement, streams and their sources."""

    def __init__(self, running: Running, directory: Path, sources: dict[str, Source]) -> None:
        self.running = running
        self.placement: Placement = placement_of(running)
        self.streams: dict[str, Stream] = {stream.name: stream for query in running.queries for stream in query.streams}
        self.exchanges = self.placement.exchanges()
        self.sources: dict[str, Source] = {}
        for name, stream in self.streams.items():
            self.sources[name] = sources.setdefault(name, SOURCES[stream.connector.kind](stream, directory))
        for origin in self.exchanges:
            name = f"exchange:{origin}"
            self.sources[name] = sources.setdefault(name, ExchangeSource(exchange_directory(directory, origin)))


class Deployments:
    """`Deployed` by number of commands, built once each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = CommandLog(directory / "commands")
        self._sources: dict[str, Source] = {}
        self._known: dict[int, Deployed] = {}

    def at(self, commands: int) -> Deployed:
        if commands not in self._known:
            running = Running()
            for command in self.log.upto(commands):
                running = running.after(command)
            self._known = {number: known for number, known in self._known.items() if number >= commands - 2}
            self._known[commands] = Deployed(running, self.directory, self._sources)
        return self._known[commands]

    def count(self) -> int:
        return len(self.log.upto(None))


class Intake:
    """Decides what the next micro-batch reads."""

    def __init__(self, directory: Path, *, parallel: int, limit: int) -> None:
        self.directory = directory
        self.parallel = parallel
        self.limit = limit
        self.deployments = Deployments(directory)

    def latest(self, start: Offset, now: int) -> Offset:
        """The offset up to which to read; `start` itself if there is nothing to do, or if the deployment is about to stop."""
        if paused(self.directory):
            return start
        commands = self.deployments.count()
        deployed = self.deployments.at(commands)
        progress = read_progress(self.directory)
        time = max(now, start["time"])
        streams = {name: self._stream(name, deployed, start, progress, time) for name in deployed.streams}
        exchanges = {}
        for origin in deployed.exchanges:
            before = start["exchanges"].get(origin, {"at": None, "bound": BEGIN})
            at = deployed.sources[f"exchange:{origin}"].latest(before["at"], now=time, limit=self.limit)
            exchanges[origin] = {"at": at, "bound": max(before["bound"], progress["exchanges"].get(origin, BEGIN))}
        end: Offset = {"time": time, "commands": commands, "streams": streams, "exchanges": exchanges}
        same = all(end[part] == start[part] for part in ("commands", "streams", "exchanges"))
        # held tuples wait for time to pass: of streams that we stamp, and of streams that follow the clock
        ticking = any(stream.timing is not Timing.EXTERNAL or streams[name]["live"] for name, stream in deployed.streams.items())
        waiting = progress["held"] and ticking and time - start["time"] >= TICK
        return start if same and not waiting else end

    def _stream(self, name: str, deployed: Deployed, start: Offset, progress: Mapping[str, Any], time: int) -> dict[str, Any]:
        before = start["streams"].get(name, {"at": None, "newest": BEGIN, "ended": False, "live": False})
        source = deployed.sources[name]
        at = source.latest(before["at"], now=time, limit=self.limit)
        newest = max(before["newest"], progress["newest"].get(name, BEGIN), start["time"] if before["live"] else BEGIN)
        complete = source.finished(at)
        live = complete and progress["punctual"].get(name, False) and _follows_clock(deployed.streams[name])
        return {"at": at, "newest": newest, "ended": deployed.running.draining and complete, "live": live}

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """Divide a micro-batch; the first task also tells every bucket the time, the commands and how far the streams were before."""
        deployed = self.deployments.at(end["commands"])
        work: list[list[Work]] = [[] for _ in range(self.parallel)]
        turn = 0
        for name in deployed.streams:
            at, before = end["streams"][name], start["streams"].get(name)
            if before is not None and before["at"] == at["at"]:
                continue
            for split in deployed.sources[name].splits(before["at"] if before else None, at["at"], parallel=self.parallel):
                since = start["time"] if before else end["time"]
                work[turn % self.parallel].append(Work(name, split, at["newest"], since))
                turn += 1
        for origin in deployed.exchanges:
            name = f"exchange:{origin}"
            begin = start["exchanges"].get(origin, {"at": None})["at"]
            for split in deployed.sources[name].splits(begin, end["exchanges"][origin]["at"], parallel=self.parallel):
                work[turn % self.parallel].append(Work(name, split, BEGIN, BEGIN))
                turn += 1
        commands = self.deployments.log.upto(end["commands"])[start["commands"] :]
        base = Control(end["time"], self._bounds(deployed, end), [encode_command(command) for command in commands])
        return [Task(0, end["time"], tuple(work[0]), base)] + [
            Task(number, end["time"], tuple(items), None) for number, items in enumerate(work) if number and items
        ]

    def forget(self, end: Offset) -> None:
        """A micro-batch is done for good: sources may free what lies before."""
        deployed = self.deployments.at(end["commands"])
        for name, at in end["streams"].items():
            if name in deployed.sources:
                deployed.sources[name].forget(at["at"])
        for origin, at in end["exchanges"].items():
            if f"exchange:{origin}" in deployed.sources:
                deployed.sources[f"exchange:{origin}"].forget(at["at"])

    @staticmethod
    def _bounds(deployed: Deployed, end: Offset) -> dict[str, int]:
        bounds: dict[str, int] = {}
        for name, stream in deployed.streams.items():
            at = end["streams"][name]
            side = END if at["ended"] else end["time"]
            if at["ended"]:
                bounds[name] = END
            elif stream.timing is not Timing.EXTERNAL:
                bounds[name] = end["time"]
            elif at["newest"] > BEGIN or at["live"]:
                # A silent stream that follows the clock owes nothing older than its skew: the bound that a starving operator would ask for.
                bounds[name] = max(at["newest"], end["time"] if at["live"] else BEGIN) - stream.skew
            bounds[f"{name}.late"] = bounds[f"{name}.bad"] = side
        for origin, at in end["exchanges"].items():
            bounds[f"exchange:{origin}"] = at["bound"]
        return bounds


def _follows_clock(stream: Stream) -> bool:
    """Whether what has arrived can be read at once, so that the clock tells how old an unread tuple can be."""
    return stream.timing is Timing.EXTERNAL and stream.connector.kind != "SPARK"


def pause(directory: Path) -> None:
    """Let no further micro-batch begin, so that a deployment can stop between two of them."""
    (directory / "pause").touch()


def resume(directory: Path) -> None:
    """Let micro-batches begin again."""
    (directory / "pause").unlink(missing_ok=True)


def paused(directory: Path) -> bool:
    """Whether `pause` is in force."""
    return (directory / "pause").exists()


def read_progress(directory: Path) -> dict[str, Any]:
    """What the last delivered micro-batch left for the next."""
    try:
        found: dict[str, Any] = json.loads((directory / "progress.json").read_bytes())
    except FileNotFoundError:
        return {"newest": {}, "punctual": {}, "exchanges": {}, "held": 0}
    return found
