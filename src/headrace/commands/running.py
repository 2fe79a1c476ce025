"""The state of a deployment after some commands: queries, settings, feedback, and the decisions of the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from headrace.catalog.definitions import Stream
from headrace.commands.allotments import Allotment, allotted, names_of, stay
from headrace.commands.command import (
    AddQuery,
    Allot,
    Command,
    Cost,
    Drain,
    DropQuery,
    EndQuery,
    FailQuery,
    RaiseTuples,
    Relay,
    Release,
    ResetFrontier,
    SendFeedback,
    Set,
    SetPromises,
    ShedAt,
    StartQuery,
    Steer,
    StopQuery,
    Suspension,
    UseBuckets,
    UseCosts,
    UseDeferrals,
    UseRelays,
    UseShedders,
    UseTable,
    UseTree,
)
from headrace.commands.settings import (
    Balancing,
    Breaks,
    Budget,
    Eligibility,
    Ets,
    Fairness,
    FeedbackReach,
    Grid,
    LocalPlans,
    MemoryLimit,
    Optimizer,
    Plan,
    Scheduler,
    Setting,
    ShedShare,
    Strategy,
)
from headrace.graph.graph import VertexId, merge
from headrace.graph.place import Deferral, Lay, place
from headrace.graph.stints import for_stint, has_exchange
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import Pattern
from headrace.model.qos import Qos
from headrace.model.stint import Stint
from headrace.operators.feedback.reach import Reach

#: At most so many assumptions about one query are in force. Buckets ignore more, which is always correct; to drop one
#: they apply is not.
MAX_ASSUMPTIONS = 64

#: The parts of Running that have entries for a query, which go when the query is dropped.
_BY_QUERY = ("queries", "ending", "stopped", "early", "settings", "feedback", "failed")


class FailedQuery(Struct, frozen=True):
    """A query that does not run because it made micro-batches fail."""

    query: str
    added: AddQuery  # as it was
    reason: str
    time: int


_Named = TypeVar("_Named", AddQuery, Set, SendFeedback, FailedQuery)
_Kind = TypeVar("_Kind", bound=Setting)


class Frontier(Struct, frozen=True):
    """Where a stream goes on since a command reset its frontier, and how many commands there were with that one."""

    to: int
    newest: int  # the newest timestamp from which that frontier would follow
    commands: int


class Running(Struct, frozen=True):
    """Everything in force after some commands."""

    queries: tuple[AddQuery, ...] = ()  # those that are on
    ending: tuple[AddQuery, ...] = ()  # stints that were stopped and have not given their last result
    stopped: tuple[AddQuery, ...] = ()  # those that are off
    early: tuple[AddQuery, ...] = ()  # later stints of queries that are on, whose first tuples have come
    draining: bool = False
    commands: int = 0  # how many have been taken
    settings: tuple[
        Set, ...
    ] = ()  # the latest of each kind for each query; a later one wins where queries share vertices
    feedback: tuple[SendFeedback, ...] = ()  # assumptions and desires that have not ended
    relays: tuple[Relay, ...] = ()
    shedders: tuple[ShedAt, ...] = ()  # as promises need; commands.shedders_in_force adds those that users set
    costs: dict[VertexId, Cost] = {}
    deferrals: tuple[Deferral, ...] = ()
    failed: tuple[FailedQuery, ...] = ()
    suspended: dict[str, Suspension] = {}  # of the stopped queries those that are off only for a while
    frontiers: dict[str, Frontier] = {}  # of streams that were reset
    trees: dict[VertexId, UseTree] = {}  # the last change of plan of each join of several inputs
    local_trees: dict[VertexId, dict[int, UseTree]] = {}  # of buckets that run another tree, since that change
    tables: dict[str, str] = {}  # the digests of tables that are read again, by key
    allotments: dict[str, Allotment] = {}  # where parcels of keys are, if not where their hash puts them
    buckets: tuple[int, ...] = ()  # among which keys are divided; none: those with which the checkpoint began
    steered: dict[str, Steer] = {}  # streams whose sources were paused, or whose rates were changed

    def after(self, command: Command) -> Running:
        """Return the state after one more command."""
        after = self._after(command)
        has_trees = self.trees or self.local_trees
        return _carrying(self, after) if isinstance(command, StartQuery | StopQuery) and has_trees else after

    def _after(self, command: Command) -> Running:
        state = replace(self, commands=self.commands + 1, deferrals=self._deferrals_after(command))
        match command:
            case AddQuery():
                return _add(state, command)
            case StartQuery(stint=stint):
                return _start(state, stint)
            case StopQuery(query=name, number=number, suspension=suspension):
                return _stop(state, name, number, suspension)
            case EndQuery(query=name, number=number):
                return _end(state, name, number)
            case DropQuery(query=name):
                return _drop(state, name)
            case FailQuery(added=query, reason=reason, time=time):
                rest = _drop(state, query.query)
                failed = (*rest.failed, FailedQuery(query.query, query, reason, time))
                return replace(rest, failed=failed, tables=_tables_with(query, state.tables))
            case Drain():
                return replace(state, draining=True)
            case RaiseTuples() | Release():
                return state
            case Steer(stream=stream):
                return replace(state, steered={**self.steered, stream: command})
            case ResetFrontier(stream=name, to=to, skew=skew):
                frontier = Frontier(to, to + skew, state.commands)
                return replace(state, frontiers={**self.frontiers, name: frontier})
            case Set():
                return _set(state, command)
            case SetPromises(query=name, qos=qos):
                queries, stopped = _promising(self.queries, name, qos), _promising(self.stopped, name, qos)
                return replace(state, queries=queries, stopped=stopped)
            case SendFeedback():
                return replace(state, feedback=_with(self.feedback, command))
            case UseCosts() | UseDeferrals() | UseRelays() | UseShedders():
                return replace(state, **asdict(command))  # each has one field, of the same name as ours
            case UseTree():
                return _use_tree(state, command)
            case UseTable(key=key, digest=digest):
                return replace(state, tables={**self.tables, key: digest}) if key in self.tables else state
            case Allot():
                return replace(state, allotments=allotted(_of_known(state), command))
            case UseBuckets(buckets=buckets):
                staying = stay(_of_known(state), _lays(state), command)
                return replace(state, allotments=staying, buckets=buckets)

    def _deferrals_after(self, command: Command) -> tuple[Deferral, ...]:
        """Return the deferrals without those of vertices that a query comes to share or leaves with this command."""
        match command:
            case AddQuery():
                touched = (command.graph, *command.activation.watched)
            case (
                StartQuery(stint=Stint(query=name))
                | StopQuery(query=name)
                | DropQuery(query=name)
                | FailQuery(added=AddQuery(query=name))
            ):
                touched = tuple(query.graph for query in (*self.known, *self.ending) if query.query == name)
            case EndQuery() | Drain() | ResetFrontier() | RaiseTuples() | Release() | Steer():
                return self.deferrals
            case Set() | SetPromises() | SendFeedback():
                return self.deferrals
            case (
                UseCosts()
                | UseDeferrals()
                | UseRelays()
                | UseShedders()
                | UseTree()
                | UseTable()
                | Allot()
                | UseBuckets()
            ):
                return self.deferrals
        vertices = {vertex.id for graph in touched for vertex in graph}
        return tuple(deferral for deferral in self.deferrals if deferral.vertex not in vertices)

    def begin(self, stint: Stint) -> Running:
        """Return the state in which a stint has begun, although no command has said so yet."""
        return _begin(self, stint)

    def early_of(self, query: str) -> list[AddQuery]:
        """Return the later stints of a query that is on, in their order."""
        return [early for early in self.early if early.query == query]

    def steering(self, stream: Stream) -> Steer | None:
        """Return what was said about the rate of a stream."""
        steer = self.steered.get(stream.name)
        return steer if steer is not None and steer.source == stream.source else None

    def reset_since(self, commands: int) -> dict[str, Frontier]:
        """Return the streams whose frontiers later commands than the first so many have reset, and where to."""
        return {name: frontier for name, frontier in self.frontiers.items() if frontier.commands > commands}

    def own(self, query: str | None) -> set[VertexId]:
        """Return the vertices of a query that is on; of None, those of all."""
        return {vertex.id for running in self.queries if query in (None, running.query) for vertex in running.graph}

    @property
    def working(self) -> tuple[AddQuery, ...]:
        """Return the queries that are on, the stints that are ending, and those that came early."""
        return (*self.queries, *self.ending, *self.early)

    @property
    def known(self) -> tuple[AddQuery, ...]:
        """Return all queries, on or off, except those that failed."""
        return (*self.queries, *self.stopped)

    @property
    def added(self) -> tuple[AddQuery, ...]:
        """Return all queries that were added and not dropped: on, off or failed."""
        return (*self.known, *(failed.added for failed in self.failed))

    @property
    def allotted(self) -> dict[VertexId, str]:
        """Return the allotment of each vertex that has one of its own."""
        return names_of(self.allotments.values())

    def in_use(self, first: Sequence[int]) -> tuple[int, ...]:
        """Return the buckets among which keys are divided; `first` are those with which the checkpoint began."""
        return self.buckets or tuple(first)

    def cells(self, vertex: VertexId, buckets: int) -> int:
        """Return how many buckets a join in a grid is divided among, given how many there are in all."""
        name = self.allotted.get(vertex)
        return max(1, len(self.allotments[name].buckets) if name is not None else len(self.buckets) or buckets)

    def all_buckets(self, first: Sequence[int]) -> list[int]:
        """Return the buckets that are in use, and those that still have the state of something."""
        used = {bucket for allotment in _of_known(self).values() for bucket in allotment.used()} if self.buckets else ()
        in_use = self.in_use(first)
        return [*in_use, *sorted(set(used) - {*in_use})]

    def buckets_on_the_way(self, before: Running) -> set[int]:
        """Return the buckets to which pages go in the micro-batch that leads here from `before`."""
        routed = (allotment.before_in(before.allotments) for allotment in _of_known(self).values())
        return {bucket for allotment in routed for bucket in allotment.used()}

    def watched(self) -> dict[VertexId, str]:
        """Return the outputs of the graphs that start or stop queries, each with the query it is for."""
        return {graph.vertices[-1].id: query.query for query in self.known for graph in query.activation.watched}

    def promises(self) -> dict[str, Qos]:
        """Return the promises of each query that is on."""
        return {query.query: query.qos for query in self.queries}

    def assumptions(self) -> list[tuple[VertexId, Pattern]]:
        """Return the results that no reader needs, as outputs and patterns."""
        outputs = {query.query: query.output for query in self.queries}
        return [
            (outputs[sent.query], sent.feedback.pattern)
            for sent in self.feedback
            if sent.feedback.intent is Intent.ASSUMED and sent.query in outputs
        ]

    @property
    def strategies(self) -> dict[str | None, Strategy]:
        """Return the dispatch strategies by query; None: of queries without their own."""
        return self._chosen(Strategy)

    @property
    def schedulers(self) -> dict[str | None, Scheduler]:
        """Return the schedulers by query; None: of queries without their own."""
        return self._chosen(Scheduler)

    @property
    def breaks(self) -> dict[str | None, Breaks]:
        """Return the breaks by query; None: of queries without their own."""
        return self._chosen(Breaks)

    @property
    def shed_shares(self) -> dict[str, float]:
        """Return the shares that users chose to shed, by query."""
        shares = self._chosen(ShedShare).items()
        return {query: chosen.share for query, chosen in shares if query is not None and chosen.share is not None}

    @property
    def fixed_plans(self) -> frozenset[str]:
        """Return the queries whose join trees a user chose."""
        chosen = self._chosen(Plan).items()
        return frozenset(query for query, plan in chosen if query is not None and plan.fixed)

    @property
    def fairness(self) -> Fairness:
        """Return the protection against starvation."""
        return self._chosen(Fairness).get(None, Fairness())

    @property
    def eligibility(self) -> Eligibility:
        """Return the condition on which a unit may have a turn."""
        return self._chosen(Eligibility).get(None, Eligibility())

    @property
    def budget(self) -> Budget:
        """Return how the work of a bucket is limited."""
        return self._chosen(Budget).get(None, Budget())

    @property
    def is_scheduled(self) -> bool:
        """Return whether a user chose a scheduler for any query."""
        return any(not chosen.auto and chosen.name != "none" for chosen in self.schedulers.values())

    @property
    def ets(self) -> Ets:
        """Return when silent streams give a bound."""
        return self._chosen(Ets).get(None, Ets())

    @property
    def reach(self) -> Reach:
        """Return how far feedback goes."""
        return self._chosen(FeedbackReach).get(None, FeedbackReach()).reach

    @property
    def balancing(self) -> Literal["auto", "off"]:
        """Return whether parcels change bucket as the load demands."""
        return self._chosen(Balancing).get(None, Balancing()).mode

    @property
    def local_plans(self) -> Literal["auto", "off"]:
        """Return whether each bucket may choose the trees of its joins."""
        return self._chosen(LocalPlans).get(None, LocalPlans()).mode

    @property
    def has_local_plans(self) -> bool:
        """Return whether buckets may run different trees, so that each must say what it does."""
        return self.local_plans == "auto" or bool(self.local_trees)

    def tree_in(self, vertex: VertexId, bucket: int) -> UseTree | None:
        """Return the last change of plan of a join in a bucket; None if it runs the tree that it began with."""
        return self.local_trees.get(vertex, {}).get(bucket) or self.trees.get(vertex)

    def tree_number(self, vertex: VertexId) -> int:
        """Return the number of the last change of plan of a join, in whichever buckets."""
        common = self.trees.get(vertex)
        local = self.local_trees.get(vertex, {}).values()
        return max([0 if common is None else common.number, *(change.number for change in local)])

    @property
    def grid(self) -> Literal["auto", "on", "off"]:
        """Return whether new joins of streams without a common key run in a grid."""
        return self._chosen(Grid).get(None, Grid()).mode

    def optimizer_of(self, query: str) -> Literal["auto", "off"]:
        """Return whether the plans of a query's joins change as the data demand."""
        chosen = self._chosen(Optimizer)
        return chosen.get(query, chosen.get(None, Optimizer())).mode

    @property
    def memory_limit(self) -> float:
        """Return how much state all queries together should hold (bytes)."""
        size = self._chosen(MemoryLimit).get(None, MemoryLimit()).bytes
        return float("inf") if size is None else size

    @property
    def may_change_plans(self) -> bool:
        """Return whether the joins of some query may change their plans by themselves."""
        fixed = self.fixed_plans
        return any(query.query not in fixed and self.optimizer_of(query.query) == "auto" for query in self.queries)

    def _chosen(self, kind: type[_Kind]) -> dict[str | None, _Kind]:
        """Return the settings of a kind by query, the oldest first."""
        return {chosen.query: chosen.setting for chosen in self.settings if isinstance(chosen.setting, kind)}


