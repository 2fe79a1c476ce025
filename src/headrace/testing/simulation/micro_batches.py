"""A deployment in numbers: micro-batches take longer the more work they have, and the controller reacts to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.commands.command import EndQuery
from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.commands.shedders_in_force import shedders_in
from headrace.control.limits import WorkLimits
from headrace.control.loop import ControlLoop
from headrace.engine.statistics import QueryStatistics, Statistics, StreamCounts, VertexCounts
from headrace.graph.graph import VertexId
from headrace.model.time import SECOND
from headrace.operators.specs import Scan
from headrace.worker.wire import BucketNote, Report


@dataclass(frozen=True, slots=True)
class Machine:
    """Seconds of a micro-batch without tuples, seconds that each tuple adds on one core, and the number of cores."""

    fixed: float = 0.2
    service: float = 20e-6
    cores: int = 2
    held: float = 0.0  # seconds for which operators hold a tuple
    size: int = 64  # bytes of a tuple that is held


class SimulatedDeployment:
    """Queries on a machine in numbers.

    A micro-batch reads what arrived since the last one began. Every tuple that is not shed costs the same, at the
    operators that read a stream. A query that is stopped has ended after the same micro-batch.
    """

    def __init__(self, running: Running, directory: Path, machine: Machine | None = None) -> None:
        self.running, self.control, self.machine = running, ControlLoop(directory), machine or Machine()
        self.vertices: dict[VertexId, VertexCounts] = {}
        self.streams: dict[str, StreamCounts] = {}
        self.now, self.planned = 0, 0
        self.limits: WorkLimits | None = None
        self.latencies: list[float] = []  # worst latency of each micro-batch, in seconds
        self.shares: list[float] = []  # share of the tuples that was shed in each micro-batch
        self.memory: list[int] = []  # bytes that operators held after each micro-batch
        self._kept: list[tuple[int, int]] = []  # tuples that are held, by the time of their micro-batch

    def run(self, rates: Mapping[str, float], seconds: float) -> None:
        """Let tuples of streams arrive at these rates (per second) for a time."""
        end = self.now + round(seconds * SECOND)
        while self.now < end:
            begun, self.planned = self.planned, self.now
            read = {stream.name for query in self.running.queries for stream in query.streams}
            arrived = {
                name: round(rate * (self.planned - begun) / SECOND) for name, rate in rates.items() if name in read
            }
            share = max((shedder.share for shedder in shedders_in(self.running).values()), default=0.0)
            kept = {name: round(count * (1 - share)) for name, count in arrived.items()}
            busy = sum(kept.values()) * self.machine.service
            self.now = self.planned + round((self.machine.fixed + busy / self.machine.cores) * SECOND)
            self._count(arrived, kept)
            self._hold(sum(kept.values()))
            latency = (self.now - begun) / SECOND
            self.latencies.append(latency)
            self.shares.append(share)
            self._control(busy)

    def _count(self, arrived: Mapping[str, int], kept: Mapping[str, int]) -> None:
        """Add what the operators did to the statistics; those that read a stream do all the work."""
        graph = whole_of(self.running)
        streams = {vertex.id: vertex.spec.stream for vertex in graph if isinstance(vertex.spec, Scan)}
        for name, count in arrived.items():
            self.streams.setdefault(name, StreamCounts()).tuples += count
        origins: dict[VertexId, frozenset[str]] = {}
        for vertex in graph:
            counts = self.vertices.setdefault(vertex.id, VertexCounts())
            own = frozenset((streams[vertex.id],)) if vertex.id in streams else frozenset()
            origins[vertex.id] = own.union(*(origins[name] for name in vertex.inputs))
            tuples = sum((arrived if own else kept)[name] for name in origins[vertex.id])
            counts.tuples_in += tuples
            counts.tuples_out += tuples
        for name, count in kept.items():
            readers = [vertex.id for vertex in graph if any(streams.get(origin) == name for origin in vertex.inputs)]
            for reader in readers:
                busy = count * self.machine.service / len(readers)
                self.vertices[reader].busy_ns += round(busy * 1e9)

    def _hold(self, tuples: int) -> None:
        """Let the operators that read a stream hold the tuples of this micro-batch, and let go of older ones."""
        self._kept = [entry for entry in self._kept if entry[0] > self.now - self.machine.held * SECOND]
        self._kept.append((self.now, tuples))
        self.memory.append(sum(count for _, count in self._kept) * self.machine.size if self.machine.held else 0)
        if self.machine.held:
            scans = {vertex.id for vertex in whole_of(self.running) if isinstance(vertex.spec, Scan)}
            for vertex in whole_of(self.running):
                if not scans.isdisjoint(vertex.inputs):
                    self.vertices[vertex.id].state_bytes = self.memory[-1]

    def _control(self, busy: float) -> None:
        counts = VertexCounts(busy_ns=round(busy / self.machine.cores * 1e9))
        reports = [
            Report(buckets=[BucketNote(number, counts.busy_ns)], time=self.planned, vertices={"filter": counts})
            for number in range(self.machine.cores)
        ]
        guidance = self.control.after(self._statistics(), reports, self.running, self.now, self.machine.cores)
        self.limits = guidance.limits
        for command in guidance.commands:
            self.running = self.running.after(command)
        for query in self.running.ending:
            self.running = self.running.after(EndQuery(query.query, query.number))

    def _statistics(self) -> Statistics:
        latency = QueryStatistics(latency_ms=self.latencies[-1] * 1e3)
        return Statistics(
            vertices={name: counts.total() for name, counts in self.vertices.items()},
            streams={name: counts.total() for name, counts in self.streams.items()},
            queries={query.query: latency for query in self.running.queries},
        )
