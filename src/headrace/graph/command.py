"""Commands: how a running deployment is changed.

The driver appends them to a durable log which is part of the source's offset; each takes effect at the same micro-batch in every bucket, and
a restart replays them at the same place.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from headrace.catalog.definitions import Connector, Stream
from headrace.elements.action import Reaction
from headrace.elements.feedback import Feedback, Intent
from headrace.elements.pattern import Pattern
from headrace.elements.promise import Qos, Shedding
from headrace.elements.schema import Schema
from headrace.elements.stint import Schedule, Stint
from headrace.errors import HostFault
from headrace.graph.graph import Graph, VertexId
from headrace.graph.stints import for_stint, has_exchange
from headrace.operators.feedback.reach import Reach


class Switch(Struct, frozen=True, omit_defaults=True):
    """What turns a query on and off by itself: times, and what is watched, the first tuple of which does it."""

    schedule: Schedule | None = None
    start_on: Graph | None = None
    stop_on: Graph | None = None

    @property
    def is_manual(self) -> bool:
        return self.schedule is None and self.start_on is None and self.stop_on is None

    @property
    def watched(self) -> tuple[Graph, ...]:
        return tuple(graph for graph in (self.start_on, self.stop_on) if graph is not None)


class AddQuery(Struct, frozen=True, tag="add_query"):
    """Run a query or a rule: its graph (ending in Output), the streams it reads, where results go, what it promises, and what turns it on and off.

    One that something else is to turn on has no stint yet, and does not run.
    """

    query: str
    graph: Graph
    streams: tuple[Stream, ...]
    sinks: tuple[Connector, ...]
    schema: Schema
    qos: Qos = Qos()
    reaction: Reaction | None = None  # of a rule: its results are detections
    switch: Switch = Switch()
    stint: Stint | None = None  # what it is on for; None: from when it was created

    @property
    def number(self) -> int:
        """Of the stint; 0 if it was never started or stopped."""
        return 0 if self.stint is None else self.stint.number

    @property
    def output(self) -> VertexId:
        """The vertex that its results reach."""
        return self.graph.vertices[-1].id


class DropQuery(Struct, frozen=True, tag="drop_query"):
    """Stop a query and forget its state."""

    query: str


class StartQuery(Struct, frozen=True, tag="start_query"):
    """Turn a stopped query on, for a stint that begins with empty state; nothing if it has had a stint of this number."""

    stint: Stint


class StopQuery(Struct, frozen=True, tag="stop_query"):
    """Turn a query off: its streams end for it, and what is due comes out; nothing if another stint is on."""

    query: str
    number: int


class EndQuery(Struct, frozen=True, tag="end_query"):
    """A stint has given its last result: forget its state."""

    query: str
    number: int


class Drain(Struct, frozen=True, tag="drain"):
    """What the sources hold now is all: read it, then close every stream."""


class UseStrategy(Struct, frozen=True, tag="use_strategy"):
    """Select operators by another strategy: in the graph of one query, or (None) wherever no query has its own."""

    query: str | None
    strategy: str


class UseScheduler(Struct, frozen=True, tag="use_scheduler"):
    """Choose who runs first by another scheduler: among the operators of one query, or (None) wherever no query has its own."""

    query: str | None
    scheduler: str
    auto: bool = False  # chosen to keep promises, not by a user


class UseFairness(Struct, frozen=True, tag="use_fairness"):
    """What keeps schedulers from starving anybody: the oldest has a turn after each `period` of work (nanoseconds), and age may raise priority."""

    mode: Literal["oldest", "dynamic", "none"] = "oldest"
    period: int = 100_000_000
    auto: bool = False  # chosen to keep promises, not by a user


class Cost(Struct, frozen=True):
    """What a tuple costs at a vertex (nanoseconds), how many come out for it, and the bytes of both."""

    service_ns: float
    selectivity: float
    size_in: float
    size_out: float


class UseCapacities(Struct, frozen=True, tag="use_capacities"):
    """What schedulers and budgets go by from now on; of vertices that are not named, what is assumed of their kind."""

    stages: dict[VertexId, Cost]


class UseBreaks(Struct, frozen=True, tag="use_breaks"):
    """Cut the arcs between operators, so that each is scheduled by itself, or heal them: in one query, or (None) wherever no query has its own."""

    query: str | None
    where: Literal["everywhere", "none"]


class UseEts(Struct, frozen=True, tag="use_ets"):
    """How silent streams tell their time: when an operator waits for it, in every `period` whether or not one does, or not at all."""

    mode: Literal["on demand", "periodic", "none"] = "on demand"
    period: int = 0


class SetPromises(Struct, frozen=True, tag="set_promises"):
    """A running query promises this from now on, and nothing else."""

    query: str
    qos: Qos


class Tell(Struct, frozen=True, tag="tell"):
    """What the readers of a query tell it about its results; `since` is how far these were then, `until` the bound that ends it."""

    query: str
    feedback: Feedback
    since: int
    until: int | None


class Relay(Struct, frozen=True):
    """What an operator found out while it ran: it does not need this of the input at a port."""

    reader: VertexId
    port: int
    pattern: Pattern
    until: int | None


class UseRelays(Struct, frozen=True, tag="use_relays"):
    """What operators have found out in all buckets, for the ingest; in place of what was said so before."""

    relays: tuple[Relay, ...]


class UseFeedback(Struct, frozen=True, tag="use_feedback"):
    """How far feedback goes: to the results alone, to the operator that makes them, or against the streams as far as it can."""

    reach: Reach = "sources"


class ShedAt(Struct, frozen=True):
    """Drop a share of the tuples on an arc, these first; on behalf of a query that reads what comes of them."""

    reader: VertexId
    port: int
    share: float
    shedding: Shedding = Shedding()
    query: str = ""

    @property
    def arc(self) -> tuple[VertexId, int]:
        return self.reader, self.port


class UseShedders(Struct, frozen=True, tag="use_shedders"):
    """What is dropped where, to keep promises; in place of what was said so before."""

    shedders: tuple[ShedAt, ...]


class SetShedding(Struct, frozen=True, tag="set_shedding"):
    """Drop this share of what a query reads, whatever its promises need; None: as they need."""

    query: str
    share: float | None


Command: TypeAlias = (
    AddQuery
    | DropQuery
    | StartQuery
    | StopQuery
    | EndQuery
    | Drain
    | UseStrategy
    | UseScheduler
    | UseFairness
    | UseCapacities
    | UseBreaks
    | UseEts
    | SetPromises
    | Tell
    | UseRelays
    | UseFeedback
    | UseShedders
    | SetShedding
)

_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """As JSON."""
    return msgspec.json.encode(command)


def decode_command(data: bytes) -> Command:
    """From JSON."""
    return _decoder.decode(data)


class CommandLog:
    """Numbered files in a directory; a command is there once its file has its final name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: list[Command] = []
        self._lock = threading.RLock()  # users and micro-batches of one process send commands

    def append(self, command: Command) -> int:
        """Add a command durably; returns how many there are now."""
        try:
            with self._lock:
                self.directory.mkdir(parents=True, exist_ok=True)
                number = len(self.upto(None))
                temporary = self.directory / f".{number:08d}"
                with temporary.open("wb") as file:
                    file.write(encode_command(command))
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.directory / f"{number:08d}.json")
        except OSError as error:
            raise HostFault(f"cannot write the command log in {self.directory}: {error.strerror}", hint="choose a writable --checkpoint") from error
        return number + 1

    def upto(self, count: int | None) -> list[Command]:
        """The first `count` commands (None: all there are)."""
        with self._lock:
            while count is None or len(self._read) < count:
                path = self.directory / f"{len(self._read):08d}.json"
                if not path.exists():
                    break
                self._read.append(decode_command(path.read_bytes()))
            return self._read[:count]


