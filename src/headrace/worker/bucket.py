"""One bucket's share of a micro-batch: restore, apply commands, process pages and bounds, save what changed.

The state store is authoritative. A bucket that stays in memory after a micro-batch may be used again only if the
store's version is the one it wrote.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from headrace.commands import settings
from headrace.commands.command import (
    Command,
    RaiseTuples,
    Relay,
    Release,
    ResetFrontier,
    SendFeedback,
    Set,
    SetPromises,
    StartQuery,
    Steer,
    StopQuery,
    UseCosts,
    UseRelays,
    UseShedders,
    UseTree,
)
from headrace.commands.culprits import attributed
from headrace.commands.key_splits import is_moving as moves_parcels
from headrace.commands.repairs import without
from headrace.commands.running import Running
from headrace.commands.running_graph import closed_in, invariants_in, placement_of, spread_in
from headrace.commands.shedders_in_force import place_shedders, shedders_in
from headrace.engine.bounds.ets import BatchEts
from headrace.engine.bounds.mode import MICRO_BATCHES
from headrace.engine.bounds.wakeup import upstream_sources
from headrace.engine.dispatch.in_force import cut_in, strategies_in
from headrace.engine.engine import Engine
from headrace.engine.feedback.guards import Guard
from headrace.engine.observed import NO_BACKLOG
from headrace.engine.scheduling.in_force import fairness_of, shares_of, urgent_in
from headrace.errors import HostFault
from headrace.graph.demand import holds
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import Placement
from headrace.graph.stints import counterparts
from headrace.model.action import RaiseEvent
from headrace.model.page import Page, Punctuation
from headrace.model.parcels import Moved
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.stint import Stint
from headrace.model.streams import exchange_of, is_exchange_stream
from headrace.model.time import BEGIN, END, SECOND
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.reach import REACHES
from headrace.operators.multijoin.seen import BoxSeen
from headrace.operators.specs import Exchange, Receive
from headrace.worker.chunk_cache import ChunkCache
from headrace.worker.early_results import answer, early_results, rows_of
from headrace.worker.in_step import Steps
from headrace.worker.inbox import Inbox
from headrace.worker.moving import Moves, give, take_in
from headrace.worker.saved_state import VERSION, Extra, SavedState, Store
from headrace.worker.waits import timed_streams, waits
from headrace.worker.wire import BucketNote, GuardSeen, Kind, Report, Row, Stage, decode_page, encode

_running = msgspec.json.Decoder(Running)
#: Commands and settings for which the graph need not be deployed again.
_GRAPH_STAYS = (
    SendFeedback, UseRelays, UseShedders, SetPromises, UseCosts, ResetFrontier, RaiseTuples, Release, Steer, UseTree,
)  # fmt: skip
_GRAPH_STAYS_SET = (
    settings.ShedShare,
    settings.Scheduler,
    settings.Fairness,
    settings.Eligibility,
    settings.Budget,
    settings.Plan,
    settings.Optimizer,
    settings.MemoryLimit,
    settings.Balancing,
    settings.LocalPlans,
    settings.Grid,
)


#: In the first micro-batch of each such period, joins of several inputs report samples of their keys, in all buckets.
SAMPLED_EVERY = SECOND
#: The period if no plan may change by itself: then only people ask.
SAMPLED_SELDOM = 10 * SECOND


class Bucket:
    """The engine of one bucket and the record of what has been saved of it."""

    def __init__(self, number: int, cache: ChunkCache | None = None) -> None:
        self.number = number
        self.running = Running()
        self._ets = BatchEts()
        self.engine = Engine(Graph(), ets=self._ets, mode=MICRO_BATCHES)
        self.bounds: dict[str, int] = {}  # of streams
        self.time = BEGIN
        self.restored = False  # since the last micro-batch
        self.machine = ""  # on which it runs
        self._has_dropped = False  # queries that the store still has
        self._saved = SavedState(number, cache)
        self._placement = Placement(Graph(), Graph())
        self._steps = Steps(Graph())
        self._receives: dict[VertexId, Receive] = {}
        self._exchanges: dict[VertexId, VertexId] = {}  # by origin
        self._closed: frozenset[VertexId] = frozenset()  # entrances at which no further tuple comes
        self._raising: frozenset[VertexId] = frozenset()  # entrances of rules that raise events

    @staticmethod
    def restore(number: int, store: Store, cache: ChunkCache | None = None, rows: Iterable[Row] = ()) -> Bucket:
        """Rebuild a bucket from its store; a fresh one if nothing was ever saved.

        `rows` are those that it will run next: a query that they drop is not built.
        """
        bucket = Bucket(number, cache)
        if store.get(VERSION) is None:
            return bucket
        bucket.restored = True
        queries = bucket._saved.value("queries", store)
        if queries is None:
            raise _damaged("they are missing")
        bucket.running, placement, invariants = _known(queries, Inbox.of(rows).dropped())
        bucket._has_dropped = bool(Inbox.of(rows).dropped())
        with attributed(lambda: bucket.running):
            bucket._deploy(placement, invariants)
            state, extra = bucket._saved.load(store)
            bucket.bounds, bucket.time = extra.bounds, extra.time
            bucket.engine.restore(state)
            bucket.engine.resume(extra.engine)
        return bucket

    def can_run(self, store: Store, rows: Iterable[Row]) -> bool:
        """Return whether this bucket, which was kept, may run these rows; else it must be restored from its store.

        A query that they drop may have failed in here.
        """
        dropped = Inbox.of(rows).dropped()
        queries = (*self.running.working, *self.running.stopped)
        return self.version == store.get(VERSION) and not any(query.query in dropped for query in queries)

    @property
    def version(self) -> bytes | None:
        """The version of the store that this bucket agrees with."""
        return self._saved.version

    def run(self, rows: Iterable[Row], batch: int, store: Store, moves: Moves, stage: Stage | None = None) -> list[Row]:
        """Process one micro-batch and save what changed; returns the rows for the driver.

        `moves` has the parcels that change bucket. `stage` may take the pages of an end, to write them to a file and
        return a note of the place. An error in a vertex names the queries that it works for.
        """
        before = self.running
        with attributed(lambda: self.running, lambda: before):
            return self._run(rows, batch, store, moves, stage)

    def _run(self, rows: Iterable[Row], batch: int, store: Store, moves: Moves, stage: Stage | None) -> list[Row]:
        began, before = clock.perf_counter_ns(), self.time
        inbox = Inbox.of(rows)
        self.engine.begin(inbox.time, "bucket", self.number, batch)
        commands = inbox.commands()
        if self.version is None and inbox.running:
            self._join(inbox.running)
        self._drop(inbox.dropped())
        take_in(self.engine, self.number, inbox.moved(), moves)
        allotments, buckets = self.running.allotments, self.running.buckets
        self._command(commands)
        has_begun = self._begin(inbox.begun())
        self._advance(inbox)
        is_moving = moves_parcels(allotments, self.running.allotments) or self.running.buckets != buckets
        asked = self._work(inbox, is_moving=is_moving)
        self._release(commands)
        building = self.engine.advance_trees()
        answers, demands = answer(commands, self.number, self.engine, self.running.queries, list(self._receives))
        early = early_results(self.engine, self.running.queries)
        given: list[Moved] = []
        if is_moving:
            changes = allotments, self.running.allotments
            given = give(self.engine, self.number, batch, self._placement.lays, changes, moves)
        changed = bool(commands) or has_begun or self._has_dropped or self.version is None
        if self._leaves():
            self._saved.clear(store)
        else:
            self._save(batch, store, queries_changed=changed)
        self._has_dropped = False
        results = self.engine.take_results()
        for name, pages in early.items():
            results.setdefault(name, []).extend(pages)
        noticed = [name for name in self.running.watched() if results.pop(name, None)]
        out = [*inbox.staged, *self._results(results, stage), *answers]
        report = self._report(inbox, asked, noticed, clock.perf_counter_ns() - began)
        boxes = self._boxes(before, report)
        apart = {self.number: boxes} if boxes and self.running.has_local_plans else {}
        report = msgspec.structs.replace(
            report, boxes=boxes, apart=apart, building=building, moved=given, demands=demands
        )
        self.restored = False
        return [*out, Row(self.number, Kind.REPORT, "", 0, self.running.commands, encode(report))]

    def _join(self, running: bytes) -> None:
        """Begin in a deployment that has run without this bucket."""
        self.running, placement, invariants = _known(running, ())
        self._deploy(placement, invariants)
        for sent in self.running.feedback:
            self._feed_back(sent)

    def _leaves(self) -> bool:
        """Return whether nothing is left for this bucket; it may begin again later, with nothing."""
        return bool(self.running.buckets) and self.number not in self.running.all_buckets(())

    def close(self) -> None:
        """Release all state; operators and their parts refer to each other, so some stays for the garbage collector."""
        self._saved.close()
        self.engine.close()

    @property
    def stored_bytes(self) -> int:
        """The size of the large chunks."""
        return self._saved.stored_bytes

    def _drop(self, names: Iterable[str]) -> None:
        """Forget queries that were removed by a repair."""
        running = self.running
        for name in names:
            running = without(running, name)
        if running != self.running:
            self.running, self._has_dropped = running, True
            self._deploy(placement_of(running), invariants_in(running))

    def _command(self, commands: Sequence[Command]) -> None:
        """Apply the commands of a micro-batch; `run` meets demands at its end."""
        moved: dict[VertexId, VertexId] = {}  # to these vertices from those; several may have shared one
        for command in commands:
            before, self.running = self.running, self.running.after(command)
            if not set(before.deferrals) <= set(self.running.deferrals):
                # work that is deferred no longer is done before anything else changes
                undeferred = msgspec.structs.replace(before, deferrals=self.running.deferrals)
                self._deploy(placement_of(undeferred), invariants_in(undeferred))
            if isinstance(command, ResetFrontier):
                self.bounds.pop(command.stream, None)
            if isinstance(command, StopQuery):
                moved |= _moved(command, before, self.running)
        state = self.engine.state() if moved else {}
        if not all(map(_graph_stays, commands)):
            self._deploy(placement_of(self.running), invariants_in(self.running))
        elif not all(isinstance(command, SendFeedback | UseRelays) for command in commands):
            self._shed()
            self._schedule()
        # the vertices that others share go on for them; the stint that is to end starts from the same state
        self.engine.restore({new: state[old] for new, old in moved.items() if old in state})
        started = {command.stint.query for command in commands if isinstance(command, StartQuery)}
        started |= {command.query for command in commands if isinstance(command, StopQuery)}  # the next one takes over
        for sent in self.running.feedback:
            if sent.query in started:  # what was said about a query holds for its stints to come
                self._feed_back(sent)
        for command in commands:
            # one that came too late, or was followed by another, is not in force in any bucket
            if isinstance(command, UseTree) and self.running.tree_in(command.vertex, self.number) == command:
                self._use_tree(command)
        for command in commands:
            # feedback beyond the limit is not in force, so every bucket ignores the same
            if isinstance(command, SendFeedback) and command in self.running.feedback:
                self._feed_back(command)

    def _use_tree(self, change: UseTree) -> None:
        self.engine.use_tree(change.vertex, change.number, change.tree, change.how, change.portion)

    def _release(self, commands: Sequence[Command]) -> None:
        """Let queries that run on demand process what waits, if they are asked."""
        asked = {command.query for command in commands if isinstance(command, Release)}
        for vertex in (vertex for query in asked for vertex in holds(self.engine.graph, query)):
            self.engine.release(vertex)
        if asked:
            self.engine.run()

    def _boxes(self, before: int, report: Report) -> dict[VertexId, BoxSeen]:
        """Return what joins of several inputs did, now and then with samples of their keys."""
        period = SAMPLED_EVERY if self.running.may_change_plans else SAMPLED_SELDOM
        boxes = self.engine.boxes(sample=before // period < self.time // period)
        busy = {name: counts.busy_ns for name, counts in report.vertices.items()}
        return {name: msgspec.structs.replace(seen, busy_ns=busy.get(name, 0)) for name, seen in boxes.items()}

    def _begin(self, stints: Iterable[Stint]) -> bool:
        """Let stints begin whose tuples have come; return whether any is new."""
        running = self.running
        for stint in stints:
            running = running.begin(stint)
        if running.early == self.running.early:
            return False
        self.running = running
        self._deploy(placement_of(running), invariants_in(running))
        return True

    def _feed_back(self, command: SendFeedback) -> None:
        """Give feedback on a query's output to the engine, and what follows from it to exchanges."""
        for query in self.running.queries:
            if query.query == command.query and self.engine.runs(query.output):
                self.engine.feedback(query.output, command.feedback)
        if command.feedback.intent is Intent.ASSUMED and self._exchanges:
            for origin, pattern in spread_in(self.running, invariants_in(self.running)).unneeded:
                if origin in self._exchanges:
                    self.engine.feedback(self._exchanges[origin], Feedback(Intent.ASSUMED, pattern))

    def _deploy(self, placement: Placement, invariants: Mapping[VertexId, Invariants]) -> None:
        """Run the queries in force, each by the strategy it was given."""
        self.engine.use(placement.keyed, invariants)
        for vertex in {**self.running.trees, **self.running.local_trees}:  # that begin empty; others have taken it
            change = self.running.tree_in(vertex, self.number)
            if change is not None:
                self._use_tree(msgspec.structs.replace(change, how="moving"))
        self._placement = placement
        self._steps = Steps(placement.keyed)
        self._schedule()
        self._receives = {vertex.id: vertex.spec for vertex in placement.keyed if isinstance(vertex.spec, Receive)}
        self._exchanges = {
            origin: vertex.id
            for vertex in placement.keyed
            if isinstance(vertex.spec, Exchange) and (origin := exchange_of(vertex.id)) is not None
        }
        self._closed = closed_in(self.running)
        self._raising = _raising(self.running, placement)
        received = {stream for spec in self._receives.values() for stream in spec.streams}
        # an exchange that is added again, with its query, starts from the beginning
        self.bounds = {
            stream: bound
            for stream, bound in self.bounds.items()
            if stream in received or not is_exchange_stream(stream)
        }
        self.engine.use_strategies(*strategies_in(self.running), cut_in(self.running))
        self.engine.use_responses(REACHES[self.running.reach])
        self._shed()

    def _shed(self) -> None:
        """Use the shedders in force."""
        self.engine.use_shedders(place_shedders(self._placement, shedders_in(self.running)).keyed)

    def _schedule(self) -> None:
        """Use the schedulers in force, with the estimated costs of executions."""
        self.engine.use_costs(self.running.costs, urgent_in(self.running))
        self.engine.use_schedulers(shares_of(self.running, self.engine.graph), fairness_of(self.running))

    def _advance(self, inbox: Inbox) -> None:
        """Take over the time of the micro-batch and the bounds of streams."""
        self.time = self.time if inbox.time is None else inbox.time
        for control in inbox.controls:
            for stream, bound in control.bounds.items():
                self.bounds[stream] = max(bound, self.bounds.get(stream, BEGIN))
        for stream, lanes in inbox.lanes().items():
            self.bounds[stream] = max(min(lanes.values()), self.bounds.get(stream, BEGIN))

    def _work(self, inbox: Inbox, *, is_moving: bool) -> int:
        """Push pages and bounds through the engine, within the budget; returns how many bounds were asked for.

        Before parcels change bucket all work is done, and time is as late in every bucket as it is in any.
        """
        # under a budget the choice is among all the input, so it must be there first; without one all of it is
        # processed anyway, and page by page the least waits in between
        budget = None if is_moving else inbox.budget
        at_once = budget is None
        pages = ((row.name, decode_page(row)) for row in inbox.pages if row.name in self._receives)
        for name, page in self._steps.order(list(pages)) if self._steps.entrances else pages:
            self.engine.push(name, page)
            if at_once:
                self.engine.run()
        for name, bound in self._reached(self.bounds):
            self.engine.push(name, Punctuation(bound))
        for name in self._receives:
            if name in self._closed:
                self.engine.push(name, Punctuation(END))
        if is_moving:
            self.engine.run()
            self.engine.release_all()
        rest = self.engine.run(budget)
        # urgent vertices have finished whatever the budget, so they may ask although others have a backlog
        is_done = budget is None or self.engine.urgent or not self.engine.backlog().tuples
        return self._ask(inbox.clocks(), rest, of_all=is_moving) if is_done else 0

    def _reached(self, bounds: Mapping[str, int]) -> Iterator[tuple[VertexId, int]]:
        """Yield the bound of each Receive that is not closed, given those of streams."""
        for name, spec in self._receives.items():
            if name in self._closed:
                continue
            bound = min((bounds.get(stream, BEGIN) for stream in spec.streams), default=BEGIN)
            if bound > BEGIN:
                yield name, bound

    def _ask(self, clocks: Mapping[str, int], budget: float | None, *, of_all: bool) -> int:
        """Use the bounds of silent streams by the clock where tuples are held back; return how many bounds were new."""
        if not clocks:
            return 0
        before = self.engine.asked
        reached = {
            stream: max(bound, clocks.get(stream, BEGIN))
            for stream, bound in (dict.fromkeys(clocks, BEGIN) | self.bounds).items()
        }
        self._ets.bounds = dict(self._reached(reached))
        for name in self._ets.bounds:
            if of_all or name in self._raising or self.engine.waits_for_time(name):
                self.engine.ask(name)
        self.engine.run(budget)
        self._ets.bounds = {}  # the tuples of the next micro-batch come first
        return self.engine.asked - before

    def _results(self, results: Mapping[VertexId, Sequence[Page]], stage: Stage | None) -> Iterator[Row]:
        """Yield the results of each end, or a note of where they are staged."""
        for name, pages in results.items():
            staged = stage(self.number, name, pages) if stage is not None else None
            if staged is not None:
                yield from staged
            else:
                yield from rows_of(self.number, Kind.RESULT, name, pages)

    def _save(self, batch: int, store: Store, *, queries_changed: bool) -> None:
        extra = Extra(bounds=self.bounds, time=self.time, engine=self.engine.remembered())
        others = {"queries": lambda: msgspec.json.encode(self.running)} if queries_changed else {}
        self._saved.save(batch, store, self.engine.state(), extra, others)

    def _report(self, inbox: Inbox, asked: int, noticed: list[VertexId], busy_ns: int) -> Report:
        """Return what the driver must know of this micro-batch, and pass on what the ingest tasks counted."""
        observed, sizes = self.engine.observe(), self._saved.sizes()
        backlog = self.engine.backlog() if inbox.budget is not None else NO_BACKLOG
        for name, statistics in observed.vertices.items():
            statistics.state_bytes = sizes.get(name, 0)
        note = BucketNote(
            self.number,
            operators_ns=sum(counts.busy_ns for counts in observed.vertices.values()),
            relays=_relays(observed.guards),
            guards=list(map(_guard_seen, observed.guards)),
            ended=list(map(_guard_seen, observed.ended)),
            state_bytes=sum(sizes.values()),
            cached_bytes=self._saved.cached_bytes,
            machine=self.machine,
            restored=self.restored,
        )
        return Report(
            buckets=[note],
            time=self.time,
            arrived=inbox.arrived(),
            behind=inbox.behind(),
            unread_input=inbox.unread(),
            bounds=observed.bounds,
            vertices=observed.vertices,
            tasks=[control.counts for control in inbox.controls if control.counts is not None],
            waits=waits(self.engine, self.running.queries, self._receives),
            asked=asked,
            purged=observed.purged,
            noticed=noticed,
            begun=[early.stint for early in self.running.early if early.stint is not None],
            reached=timed_streams(self.running.known, self.bounds, inbox.clocks()),
            state_bytes=sum(sizes.values()),
            chunks=len(self._saved),
            restored=self.restored,
            busy_ns=busy_ns,
            shed=list(observed.shed),
            unread=backlog.tuples,
            waiting=backlog.since,
            queues=observed.queues,
        )


