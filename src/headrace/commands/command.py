"""Commands: how a running deployment is changed.

The driver appends them to a durable log which is part of the source's offset. Each takes effect at the same micro-batch
in every bucket, and a restart replays them at the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.catalog.definitions import Connector, Stream, Table
from headrace.commands.settings import Setting
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.graph.incarnations import incarnate
from headrace.graph.place import Deferral
from headrace.model.action import Reaction
from headrace.model.join_tree import Tree
from headrace.model.patterns.feedback import Feedback
from headrace.model.patterns.pattern import Pattern
from headrace.model.qos import Qos, Shedding
from headrace.model.schema import Schema
from headrace.model.stint import Schedule, Stint
from headrace.model.time import BEGIN
from headrace.operators.multijoin.seen import How


class Activation(Struct, frozen=True, omit_defaults=True):
    """How a query turns itself on and off: by a schedule, with the first tuple of a watched graph, or with others.

    One that is `beside` other queries is on while all of them are.
    """

    schedule: Schedule | None = None
    start_on: Graph | None = None
    stop_on: Graph | None = None
    created: int = BEGIN  # when the query was created, by the clock
    beside: tuple[str, ...] = ()

    @property
    def is_manual(self) -> bool:
        """Return whether the query is turned on and off by hand only."""
        return self.schedule is None and self.start_on is None and self.stop_on is None and not self.beside

    @property
    def watched(self) -> tuple[Graph, ...]:
        """Return the graphs whose first tuple starts or stops the query."""
        return tuple(graph for graph in (self.start_on, self.stop_on) if graph is not None)


class TableVersion(Struct, frozen=True, omit_defaults=True):
    """A table that is read again while queries use it, and the digest of its rows when a query was created.

    `key` tells it apart from others that had its name. `rows` are there until they are kept by their digest.
    """

    key: str
    table: Table
    digest: str = ""
    rows: bytes = b""


class AddQuery(Struct, frozen=True, tag="add_query"):
    """Run a query or a rule.

    The graph ends in an Output. A query that something else is to start has no stint yet, and does not run.
    """

    query: str
    graph: Graph
    streams: tuple[Stream, ...]
    sinks: tuple[Connector, ...]
    schema: Schema
    qos: Qos = Qos()
    reaction: Reaction | None = None  # of a rule: its results are detections
    activation: Activation = Activation()
    stint: Stint | None = None  # the stint that is on; None: on since it was created
    incarnation: int = 0  # differs for each creation of a query; its vertices with state have it in their names
    definition: str = ""  # digest of what CREATE QUERY defined; empty: unknown
    tables: tuple[TableVersion, ...] = ()  # those that are read again

    @property
    def number(self) -> int:
        """Return the number of the stint; 0 if the query was never started or stopped."""
        return 0 if self.stint is None else self.stint.number

    @property
    def ends_by_clock(self) -> bool:
        """Return whether the clock tells when the stint is over for streams that have had no tuple yet.

        If it was over before the query was created, old tuples are to be read, which are still to come.
        """
        return self.stint is None or self.stint.end > self.activation.created

    @property
    def output(self) -> VertexId:
        """Return the vertex that its results reach."""
        return self.graph.vertices[-1].id


def incarnated(command: AddQuery, number: int, before: Iterable[AddQuery] = ()) -> AddQuery:
    """Return the command that creates an incarnation of a query, which takes over state of those `before`."""
    start_on, stop_on = (
        None if graph is None else incarnate(graph, number)
        for graph in (command.activation.start_on, command.activation.stop_on)
    )
    activation = replace(command.activation, start_on=start_on, stop_on=stop_on)
    graph = incarnate(command.graph, number, [query.graph for query in before])
    return replace(command, graph=graph, activation=activation, incarnation=number)


class DropQuery(Struct, frozen=True, tag="drop_query"):
    """Stop a query and forget its state."""

    query: str


class FailQuery(Struct, frozen=True, tag="fail_query"):
    """Stop a query that makes micro-batches fail, and forget its state; it stays known, with the reason.

    It has the whole query, since a repair leaves nothing of the command that added it.
    """

    added: AddQuery
    reason: str
    time: int  # when it failed, by the clock


class StartQuery(Struct, frozen=True, tag="start_query"):
    """Turn a stopped query on, or one that failed, for a stint that begins with empty state.

    Of a query that is on, a stint that begins later runs beside that one, and takes its place when that is stopped.
    Ignored if it has had a stint of this number.
    """

    stint: Stint


class Suspension(Struct, frozen=True):
    """Why a query is off for a while, since when (microseconds), and the work that it had (busy seconds per second)."""

    reason: str
    since: int
    work: float


class StopQuery(Struct, frozen=True, tag="stop_query", omit_defaults=True):
    """Turn a query off: its streams end for it, and pending results come out; ignored if another stint is on.

    With a `suspension` until others keep their promises without it; else until something starts it.
    """

    query: str
    number: int
    suspension: Suspension | None = None


class EndQuery(Struct, frozen=True, tag="end_query"):
    """Forget the state of a stint that has given its last result."""

    query: str
    number: int


class Drain(Struct, frozen=True, tag="drain"):
    """Read what the sources hold now, then close every stream."""


class ResetFrontier(Struct, frozen=True, tag="reset_frontier"):
    """Let a stream go on from a time, as if it had never been further; what is earlier is late.

    The queries that read it are stopped and started with it.
    """

    stream: str
    to: int
    skew: int


class RaiseTuples(Struct, frozen=True, tag="raise_tuples"):
    """Raise an event by hand: the micro-batch in which this takes effect reads these tuples, the newest of `time`."""

    event: str
    time: int
    rows: bytes  # a page with the times of the tuples


class Release(Struct, frozen=True, tag="release"):
    """Let a query that runs on demand process the tuples that wait, with those of this micro-batch."""

    query: str


class Steer(Struct, frozen=True, tag="steer"):
    """Let the source of a stream go on at another rate (None: as it is), or pause it."""

    stream: str
    source: str  # a digest: a stream of another source with this name is another one
    rate: float | None
    paused: bool


class Set(Struct, frozen=True, tag="set"):
    """Change a setting: of one query, or (None) of the whole system."""

    query: str | None
    setting: Setting

    def replaces(self, other: Set) -> bool:
        """Return whether this takes the place of an earlier setting: of the same kind, for the same query."""
        return self.query == other.query and type(self.setting) is type(other.setting)


class SetPromises(Struct, frozen=True, tag="set_promises"):
    """Replace all promises of a running query."""

    query: str
    qos: Qos


class SentPage(Struct, frozen=True):
    """What an operator would still give a vertex of this bucket if its streams ended now."""

    bucket: int
    receive: VertexId
    page: bytes


class SendFeedback(Struct, frozen=True, tag="send_feedback"):
    """Apply feedback of a query's readers.

    `since` is the bound of its results at that time, `until` the bound that ends the feedback. The answer to a demand
    carries its number. In later steps of a demand, there is what was `sent` by exchanges for it (`worker.demands`).
    """

    query: str
    feedback: Feedback
    since: int
    until: int | None
    demand: int = 0
    step: int = 0
    sent: tuple[SentPage, ...] = ()


class Cost(Struct, frozen=True):
    """The work of a vertex per tuple (nanoseconds), the tuples that come out for each, and the bytes of both.

    `page_ns` is the work of an execution whatever the number of its tuples.
    """

    service_ns: float
    selectivity: float
    size_in: float
    size_out: float
    page_ns: float = 0.0

    def of(self, tuples: int) -> float:
        """Return the nanoseconds of an execution on so many tuples; bounds cost nothing."""
        return self.page_ns + tuples * self.service_ns if tuples else 0.0


class Relay(Struct, frozen=True):
    """Tuples at an input port that an operator has found it does not need."""

    reader: VertexId
    port: int
    pattern: Pattern
    until: int | None


class ShedAt(Struct, frozen=True):
    """A share of the tuples on an arc to drop, and which ones first, on behalf of a query behind the arc."""

    reader: VertexId
    port: int
    share: float
    shedding: Shedding = Shedding()
    query: str = ""

    @property
    def arc(self) -> Arc:
        """Return the arc by its reader and port."""
        return self.reader, self.port


class UseCosts(Struct, frozen=True, tag="use_costs"):
    """Replace the costs that schedulers and budgets calculate with.

    A vertex that is not named has the default of its kind.
    """

    costs: dict[VertexId, Cost]


class UseDeferrals(Struct, frozen=True, tag="use_deferrals"):
    """Replace the set of vertices that run in the buckets instead of in the ingest."""

    deferrals: tuple[Deferral, ...]


class UseRelays(Struct, frozen=True, tag="use_relays"):
    """Replace the feedback that operators derived in all buckets, so that the ingest applies it too."""

    relays: tuple[Relay, ...]


class UseShedders(Struct, frozen=True, tag="use_shedders"):
    """Replace the shedders that keep promises."""

    shedders: tuple[ShedAt, ...]


class UseTree(Struct, frozen=True, tag="use_tree", omit_defaults=True):
    """Let a join of several inputs go on with another tree.

    `number` is one per change of a vertex: a join that has taken it, or a later one, does nothing. `portion` is how
    many rows a bucket builds in a micro-batch if the change is stepwise. `buckets` are those that change; None: all.
    `auto` if the optimizer chose the tree.
    """

    vertex: VertexId
    number: int
    tree: Tree
    how: How = "moving"
    portion: int = 0
    buckets: tuple[int, ...] | None = None
    auto: bool = False


class UseTable(Struct, frozen=True, tag="use_table"):
    """Let all queries go on with another version of a table, by the digest of its rows."""

    key: str
    digest: str


class KeySplit(Struct, frozen=True):
    """How a join has a parcel in several buckets: tuples of one port are dealt to them, those of others go to each.

    A combination has exactly one tuple of that port, which is in one bucket: each result comes out once.
    """

    port: int
    buckets: tuple[int, ...]


class Allot(Struct, frozen=True, tag="allot", omit_defaults=True):
    """Let parcels of the keys of some vertices go to other buckets, with their state.

    `vertices` are those with state that lie together; those behind them follow. `number` is one per change of the
    allotment `name`: one that is not higher than the last does nothing. `parcels` is how many there are of all keys,
    `buckets` are all, in their order. A parcel in `splits` is in several buckets from then on; one that is only in
    `moves` is in one. The vertices lay by the allotment `origin` if this one is new.
    """

    name: str
    number: int
    vertices: tuple[VertexId, ...]
    parcels: int
    buckets: tuple[int, ...]
    moves: dict[int, int]  # buckets by parcel
    auto: bool = False  # whether the system chose the moves
    splits: dict[int, KeySplit] = {}  # by parcel
    origin: str = ""


class UseBuckets(Struct, frozen=True, tag="use_buckets"):
    """Divide keys among these buckets from now on, instead of those `before`.

    What has state stays where it is until an `Allot` lets it go: it is allotted to the buckets before.
    """

    buckets: tuple[int, ...]
    before: tuple[int, ...]


Command: TypeAlias = (
    AddQuery
    | DropQuery
    | FailQuery
    | StartQuery
    | StopQuery
    | EndQuery
    | Drain
    | ResetFrontier
    | RaiseTuples
    | Release
    | Steer
    | Set
    | SetPromises
    | SendFeedback
    | UseCosts
    | UseDeferrals
    | UseRelays
    | UseShedders
    | UseTree
    | UseTable
    | Allot
    | UseBuckets
)

_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
_list_decoder: msgspec.json.Decoder[Command | list[Command]] = msgspec.json.Decoder(Command | list[Command])


def encode_command(command: Command) -> bytes:
    """Return a command as JSON."""
    return msgspec.json.encode(command)


def decode_command(data: bytes) -> Command:
    """Return the command that JSON holds."""
    return _decoder.decode(data)


def encode_commands(commands: Sequence[Command]) -> bytes:
    """Return commands as JSON: a single one as an object, several as a list."""
    return msgspec.json.encode(commands[0] if len(commands) == 1 else commands)


def decode_commands(data: bytes) -> list[Command]:
    """Return the commands that JSON holds."""
    decoded = _list_decoder.decode(data)
    return decoded if isinstance(decoded, list) else [decoded]
