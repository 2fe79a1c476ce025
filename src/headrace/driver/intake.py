"""Plans micro-batches: how far each stream is read, and which ingest task reads what. Runs on the driver; both hosts use it.

An offset is a JSON value that says everything a micro-batch depends on: the time, how many commands are in force, and for each stream its position,
its newest timestamp and whether it has ended; and how much work a bucket may do, with a number that grows while work is left over. Spark keeps
offsets in its log, so a replayed micro-batch sees the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from headrace.catalog.definitions import CLOCK, RAISED, Stream, Timing
from headrace.commands.command import encode_command
from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.commands.running_graph import closed_in, placement_of
from headrace.connectors import SOURCES
from headrace.connectors.connector import PacedSource, SkippingSource, Source
from headrace.connectors.spool import ExchangeSource, exchange_spool
from headrace.driver.progress import Progress, read_progress
from headrace.driver.rules.raising import feeders, is_over
from headrace.engine.bounds.wakeup import upstream_sources
from headrace.graph.graph import VertexId
from headrace.graph.place import Placement
from headrace.model.streams import bad_stream, base_stream, exchange_stream, is_system_stream, late_stream
from headrace.model.time import BEGIN, END, MILLISECOND
from headrace.operators.specs import Exchange, Receive
from headrace.storage import files
from headrace.worker.ingest import Ingest, Task, Work
from headrace.worker.source_needs import Needed
from headrace.worker.wire import Control

Offset: TypeAlias = dict[str, Any]
#: With nothing new to read, an operator that was told the time it waits for and still waits is told again this often.
TICK = 200 * MILLISECOND
START: Offset = {"time": BEGIN, "commands": 0, "streams": {}, "exchanges": {}, "budget": None, "turn": 0}


class Deployed:
    """What some number of commands amounts to: queries, placement, streams and their sources."""

    def __init__(self, running: Running, directory: Path, sources: dict[str, Source]) -> None:
        self.running = running
        self.placement: Placement = placement_of(running)
        self.streams: dict[str, Stream] = {
            stream.name: stream for query in (*running.working, *running.stopped) for stream in query.streams
        }
        self.exchanges = self.placement.exchanges()
        self.wanted = _wanted(self.placement, closed_in(running))
        self.sources: dict[str, Source] = {}
        for name, stream in self.streams.items():
            self.sources[name] = sources.setdefault(name, SOURCES[stream.connector.kind](stream, directory))
        self.roots = _roots(self.placement)
        self.feeders = feeders(running)
        self.needed = Needed(self.placement.ingest, self.streams, running)
        for origin in self.exchanges:
            name = exchange_stream(origin)
            self.sources[name] = sources.setdefault(name, ExchangeSource(exchange_spool(origin, directory)))

    def ingest(self, buckets: Sequence[int], page: int) -> Ingest:
        """What runs the ingest tasks."""
        return Ingest(self.placement, self.streams, self.sources, buckets, page, self.running)


def _roots(placement: Placement) -> dict[str, tuple[str, ...]]:
    """The streams that the tuples of each exchange stem from."""
    specs = {vertex.id: vertex.spec for vertex in placement.keyed}
    found: dict[str, tuple[str, ...]] = {}
    for name, sources in upstream_sources(
        placement.keyed
    ).items():  # in topological order, but an exchange has no arc to its readers
        spec = specs[name]
        if isinstance(spec, Exchange):
            found[exchange_stream(spec.origin)] = tuple(
                stream
                for source in sources
                if isinstance(receive := specs[source], Receive)
                for stream in receive.streams
            )
    while any(root in found for roots in found.values() for root in roots):
        found = {
            name: tuple(dict.fromkeys(base for root in roots for base in found.get(root, (root,))))
            for name, roots in found.items()
        }
    return found


def _wanted(placement: Placement, closed: Collection[VertexId]) -> set[str]:
    """The streams that a query or something that is watched reads now."""
    routes = (vertex.spec for vertex in placement.routes() if vertex.id not in closed)
    return {base_stream(name) for route in routes if isinstance(route, Receive) for name in route.streams}


class Deployments:
    """`Deployed` by number of commands, built once each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = CommandLog(directory / "commands")
        self._sources: dict[str, Source] = {}
        self._known: dict[int, Deployed] = {}
        self._running = Running()

    def at(self, commands: int) -> Deployed:
        if commands not in self._known:
            self._known = {number: known for number, known in self._known.items() if number >= commands - 2}
            self._known[commands] = Deployed(self.running(commands), self.directory, self._sources)
        return self._known[commands]

    def running(self, commands: int) -> Running:
        """What is in force after so many commands; the next ones go on from there."""
        if self._running.commands > commands:
            self._running = Running()
        for command in self.log.upto(commands)[self._running.commands :]:
            self._running = self._running.after(command)
        return self._running

    def newest(self) -> Running:
        """What is in force after all commands so far."""
        return self.running(self.count())

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
            at = deployed.sources[exchange_stream(origin)].latest(before["at"], now=time, limit=self.limit)
            exchanges[origin] = {"at": at, "bound": max(before["bound"], progress.exchanges.get(origin, BEGIN))}
        if progress.unread or exchanges != start["exchanges"] or not _others_ended(deployed, start, streams):
            # what tells of the system itself ends last: as long as anything moves there may be something to tell
            streams = {name: {**at, "ended": False} if is_system_stream(name) else at for name, at in streams.items()}
        # what waits in the buckets is reason enough for a micro-batch, though nothing else differs
        turn = start.get("turn", 0) + bool(progress.unread)
        end: Offset = {
            "time": time,
            "commands": commands,
            "streams": streams,
            "exchanges": exchanges,
            "budget": progress.budget,
            "turn": turn,
        }
        return end if _differs(start, end) or self._is_time(deployed, start, end, progress) else start

    def _stream(self, name: str, deployed: Deployed, start: Offset, progress: Progress, time: int) -> dict[str, Any]:
        before = start["streams"].get(name, {"at": None, "newest": BEGIN, "ended": False, "live": False, "fresh": time})
        source, stream = deployed.sources[name], deployed.streams[name]
        limit = min(self.limit, progress.limits.get(name, self.limit))
        at = before["at"]
        if limit > 0 or at is None:
            at = self._end(source, at, deployed.needed, name, time, limit)
        # what the clock promised in the last micro-batch binds this one, if anybody asked or not
        newest = max(
            before["newest"],
            progress.newest.get(name, BEGIN),
            _clock(deployed, start["time"]) if before["live"] else BEGIN,
        )
        if stream.timing is not Timing.EXTERNAL and at != before["at"]:
            newest = time
        complete = source.finished(at)
        punctual = progress.punctual.get(name, False) or is_wall_clock(stream)
        live = complete and punctual and _follows_clock(stream) and deployed.running.ets.mode != "none"
        ended = deployed.running.draining and complete
        if ended and stream.connector.kind == RAISED:
            before_this = {other: at["ended"] for other, at in start["streams"].items()}
            ended = bool(before["ended"]) or is_over(name, deployed.feeders, before_this, progress)
        caught_up = source.caught_up(at) if isinstance(source, PacedSource) else complete
        fresh = time if caught_up else before.get("fresh", time)
        return {"at": at, "newest": newest, "ended": ended, "live": live, "fresh": fresh}

    def _end(self, source: Source, start: Any, needed: Needed, name: str, time: int, limit: int) -> Any:
        """How far to read: the limit is on tuples that are read, not on those that are left out unread."""
        unneeded = needed.unneeded(name)
        if unneeded and isinstance(source, SkippingSource):
            return source.latest_without(start, needed.columns(name), unneeded, now=time, limit=limit)
        return source.latest(start, now=time, limit=limit)

    def _is_time(self, deployed: Deployed, start: Offset, end: Offset, progress: Progress) -> bool:
        """Whether to run a micro-batch only to tell the time: the clock has reached what an operator waits for, or it is told periodically."""
        clocks = _clocks(deployed, end)
        if deployed.running.ets.mode == "periodic":
            return bool(clocks) and _clock(deployed, end["time"]) > _clock(deployed, start["time"])
        now = _highest(_bounds(deployed, end), clocks)
        before = (
            _highest(_bounds(deployed, start), _clocks(deployed, start))
            if start["streams"].keys() == end["streams"].keys()
            else {}
        )
        for wait in progress.waits:
            roots = {root for name in wait.streams for root in deployed.roots.get(name, (name,))}
            unseen = end["time"] if wait.anyhow else BEGIN
            if all(now.get(name, unseen) >= wait.bound for name in roots):
                # an operator in between may promise less than it is told, so look again, but not all the time
                told = all(before.get(name, BEGIN) >= wait.bound for name in roots)
                if not told or end["time"] - start["time"] >= TICK:
                    return True
        return False

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """Divide a micro-batch; the first task also tells every bucket the time, the commands and how far the streams were before."""
        deployed = self.deployments.at(end["commands"])
        work: list[list[Work]] = [[] for _ in range(self.parallel)]
        turn = 0
        for name in deployed.streams:
            at, before = end["streams"][name], start["streams"].get(name)
            if (before is not None and before["at"] == at["at"]) or name not in deployed.wanted:
                continue  # of a stream that only stopped queries read, what comes is passed over
            for split in deployed.sources[name].splits(
                before["at"] if before else None, at["at"], parallel=self.parallel
            ):
                since = start["time"] if before else end["time"]
                work[turn % self.parallel].append(Work(name, split, at["newest"], since))
                turn += 1
        for origin in deployed.exchanges:
            name = exchange_stream(origin)
            begin = start["exchanges"].get(origin, {"at": None})["at"]
            for split in deployed.sources[name].splits(begin, end["exchanges"][origin]["at"], parallel=self.parallel):
                work[turn % self.parallel].append(Work(name, split, BEGIN, BEGIN))
                turn += 1
        commands = self.deployments.log.upto(end["commands"])[start["commands"] :]
        base = Control(
            end["time"],
            _bounds(deployed, end),
            _clocks(deployed, end),
            [encode_command(command) for command in commands],
            arrived={
                name: start["streams"].get(name, at).get("fresh", end["time"]) for name, at in end["streams"].items()
            },
            budget=end.get("budget"),
        )
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
            if exchange_stream(origin) in deployed.sources:
                deployed.sources[exchange_stream(origin)].forget(at["at"])


