"""Commands: how a running deployment is changed.

The driver appends them to a durable log which is part of the source's offset; each takes effect at the same micro-batch in every bucket, and
a restart replays them at the same place.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from headrace.catalog.definitions import Connector, Stream
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import Deferral
from headrace.model.action import Reaction
from headrace.model.patterns.feedback import Feedback
from headrace.model.patterns.pattern import Pattern
from headrace.model.qos import Qos, Shedding
from headrace.model.schema import Schema
from headrace.model.stint import Schedule, Stint
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


class UseEligibility(Struct, frozen=True, tag="use_eligibility"):
    """Who is worth a turn: who has more than so many tuples waiting for each of its operators, or has waited so long (microseconds); 0: everybody."""

    tuples: int = 0
    waited: int = 0


class Cost(Struct, frozen=True):
    """What a tuple costs at a vertex (nanoseconds), how many come out for it, and the bytes of both."""

    service_ns: float
    selectivity: float
    size_in: float
    size_out: float


class UseCapacities(Struct, frozen=True, tag="use_capacities"):
    """What schedulers and budgets go by from now on; of vertices that are not named, what is assumed of their kind."""

    stages: dict[VertexId, Cost]


class UseDeferrals(Struct, frozen=True, tag="use_deferrals"):
    """What can wait is put off until there is time for it, behind the shuffle; in place of what was said so before."""

    deferrals: tuple[Deferral, ...]


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
    | UseEligibility
    | UseCapacities
    | UseDeferrals
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
