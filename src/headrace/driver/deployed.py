"""What a number of commands amounts to: queries, where they run, their streams and sources.

The driver, the planner beside it, the workers and the session all ask for it by the number of commands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path

import msgspec

from headrace.catalog.definitions import Stream
from headrace.commands.culprits import attributed, attributed_to_readers
from headrace.commands.log import CommandLog
from headrace.commands.repairs import Repair
from headrace.commands.running import Running
from headrace.commands.running_graph import closed_in, placement_of, reads_alike
from headrace.commands.tables import tables_in
from headrace.connectors import make_source
from headrace.connectors.connector import Source
from headrace.connectors.spool import ExchangeSource, exchange_spool
from headrace.driver.progress import read_progress
from headrace.driver.rules.raising import feeders
from headrace.engine.bounds.wakeup import upstream_sources
from headrace.errors import HostFault
from headrace.graph.graph import VertexId
from headrace.graph.place import Placement, place
from headrace.model.streams import base_stream, exchange_stream
from headrace.model.time import BEGIN
from headrace.operators.specs import Exchange, Receive
from headrace.storage import contents
from headrace.storage.scratch import scratch_of
from headrace.worker.ingest import Ingest
from headrace.worker.source_needs import Needed


class Deployed:
    """What is deployed after some number of commands."""

    def __init__(self, running: Running, directory: Path, sources: dict[str, Source]) -> None:
        self.running = running
        self.directory = directory
        self.placement: Placement = placement_of(running)
        self.streams: dict[str, Stream] = {
            stream.name: stream for query in (*running.working, *running.stopped) for stream in query.streams
        }
        self.partners = _partners(running)
        self.exchanges = self.placement.exchanges()
        self.begun_exchanges = _begun_exchanges(running)
        self.read_streams = _read_streams(self.placement, closed_in(running))
        self.feeders = feeders(running)
        self.roots = _roots(self.placement, self.feeders)
        self.needed = Needed(self.placement.ingest, self.streams, running)
        self.sources: dict[str, Source] = {}
        for name, stream in self.streams.items():
            key = msgspec.json.encode(stream).decode()
            with attributed_to_readers(name, running):
                self.sources[name] = sources.get(key) or make_source(stream, directory)
            sources[key] = self.sources[name]
        for origin in self.exchanges:
            name = exchange_stream(origin)
            self.sources[name] = sources.setdefault(name, ExchangeSource(exchange_spool(origin, directory)))

    def after(self, running: Running) -> Deployed:
        """Return the same under commands that concern neither the ingest nor the placement (`reads_alike`)."""
        later = copy(self)
        later.running = running
        return later

    def ingest(self, buckets: Sequence[int], page: int, *, patience: float = 0.0) -> Ingest:
        """Return what runs the ingest tasks; `patience` is that of `LaneTimes`, for tasks that run side by side."""
        notes = notes_in(self.directory)
        with attributed(lambda: self.running):
            return Ingest(self.placement, self.streams, self.sources, buckets, page, self.running, notes, patience)


class Deployments:
    """`Deployed` by number of commands; each is built once, and again only if something changed on which it depends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = CommandLog(directory / "commands")
        contents.offer(tables_in(directory))
        self._sources: dict[str, Source] = {}
        self._known: dict[int, Deployed] = {}
        self._running = Running()
        self._repairs: tuple[Repair, ...] = ()
        self._is_complete = False  # whether the log is known to hold all commands that were in force

    def at(self, commands: int) -> Deployed:
        """Return what is deployed after so many commands."""
        self.repairs()
        if commands not in self._known:
            self._known = {number: known for number, known in self._known.items() if number >= commands - 2}
            running = self.running(commands)
            alike = (known for known in self._known.values() if reads_alike(known.running, running))
            before = next(alike, None)
            if before is None:
                self._known[commands] = Deployed(running, self.directory, self._sources)
                self._forget_sources()
            else:
                self._known[commands] = before.after(running)
        return self._known[commands]

    def _forget_sources(self) -> None:
        """Let the sources go of streams that no query has any more: they hold lists of files, clients, connections."""
        used = {id(source) for deployed in self._known.values() for source in deployed.sources.values()}
        self._sources = {key: source for key, source in self._sources.items() if id(source) in used}

    def running(self, commands: int) -> Running:
        """Return what is in force after so many commands; the next call goes on from there."""
        self.repairs()
        self._running = self.log.running(commands, self._running)
        return self._running

    def repairs(self) -> tuple[Repair, ...]:
        """Return the repairs; what was built without them is forgotten."""
        repairs = self.log.repairs()
        if repairs != self._repairs:
            self._repairs, self._known, self._running = repairs, {}, Running()
        return repairs

    def newest(self) -> Running:
        """Return what is in force after all commands so far; raise a fault if some are lost that were in force."""
        needed = 0 if self._is_complete else read_progress(self.directory).commands  # first: the log only grows
        count = self.count()
        if count < needed:
            raise HostFault(
                f"files are missing in {self.log.directory}: they hold {count} commands, and the last micro-batch had "
                f"{needed}",
                hint="restore the checkpoint folder from a copy",
            )
        self._is_complete = True
        return self.running(count)

    def count(self) -> int:
        """Return how many commands there are."""
        return self.log.count()


def notes_in(directory: Path) -> Path:
    """Return where the ingest tasks of a checkpoint leave files for each other and for the driver."""
    return scratch_of(directory) / "notes"


def _partners(running: Running) -> dict[str, set[str]]:
    """Return the streams that queries read together with each stream, itself included."""
    partners: dict[str, set[str]] = {}
    for query in (*running.working, *running.stopped):
        names = {stream.name for stream in query.streams}
        for name in names:
            partners.setdefault(name, set()).update(names)
    return partners


def _begun_exchanges(running: Running) -> set[VertexId]:
    """Return the origins of exchanges whose first pages may come before a command starts their stints."""
    scheduled = [query.graph for query in running.working if query.stint is not None and query.stint.begin > BEGIN]
    return {origin for graph in scheduled for origin in place(graph, allotted=running.allotted).exchanges()}


def _roots(placement: Placement, feeders: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """Return the streams from which the tuples of each exchange and each raised event stem."""
    specs = {vertex.id: vertex.spec for vertex in placement.keyed}
    roots = {event: tuple(sorted(streams - feeders.keys())) for event, streams in feeders.items()}
    # in topological order, but an exchange has no arc to its readers
    for name, sources in upstream_sources(placement.keyed).items():
        spec = specs[name]
        if isinstance(spec, Exchange):
            receives = [specs[source] for source in sources]
            roots[exchange_stream(spec.origin)] = tuple(
                stream for receive in receives if isinstance(receive, Receive) for stream in receive.streams
            )
    while any(stream in roots for streams in roots.values() for stream in streams):
        roots = {
            name: tuple(dict.fromkeys(base for stream in streams for base in roots.get(stream, (stream,))))
            for name, streams in roots.items()
        }
    return roots


def _read_streams(placement: Placement, closed: Collection[VertexId]) -> set[str]:
    """Return the streams that a query, or a watched event, reads now."""
    routes = (vertex.spec for vertex in placement.routes() if vertex.id not in closed)
    return {base_stream(name) for route in routes if isinstance(route, Receive) for name in route.streams}