def _add(state: Running, new: AddQuery) -> Running:
    """Add a query in place of any of its name, and of what was said to it; it is off if something else starts it.

    The rows of its tables were read last, so all queries that use them go on with them.
    """
    if new.tables:
        state = replace(state, tables={**state.tables, **{version.key: version.digest for version in new.tables}})
    if any(old.query == new.query and old.incarnation != new.incarnation for old in state.known):
        state = replace(state, feedback=_without(state.feedback, new.query))
    state = replace(state, failed=_without(state.failed, new.query), early=_without(state.early, new.query))
    state = replace(state, suspended=_not_suspended(state, new.query))
    queries, ending, stopped = (_without(part, new.query) for part in (state.queries, state.ending, state.stopped))
    if new.stint is None and not new.activation.is_manual:
        return replace(state, queries=queries, ending=ending, stopped=(*stopped, new))
    return replace(state, queries=(*queries, _apart(new, ending)), ending=ending, stopped=stopped)


def _tables_with(query: AddQuery, tables: Mapping[str, str]) -> dict[str, str]:
    """Return the tables in force when a query may run that was not counted: those that only it uses were forgotten."""
    return {**{version.key: version.digest for version in query.tables}, **tables}


def _start(state: Running, stint: Stint) -> Running:
    """Turn a query on that is off or has failed, or let a later stint begin early, if it has not had this one."""
    for query in (*state.stopped, *(failed.added for failed in state.failed)):
        if query.query == stint.query and query.number < stint.number:
            begun = replace(query, graph=for_stint(query.graph, stint, query.incarnation), stint=stint)
            queries, stopped = (*state.queries, begun), _without(state.stopped, stint.query)
            failed, suspended = _without(state.failed, stint.query), _not_suspended(state, stint.query)
            tables = _tables_with(query, state.tables)
            return replace(state, queries=queries, stopped=stopped, failed=failed, suspended=suspended, tables=tables)
    return _begin(state, stint)