def assumed(running: Running) -> list[tuple[VertexId, Pattern]]:
    """What nobody needs, as the outputs that it was said of and patterns."""
    outputs = {query.query: query.output for query in running.queries}
    return [(outputs[told.query], told.feedback.pattern) for told in running.told if told.feedback.intent is Intent.ASSUMED and told.query in outputs]


#: So many assumptions about one query are in force at most. More are ignored, which is always right; to forget one that buckets heed is not.
MOST_TOLD = 64


class Running(Struct, frozen=True):
    """The queries in force after some commands."""

    queries: tuple[AddQuery, ...] = ()
    ending: tuple[AddQuery, ...] = ()  # stints that were stopped and have not given their last result
    stopped: tuple[AddQuery, ...] = ()  # queries that are off
    draining: bool = False
    commands: int = 0  # how many have been taken
    ets: UseEts = UseEts()
    feedback: UseFeedback = UseFeedback()
    relays: tuple[Relay, ...] = ()
    told: tuple[Tell, ...] = ()  # what is not needed and what is wanted first, as long as it has not ended
    strategies: tuple[UseStrategy, ...] = ()  # at most one for each query and one for all; a later one counts where queries share vertices

    breaks: tuple[UseBreaks, ...] = ()  # likewise
    shedders: tuple[ShedAt, ...] = ()  # as promises need; see graph.shedding for what is in force
    shedding: tuple[SetShedding, ...] = ()  # by hand, at most one for each query
    schedulers: tuple[UseScheduler, ...] = ()  # likewise
    fairness: UseFairness = UseFairness()
    costs: dict[VertexId, Cost] = {}

    def after(self, command: Command) -> Running:
        taken = msgspec.structs.replace(self, commands=self.commands + 1)
        match command:
            case AddQuery():
                queries, ending, stopped = (_without(found, command.query) for found in (self.queries, self.ending, self.stopped))
                if command.stint is None and not command.switch.is_manual:
                    return msgspec.structs.replace(taken, queries=queries, ending=ending, stopped=(*stopped, command))
                added = _apart(command, ending)
                return msgspec.structs.replace(taken, queries=(*queries, added), ending=ending, stopped=stopped)
            case StartQuery(stint=stint):
                found = next((query for query in self.stopped if query.query == stint.query and query.number < stint.number), None)
                if found is None:
                    return taken
                begun = msgspec.structs.replace(found, graph=for_stint(found.graph, stint), stint=stint)
                return msgspec.structs.replace(taken, queries=(*self.queries, begun), stopped=_without(self.stopped, stint.query))
            case StopQuery(query=name, number=number):
                found = next((query for query in self.queries if query.query == name and query.number == number), None)
                if found is None:
                    return taken
                queries, closed = _without(self.queries, name), closing(found)
                return msgspec.structs.replace(taken, queries=queries, ending=(*self.ending, closed), stopped=(*self.stopped, closed))
            case EndQuery(query=name, number=number):
                ending = tuple(query for query in self.ending if (query.query, query.number) != (name, number))
                return msgspec.structs.replace(taken, ending=ending)
            case DropQuery(query=name):
                queries, ending, stopped = (_without(found, name) for found in (self.queries, self.ending, self.stopped))
                strategies = tuple(chosen for chosen in self.strategies if chosen.query != name)
                breaks = tuple(chosen for chosen in self.breaks if chosen.query != name)
                schedulers = tuple(choice for choice in self.schedulers if choice.query != name)
                told = tuple(told for told in self.told if told.query != name)
                shedding = tuple(chosen for chosen in self.shedding if chosen.query != name)
                left = msgspec.structs.replace(taken, queries=queries, ending=ending, stopped=stopped, shedding=shedding)
                return msgspec.structs.replace(left, strategies=strategies, breaks=breaks, schedulers=schedulers, told=told)
            case Drain():
                return msgspec.structs.replace(taken, draining=True)
            case UseStrategy(query=name):
                strategies = tuple(chosen for chosen in self.strategies if chosen.query != name)
                return msgspec.structs.replace(taken, strategies=(*strategies, command))
            case UseBreaks(query=name):
                breaks = tuple(chosen for chosen in self.breaks if chosen.query != name)
                return msgspec.structs.replace(taken, breaks=(*breaks, command))
            case UseScheduler(query=name):
                schedulers = tuple(choice for choice in self.schedulers if choice.query != name)
                return msgspec.structs.replace(taken, schedulers=(*schedulers, command))
            case UseFairness():
                return msgspec.structs.replace(taken, fairness=command)
            case UseCapacities(stages=stages):
                return msgspec.structs.replace(taken, costs=stages)
            case UseEts():
                return msgspec.structs.replace(taken, ets=command)
            case SetPromises(query=name, qos=qos):
                queries, stopped = (
                    tuple(msgspec.structs.replace(query, qos=qos) if query.query == name else query for query in found)
                    for found in (self.queries, self.stopped)
                )
                return msgspec.structs.replace(taken, queries=queries, stopped=stopped)
            case Tell():
                return msgspec.structs.replace(taken, told=_with(self.told, command))
            case UseRelays(relays=relays):
                return msgspec.structs.replace(taken, relays=relays)
            case UseFeedback():
                return msgspec.structs.replace(taken, feedback=command)
            case UseShedders(shedders=shedders):
                return msgspec.structs.replace(taken, shedders=shedders)
            case SetShedding(query=name, share=share):
                others_set = tuple(chosen for chosen in self.shedding if chosen.query != name)
                return msgspec.structs.replace(taken, shedding=others_set if share is None else (*others_set, command))

    def own(self, query: str | None) -> set[VertexId]:
        """The vertices of a query; of None, all."""
        return {vertex.id for running in self.queries if query in (None, running.query) for vertex in running.graph}

    @property
    def working(self) -> tuple[AddQuery, ...]:
        """Queries that are on, and stints that are being ended."""
        return (*self.queries, *self.ending)

    @property
    def known(self) -> tuple[AddQuery, ...]:
        """Queries, on or off."""
        return (*self.queries, *self.stopped)

    def watched(self) -> dict[VertexId, str]:
        """The outputs of what is watched to turn queries on and off, and whose switch it is."""
        return {graph.vertices[-1].id: query.query for query in self.known for graph in query.switch.watched}

    def promises(self) -> dict[str, Qos]:
        """What each query promises now."""
        return {query.query: query.qos for query in self.queries}