def _graph_stays(command: Command) -> bool:
    """Return whether a command leaves the graph, its dispatch and its guards as they are."""
    return isinstance(command, _GRAPH_STAYS) or (
        isinstance(command, Set) and isinstance(command.setting, _GRAPH_STAYS_SET)
    )


def _raising(running: Running, placement: Placement) -> frozenset[VertexId]:
    """Return the entrances of rules that raise events: others may wait for the time of these."""
    sources = upstream_sources(placement.keyed)
    outputs = [
        query.output
        for query in running.queries
        if query.reaction is not None and any(isinstance(action, RaiseEvent) for action in query.reaction.actions)
    ]
    return frozenset(source for output in outputs for source in sources.get(output, ()))


def _moved(command: StopQuery, before: Running, after: Running) -> dict[VertexId, VertexId]:
    """Return the vertices of a stint that was shared and is now to end, and which go on there under another name."""
    old = next(
        (query for query in before.queries if (query.query, query.number) == (command.query, command.number)), None
    )
    new = (
        None
        if old is None or old.stint is not None
        else next((query for query in after.ending if query.query == command.query), None)
    )
    return {} if old is None or new is None else counterparts(new.graph, old.graph)


def _guard_seen(guard: Guard) -> GuardSeen:
    return GuardSeen(guard.reader, str(guard.pattern), guard.until, guard.saved)


def _relays(guards: Iterable[Guard]) -> list[Relay]:
    """Return what the operators of this bucket found that they do not need."""
    return [Relay(guard.reader, guard.port, guard.pattern, guard.until) for guard in guards if guard.kind == "group"]


@lru_cache(maxsize=4)
def _known(queries: bytes, dropped: tuple[str, ...]) -> tuple[Running, Placement, dict[VertexId, Invariants]]:
    """Return saved queries, their placement and invariants; a worker restores many buckets of one deployment."""
    try:
        running = _running.decode(queries)
    except ValueError as error:  # DecodeError is one
        raise _damaged(error) from error
    for name in dropped:
        running = without(running, name)
    return running, placement_of(running), invariants_in(running)


def _damaged(why: object) -> HostFault:
    return HostFault(
        f"the queries of a bucket are damaged: {why}",
        hint="restore the checkpoint from a copy, or start with a new one",
    )