def _begin(state: Running, stint: Stint) -> Running:
    """Let a later stint of a query that is on run beside that one, if it does not yet."""
    for query in state.queries:
        if query.query == stint.query and query.stint is not None and query.stint.end <= stint.begin:
            if any(early.number == stint.number for early in state.early_of(stint.query)):
                return state
            begun = replace(query, graph=for_stint(query.graph, stint, query.incarnation), stint=stint)
            return replace(state, early=tuple(sorted((*state.early, begun), key=_place)))
    return state


def _place(query: AddQuery) -> tuple[str, int]:
    return query.query, query.number


def _drop(state: Running, name: str) -> Running:
    """Forget a query and all that was said to it."""
    rest = replace(state, **{part: _without(getattr(state, part), name) for part in _BY_QUERY})
    # a query of the same plan that is created later reads all its input again
    readers = rest.own(None)
    relays = tuple(relay for relay in state.relays if relay.reader in readers)
    used = {version.key for query in (*rest.working, *rest.added) for version in query.tables}
    tables = {key: digest for key, digest in rest.tables.items() if key in used}
    return replace(rest, relays=relays, suspended=_not_suspended(state, name), tables=tables)


def _stop(state: Running, name: str, number: int, suspension: Suspension | None) -> Running:
    """End a stint of a query, if it is on. The query is off then, unless its next stint has begun early.

    One that is suspended is off in any case, and stays off if it is stopped.
    """
    for query in state.queries:
        if query.query == name and query.number == number:
            closed, early = closing(query, state), state.early_of(name)
            queries, others = _without(state.queries, name), _without(state.early, name)
            ended = replace(state, queries=queries, early=others, ending=(*state.ending, closed))
            ended = replace(ended, allotments=_carried(state, query, closed))
            if suspension is not None:
                ending, stopped = (*ended.ending, *early), (*state.stopped, [closed, *early][-1])
                return replace(ended, ending=ending, stopped=stopped, suspended={**state.suspended, name: suspension})
            if early:
                later = tuple(sorted((*others, *early[1:]), key=_place))
                return replace(ended, queries=(*queries, early[0]), early=later)
            return replace(ended, stopped=(*state.stopped, closed))
    return state if suspension is not None else replace(state, suspended=_not_suspended(state, name))