def _without(queries: tuple[AddQuery, ...], name: str) -> tuple[AddQuery, ...]:
    return tuple(query for query in queries if query.query != name)


def closing(query: AddQuery) -> AddQuery:
    """A query whose streams are to end for it alone: a stint by itself, unless tuples of it are between two micro-batches and would be missed."""
    if query.stint is not None:
        return query
    stint = Stint(query.query, 1)
    apart = has_exchange(query.graph)
    return msgspec.structs.replace(query, graph=query.graph if apart else for_stint(query.graph, stint), stint=stint)


def _apart(query: AddQuery, ending: tuple[AddQuery, ...]) -> AddQuery:
    """A new query shares nothing with one that is being ended."""
    taken = {vertex.id for other in ending for vertex in other.graph}
    if query.stint is not None or not any(vertex.id in taken for vertex in query.graph):
        return query
    stint = Stint(query.query, 1)
    return msgspec.structs.replace(query, graph=for_stint(query.graph, stint), stint=stint)


def _with(told: tuple[Tell, ...], new: Tell) -> tuple[Tell, ...]:
    """What was told, without what has ended by now; of what is wanted first the newest counts, and a demand is met at once."""
    match new.feedback.intent:
        case Intent.DEMANDED:
            return told
        case Intent.DESIRED:
            left = [old for old in told if old.query != new.query or old.feedback.intent is not Intent.DESIRED]
        case Intent.ASSUMED:
            left = [old for old in told if old.query != new.query or old.until is None or old.until > new.since]
            mine = sum(old.query == new.query and old.feedback.intent is Intent.ASSUMED for old in left)
            if mine >= MOST_TOLD:
                return tuple(left)
    return (*left, new)
