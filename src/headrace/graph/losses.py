"""Where a lost tuple creates results: arcs on which nothing may be shed.

Most operators only lose results with their input. Some report the absence of a tuple: a negated event, the padding of
an outer join, the end of a session. Others let a tuple take the place of the lost one: LIMIT, a window of rows. Above
them, each arc that leads to such an input is barred, for all queries that read it.

Aggregates are apart: a loss changes their values, which is what an error allows. But counts and maxima only fall and
minima only rise, so a condition such as `count(*) < 3` lets results through because tuples are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.graph.graph import Arc, Graph, VertexId
from headrace.graph.judged_aggregates import judged_aggregates
from headrace.model.events.event import (
    Absent,
    Alias,
    And,
    AnyOf,
    Aperiodic,
    AperiodicStar,
    Event,
    Mode,
    Not,
    Or,
    Periodic,
    PeriodicStar,
    Plus,
    Primitive,
    Repetition,
    Sequence,
    Times,
    Within,
    primitives,
)
from headrace.operators import specs


def creating_arcs(graph: Graph) -> dict[Arc, VertexId]:
    """Return the arcs on which the loss of a tuple may create results, each with the vertex at which they appear."""
    creators: dict[VertexId, VertexId] = {}  # vertices behind which a loss creates results
    judged = judged_aggregates(graph)
    arcs: dict[Arc, VertexId] = {}
    for vertex in reversed(graph.vertices):
        for port, origin in enumerate(vertex.inputs):
            creator = creators.get(vertex.id) or judged.get(vertex.id)
            if creator is None and creates_by_loss(vertex.spec, port):
                creator = vertex.id
            if creator is not None:
                arcs[vertex.id, port] = creator
                creators.setdefault(origin, creator)
    return arcs


def creates_by_loss(spec: specs.Spec, port: int) -> bool:
    """Return whether an operator may give tuples without a tuple of this port that it would not give with it."""
    match spec:
        case specs.Join() | specs.JoinChanges() | specs.RowsJoin() | specs.OrderedJoin():
            extent = spec.extent(port)
            return spec.preserves(1 - port) or (extent is not None and extent.rows is not None)
        case specs.SequenceJoin(mode=mode):
            return mode != "recent" or port == 0  # another left tuple, or another right one, takes its place
        case specs.Detect():
            return port not in _harmless_ports(spec)
        case specs.Distinct(span=span):
            return span > 0  # the next equal tuple has none before it
        case (
            specs.Suppress()
            | specs.Leading()
            | specs.Limit()
            | specs.Rank()
            | specs.SessionAggregate()
            | specs.Over()
            | specs.WindowOver()
            | specs.Changes()
            | specs.MatchRows()
        ):
            return True
        case specs.Deduplicate() | specs.Punctuate() | specs.Pace():
            return True  # without a mark, or without the newest, what came too late is there
        case (
            specs.Exchange()
            | specs.Filter()
            | specs.Hold()
            | specs.Impute()
            | specs.MultiJoin()
            | specs.OrderedUnion()
            | specs.Output()
            | specs.PaneAggregate()
            | specs.PartialAggregate()
            | specs.Project()
            | specs.Receive()
            | specs.Reorder()
            | specs.RowsAggregate()
            | specs.Scan()
            | specs.SlidingAggregate()
            | specs.TableJoin()
            | specs.Membership()
            | specs.Union()
            | specs.Condense()
            | specs.Unnest()
            | specs.WhileAggregate()
        ):
            return False


def _harmless_ports(spec: specs.Detect) -> frozenset[int]:
    """Return the ports of a detection at which a lost tuple only takes detections away."""
    if any(retention.keep is not None for retention in spec.context.retentions):
        return frozenset()  # an older tuple is kept in its place
    match spec.context.mode:
        case Mode.UNRESTRICTED:
            harmless = list(_needed(spec.event))
        case Mode.RECENT:
            harmless = list(_last(spec.event))
        case Mode.CHRONICLE | Mode.CONTINUOUS | Mode.CUMULATIVE | Mode.PROXIMAL:
            return frozenset()  # what the lost tuple would have used up is there for others
    harmful = [part for part in primitives(spec.event) if part not in harmless]
    return frozenset(part.port for part in harmless) - {part.port for part in harmful}


def _needed(event: Event) -> Iterator[Primitive]:
    """Return the primitive events without which there are only fewer occurrences, if all are combined with all."""
    match event:
        case Primitive():
            yield event
        case And(left=left, right=right) | Or(left=left, right=right) | Sequence(left=left, right=right):
            yield from _needed(left)
            yield from _needed(right)
        case Not(start=start, end=end):
            yield from _needed(start)
            yield from _needed(end)
        case Absent(start=start) | Periodic(start=start):
            yield from _needed(start)
        case Aperiodic(start=start, middle=middle):
            yield from _needed(start)
            yield from _needed(middle)
        case AnyOf(events=events):
            for part in events:
                yield from _needed(part)
        case Plus(event=inner) | Within(event=inner) | Alias(event=inner):
            yield from _needed(inner)
        case Times() | AperiodicStar() | Repetition() | PeriodicStar():
            return  # they combine what is left in another way


def _last(event: Event) -> Iterator[Primitive]:
    """Return the primitive events that only end occurrences: no later one is combined with them."""
    match event:
        case Primitive():
            yield event
        case Sequence(right=right):
            yield from _last(right)
        case Or(left=left, right=right):
            yield from _last(left)
            yield from _last(right)
        case Within(event=inner) | Plus(event=inner) | Alias(event=inner):
            yield from _last(inner)
        case Not() | Absent() | And() | AnyOf() | Times() | Aperiodic() | AperiodicStar() | Periodic() | PeriodicStar():
            return
        case Repetition():
            return