def _not_suspended(state: Running, name: str) -> dict[str, Suspension]:
    """Return the suspensions of other queries."""
    return {query: suspension for query, suspension in state.suspended.items() if query != name}


def _end(state: Running, name: str, number: int) -> Running:
    """Forget a stint that was ending."""
    return replace(state, ending=tuple(q for q in state.ending if (q.query, q.number) != (name, number)))


def _set(state: Running, new: Set) -> Running:
    """Put a setting in place of the one before."""
    return replace(state, settings=(*(old for old in state.settings if not new.replaces(old)), new))


def _use_tree(state: Running, change: UseTree) -> Running:
    """Remember a change of plan, if it is newer than that before; forget those of joins that are gone.

    A change of all buckets ends what some of them did otherwise.
    """
    if change.number <= state.tree_number(change.vertex):
        return state
    vertices = {vertex.id for query in (*state.working, *state.stopped) for vertex in query.graph}
    trees = {name: used for name, used in state.trees.items() if name in vertices}
    local = {name: used for name, used in state.local_trees.items() if name in vertices}
    if change.buckets is None:
        local.pop(change.vertex, None)
        return replace(state, trees={**trees, change.vertex: change}, local_trees=local)
    own = {**local.get(change.vertex, {}), **dict.fromkeys(change.buckets, change)}
    return replace(state, trees=trees, local_trees={**local, change.vertex: own})