def _others_ended(deployed: Deployed, start: Offset, streams: Mapping[str, Any]) -> bool:
    """Whether all streams had ended but those that tell of the system itself, and events that rules raise because of these."""
    others = [
        name for name in streams if not any(is_system_stream(base) for base in (name, *deployed.feeders.get(name, ())))
    ]
    return all(start["streams"].get(name, {}).get("ended", False) for name in others)


def _differs(start: Offset, end: Offset) -> bool:
    """Whether there is anything to read, or anything to do that was not to be done before."""

    def work(offset: Offset) -> Any:
        streams = {name: (at["at"], at["ended"], at["live"]) for name, at in offset["streams"].items()}
        return offset["commands"], offset["exchanges"], streams, offset.get("turn", 0)

    return bool(work(start) != work(end))


def _bounds(deployed: Deployed, end: Offset) -> dict[str, int]:
    """What follows from what has been read: the bounds of streams, of what is kept aside of them, and of exchanges."""
    bounds: dict[str, int] = {}
    for name, stream in deployed.streams.items():
        at = end["streams"][name]
        bounds[late_stream(name)] = bounds[bad_stream(name)] = END if at["ended"] else end["time"]
        if at["ended"]:
            bounds[name] = END
        elif at["newest"] > BEGIN:
            bounds[name] = at["newest"] - (stream.skew if stream.timing is Timing.EXTERNAL else 0)
    for origin, at in end["exchanges"].items():
        bounds[exchange_stream(origin)] = at["bound"]
    return bounds


def _clocks(deployed: Deployed, end: Offset) -> dict[str, int]:
    """What silent streams promise if they are asked: nothing before now if we stamp them, nothing older than the skew if they follow the clock."""
    time = _clock(deployed, end["time"])
    found = {}
    for name, stream in deployed.streams.items():
        if stream.timing is not Timing.EXTERNAL:
            found[name] = time
        elif end["streams"][name]["live"]:
            found[name] = time - stream.skew
    return found if time > BEGIN else {}


def _highest(bounds: Mapping[str, int], clocks: Mapping[str, int]) -> dict[str, int]:
    return {**bounds, **{name: max(bound, bounds.get(name, BEGIN)) for name, bound in clocks.items()}}


def _clock(deployed: Deployed, time: int) -> int:
    """The clock as streams tell it."""
    match deployed.running.ets.mode:
        case "on demand":
            return time
        case "periodic":
            return time - time % deployed.running.ets.period
        case "none":
            return BEGIN


def _follows_clock(stream: Stream) -> bool:
    """Whether what has arrived can be read at once, so that the clock tells how old an unread tuple can be."""
    return stream.timing is Timing.EXTERNAL and stream.connector.kind != "SPARK"


def is_wall_clock(stream: Stream) -> bool:
    """Whether a stream is the clock itself, so that all its tuples up to now are there."""
    return stream.connector.kind == CLOCK and "start" not in stream.connector.options


def pause(directory: Path) -> None:
    """Let no further micro-batch begin, so that a deployment can stop between two of them."""
    # not durable: a deployment that begins removes it anyway
    files.replace(directory / "pause", b"", durable=False)


def resume(directory: Path) -> None:
    """Let micro-batches begin again."""
    files.remove(directory / "pause", durable=False)


def paused(directory: Path) -> bool:
    """Whether `pause` is in force."""
    return files.read_if_exists(directory / "pause") is not None