def _of_known(state: Running) -> dict[str, Allotment]:
    """Return the allotments of vertices that are still there."""
    if not state.allotments:
        return {}
    watched = (graph for query in state.known for graph in query.activation.watched)
    graphs = (*(query.graph for query in (*state.working, *state.stopped)), *watched)
    vertices = {vertex.id for graph in graphs for vertex in graph}
    return {
        name: allotment for name, allotment in state.allotments.items() if not vertices.isdisjoint(allotment.vertices)
    }


def _lays(state: Running) -> Mapping[VertexId, Lay]:
    """Return how the state of vertices lies over the buckets."""
    watched = (graph for query in state.known for graph in query.activation.watched)
    graph = merge((*(query.graph for query in state.working), *watched))
    return place(graph, state.deferrals, state.allotted).lays


def _carried(state: Running, before: AddQuery, after: AddQuery) -> dict[str, Allotment]:
    """Return the allotments if the state of a query's vertices goes on under the names of a stint that ends."""
    if not state.allotments or before.graph == after.graph:
        return state.allotments
    names = {old.id: new.id for old, new in zip(before.graph, after.graph, strict=True)}
    return {
        name: replace(
            allotment,
            vertices=(*allotment.vertices, *(names[vertex] for vertex in allotment.vertices if vertex in names)),
        )
        for name, allotment in state.allotments.items()
    }


def _carrying(before: Running, after: Running) -> Running:
    """Let the joins of a stint begin with the trees of those before it."""
    trees, local = dict(after.trees), dict(after.local_trees)
    for new in after.working:
        for old in (*before.queries, *before.stopped):
            if old.query == new.query and len(old.graph.vertices) == len(new.graph.vertices):
                for earlier, later in zip(old.graph, new.graph, strict=True):
                    if earlier.id in trees and later.id not in trees:
                        trees[later.id] = replace(trees[earlier.id], vertex=later.id)
                    if earlier.id in local and later.id not in local:
                        own = local[earlier.id].items()
                        local[later.id] = {bucket: replace(change, vertex=later.id) for bucket, change in own}
    return replace(after, trees=trees, local_trees=local)


def _without(entries: tuple[_Named, ...], name: str) -> tuple[_Named, ...]:
    """Return the entries that are not for this query."""
    return tuple(entry for entry in entries if entry.query != name)


def _promising(queries: tuple[AddQuery, ...], name: str, qos: Qos) -> tuple[AddQuery, ...]:
    """Return queries with other promises for the one of this name."""
    return tuple(replace(query, qos=qos) if query.query == name else query for query in queries)


def closing(query: AddQuery, state: Running) -> AddQuery:
    """Return a query whose streams are to end for it alone.

    It becomes a stint with a graph of its own, unless tuples of it are between two micro-batches and would be lost.
    """
    if query.stint is not None:
        return query
    stint = Stint(query.query, 1)
    is_in_transit = has_exchange(query.graph, state.allotted)
    graph = query.graph if is_in_transit else for_stint(query.graph, stint, query.incarnation)
    return replace(query, graph=graph, stint=stint)


def _apart(query: AddQuery, ending: tuple[AddQuery, ...]) -> AddQuery:
    """Return a new query so that it shares nothing with one that is ending."""
    taken = {vertex.id for other in ending for vertex in other.graph}
    if query.stint is not None or not any(vertex.id in taken for vertex in query.graph):
        return query
    stint = Stint(query.query, 1)
    return replace(query, graph=for_stint(query.graph, stint, query.incarnation), stint=stint)


def _with(sent: tuple[SendFeedback, ...], new: SendFeedback) -> tuple[SendFeedback, ...]:
    """Return the feedback in force with new feedback.

    A demand is answered at once and not kept; a desire replaces the one of its priority; an assumption ends those that
    the results have passed.
    """
    match new.feedback.intent:
        case Intent.DEMANDED:
            return sent
        case Intent.DESIRED:
            same = (new.query, Intent.DESIRED, new.feedback.priority)
            kept = [old for old in sent if (old.query, old.feedback.intent, old.feedback.priority) != same]
        case Intent.ASSUMED:
            kept = [old for old in sent if old.query != new.query or old.until is None or old.until > new.since]
            assumptions = sum(old.query == new.query and old.feedback.intent is Intent.ASSUMED for old in kept)
            if assumptions >= MAX_ASSUMPTIONS:
                return tuple(kept)
    return (*kept, new)
