"""One bucket's share of a micro-batch: restore, take commands, pages and bounds, work to quiescence, save what changed.

The state store is the truth. A bucket that is kept in memory after a micro-batch may be used again only if the store's version is the one it wrote.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from headrace.commands import settings
from headrace.commands.command import (
    Command,
    Relay,
    SendFeedback,
    Set,
    SetPromises,
    StopQuery,
    UseCosts,
    UseRelays,
    UseShedders,
    decode_command,
)
from headrace.commands.running import Running
from headrace.commands.running_graph import closed_in, facts_in, placement_of, spread_in
from headrace.commands.shedders_in_force import place_shedders, shedders_in
from headrace.engine.bounds.ets import BatchEts
from headrace.engine.bounds.wakeup import upstream_sources
from headrace.engine.engine import Engine
from headrace.engine.feedback.guards import Guard
from headrace.engine.scheduling.in_force import fairness_of, shares_of, urgent_in
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import Placement
from headrace.graph.stints import counterparts
from headrace.model.page import Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.streams import exchange_of, is_exchange_stream
from headrace.model.time import BEGIN, END
from headrace.operators.feedback.known_facts import Facts
from headrace.operators.feedback.reach import REACHES
from headrace.operators.specs import Exchange, Receive
from headrace.worker.chunk_cache import ChunkCache
from headrace.worker.saved_state import Extra, SavedState, Store
from headrace.worker.wire import Control, GuardSeen, Kind, Report, Row, Stage, Wait, decode_control, encode

_running = msgspec.json.Decoder(Running)
#: Commands and settings for which the graph need not be deployed again.
_GRAPH_STAYS = (SendFeedback, UseRelays, UseShedders, SetPromises, UseCosts)
_GRAPH_STAYS_SET = (settings.ShedShare, settings.Scheduler, settings.Fairness, settings.Eligibility)


class Bucket:
    """The engine of one bucket and what of it has been saved."""

    def __init__(self, number: int, cache: ChunkCache | None = None) -> None:
        self.number = number
        self._saved = SavedState(number, cache)
        self.running = Running()
        self._ets = BatchEts()
        self.engine = Engine(Graph(), ets=self._ets, registers=True, folds=True)
        self.bounds: dict[str, int] = {}  # of streams
        self._receives: dict[VertexId, Receive] = {}
        self._behind: dict[VertexId, list[VertexId]] = {}  # what is fed by each Receive
        self._exchanges: set[VertexId] = set()
        self._placement = Placement(Graph(), Graph())
        self._closed: frozenset[VertexId] = frozenset()  # no tuple enters here any more
        self.time = BEGIN
        self.restored = False
        self._limited = False  # by a budget, in the last micro-batch

    @staticmethod
    def restore(number: int, store: Store, cache: ChunkCache | None = None) -> Bucket:
        """Rebuild a bucket from its store; a fresh one if nothing was ever saved."""
        bucket = Bucket(number, cache)
        if store.version() is None:
            return bucket
        bucket.restored = True
        bucket.running, placement, facts = _known(store.get("queries"))
        bucket._deploy(placement, facts)
        state, extra = bucket._saved.load(store)
        bucket.bounds, bucket.time = extra.bounds, extra.time
        bucket.engine.bounds.update({name: bound for name, bound in extra.ends.items() if name in bucket.engine.bounds})
        bucket.engine.restore(state)
        bucket.engine.guards.restore(extra.guards)
        bucket.engine.shedders.restore(extra.shedders)
        bucket.engine.restore_owed(extra.owed)
        bucket.engine.turns = extra.turns
        bucket.engine.desires.restore(extra.desires)
        return bucket

    @property
    def version(self) -> int | None:
        """The version of the store that this bucket agrees with."""
        return self._saved.version

    def run(self, rows: Iterable[Row], version: int, store: Store, stage: Stage | None = None) -> list[Row]:
        """Do one micro-batch and save; returns what goes to the driver. `stage` may take pages of an end off our hands and return a note of where."""
        began = clock.perf_counter_ns()
        ordered = sorted(rows, key=lambda row: (row.kind, row.part))
        controls = [decode_control(row.payload) for row in ordered if row.kind is Kind.CONTROL]
        self.engine.shedders.begin("bucket", self.number, version)
        commands = self._command(controls)
        self._advance_bounds(controls)
        budget = next((control.budget for control in controls if control.budget is not None), None)
        chooses = (
            budget is not None or self.engine.scheduled is not None
        )  # among all that has come, so all must be there first
        for row in ordered:
            if row.kind is Kind.PAGE and row.name in self.engine.operators:
                self.engine.push(row.name, Page.decode(row.payload))
                self.engine.desires.hurry(row.name)
                if not chooses:
                    self.engine.run()
        for name, bound in self._reached(self.bounds):
            self.engine.push(name, Punctuation(bound))
        for name in self._closed & self._receives.keys():
            self.engine.push(name, Punctuation(END))
        left = self.engine.run(budget)
        is_done = (
            budget is None or self.engine.urgent or not self.engine.unread()[0]
        )  # what must be quick is, whatever waits
        asked = self._ask(controls, left) if is_done else 0
        self._limited = budget is not None
        for command in commands:
            if isinstance(command, SendFeedback) and command.feedback.intent is Intent.DEMANDED:
                self._tell(command)
        self._save(version, store, queries_changed=bool(commands) or self.version is None)
        out = [row for row in ordered if row.kind is Kind.STAGED]
        results = self.engine.take_results()
        noticed = [name for name in self.running.watched() if results.pop(name, None)]
        for name, pages in results.items():
            staged = stage(self.number, name, pages) if stage is not None else None
            if staged is not None:
                out.append(staged)
            else:
                out += [
                    Row(self.number, Kind.RESULT, name, index, len(page), page.encode())
                    for index, page in enumerate(pages)
                ]
        for name, pages in self.engine.take_partials().items():
            out += [
                Row(self.number, Kind.PARTIAL, name, index, len(page), page.encode())
                for index, page in enumerate(pages)
            ]
        report = self._report(controls, asked, noticed, clock.perf_counter_ns() - began)
        out.append(Row(self.number, Kind.REPORT, "", 0, self.running.commands, encode(report)))
        self.restored = False
        return out

    def close(self) -> None:
        """Let go of all state; operators and their parts refer to each other, so some stays until Python collects garbage."""
        self._saved.close()
        self.engine.close()

    @property
    def stored_bytes(self) -> int:
        """The size of the large chunks."""
        return self._saved.stored_bytes

    def _command(self, controls: list[Control]) -> list[Command]:
        """Take the commands of a micro-batch; what readers demand now is met at its end."""
        commands = [decode_command(data) for control in controls for data in control.commands]
        moved: dict[VertexId, VertexId] = {}
        for command in commands:
            before, self.running = self.running, self.running.after(command)
            if not set(before.deferrals) <= set(
                self.running.deferrals
            ):  # what was put off is done before anything else changes
                undeferred = msgspec.structs.replace(before, deferrals=self.running.deferrals)
                self._deploy(placement_of(undeferred), facts_in(undeferred))
            if isinstance(command, StopQuery):
                moved |= _moved(command, before, self.running)
        state = self.engine.state() if moved else {}
        if not all(map(_graph_stays, commands)):
            self._deploy(placement_of(self.running), facts_in(self.running))
        elif not all(isinstance(command, SendFeedback | UseRelays) for command in commands):
            self._shed()
            self._schedule()
        # what others may share goes on for them; the stint that is to end has the same state for itself
        self.engine.restore({new: state[old] for old, new in moved.items() if old in state})
        for command in commands:
            if isinstance(command, SendFeedback) and command in self.running.feedback:  # what is ignored, is so by all
                self._tell(command)
        return commands

    def _tell(self, told: SendFeedback) -> None:
        for query in self.running.queries:
            if query.query == told.query and query.output in self.engine.operators:
                self.engine.feedback(query.output, told.feedback)
        if told.feedback.intent is Intent.ASSUMED and self._exchanges:
            origins = {exchange_of(name): name for name in self._exchanges}
            for origin, wanted in spread_in(self.running, facts_in(self.running)).unneeded:
                if origin in origins:
                    self.engine.feedback(origins[origin], Feedback(Intent.ASSUMED, wanted))

    def _deploy(self, placement: Placement, facts: Mapping[VertexId, Facts]) -> None:
        """Run the queries in force, each by the strategy it was given."""
        self.engine.guards.use_facts(facts)
        self.engine.use(placement.keyed)
        self._schedule()
        self._receives = {vertex.id: vertex.spec for vertex in placement.keyed if isinstance(vertex.spec, Receive)}
        self._exchanges = {vertex.id for vertex in placement.keyed if isinstance(vertex.spec, Exchange)}
        self._closed = closed_in(self.running)
        received = {stream for spec in self._receives.values() for stream in spec.streams}
        # an exchange that comes again, with a query that does, begins anew
        self.bounds = {
            stream: bound
            for stream, bound in self.bounds.items()
            if stream in received or not is_exchange_stream(stream)
        }
        self._behind = {name: [] for name in self._receives}
        for behind, sources in upstream_sources(placement.keyed).items():
            for name in sources:
                self._behind[name].append(behind)
        strategies = {query: chosen.name for query, chosen in self.running.strategies.items()}
        whole = strategies.pop(None, "dfs")
        own: dict[VertexId, str] = {}
        for query, strategy in strategies.items():
            own |= dict.fromkeys(self.running.own(query), strategy)
        self.engine.dispatch.use_strategies(whole, own)
        cut: set[VertexId] = set()
        for query, breaks in sorted(self.running.breaks.items(), key=lambda item: item[0] is not None):
            vertices = self.running.own(query)
            cut = cut | vertices if breaks.where == "everywhere" else cut - vertices
        self.engine.dispatch.use_breaks(cut)
        self.engine.guards.answer = REACHES[self.running.reach]
        self._placement = placement
        self._shed()

    def _shed(self) -> None:
        """Drop what is to be dropped from now on."""
        self.engine.use_shedders(place_shedders(self._placement, shedders_in(self.running)).keyed)

    def _schedule(self) -> None:
        """Let those run first whom the schedulers in force choose, by what executions are said to cost."""
        self.engine.use_costs(self.running.costs)
        self.engine.urgent = urgent_in(self.running)
        self.engine.use_schedulers(shares_of(self.running, self.engine.graph), fairness_of(self.running))

    def _advance_bounds(self, controls: list[Control]) -> None:
        for control in controls:
            if control.time is not None:
                self.time = self.engine.time = control.time
            for stream, bound in control.bounds.items():
                self.bounds[stream] = max(bound, self.bounds.get(stream, BEGIN))

    def _reached(self, bounds: Mapping[str, int]) -> Iterator[tuple[VertexId, int]]:
        """How far each Receive has come if its streams have come to these bounds."""
        for name, spec in self._receives.items():
            bound = min((bounds.get(stream, BEGIN) for stream in spec.streams), default=BEGIN)
            if bound > BEGIN:
                yield name, bound

    def _ask(self, controls: list[Control], budget: float | None) -> int:
        """Where tuples are held, ask the streams that are silent how far the clock has brought them; returns how many said something new."""
        clocks = {stream: bound for control in controls for stream, bound in control.clocks.items()}
        if not clocks:
            return 0
        before = self.engine.asked
        reached = {
            stream: max(bound, clocks.get(stream, BEGIN))
            for stream, bound in (dict.fromkeys(clocks, BEGIN) | self.bounds).items()
        }
        self._ets.bounds = dict(self._reached(reached))
        for name in self._ets.bounds:
            if any(self._waits_for_time(behind) for behind in self._behind[name]):
                self.engine.ask(name)
        self.engine.run(budget)
        self._ets.bounds = {}  # the tuples of the next micro-batch come first
        return self.engine.asked - before

    def _waits_for_time(self, vertex: VertexId) -> bool:
        """Whether a vertex holds tuples, or those behind an exchange may: they hear of time through it alone."""
        return (
            vertex in self._exchanges or self.engine.operators[vertex].held() > 0 or self.engine.network.blocked(vertex)
        )

    def _waits(self) -> list[Wait]:
        """What waits for time: for each set of streams the least bound that would let something go on."""
        least: dict[tuple[str, ...], int] = {}
        for sources, bound in self.engine.waits():
            streams = tuple(sorted({stream for name in sources for stream in self._receives[name].streams}))
            least[streams] = min(bound, least.get(streams, bound))
        return [Wait(bound, streams) for streams, bound in least.items()] + [
            Wait(query.stint.end, tuple(stream.name for stream in query.streams), anyhow=True)
            for query in self.running.queries
            if query.stint is not None and query.stint.end < END
        ]

    def _come(self, controls: list[Control]) -> dict[str, int]:
        """How far the streams have come, for queries that stop at a time; one that never had a tuple has come as far as the clock."""
        timed = [
            query
            for query in self.running.known
            if query.activation.schedule is not None or (query.stint is not None and query.stint.end < END)
        ]
        clocks = {stream: bound for control in controls for stream, bound in control.clocks.items()}
        return {
            stream.name: max(self.bounds.get(stream.name, self.time - stream.skew), clocks.get(stream.name, BEGIN))
            for query in timed
            for stream in query.streams
        }

    def _save(self, version: int, store: Store, *, queries_changed: bool) -> None:
        ends = {name: bound for name in self.engine.ends if (bound := self.engine.bounds[name]) > BEGIN}
        engine = self.engine
        kept = engine.shedders.remembered(), dict(engine.owed), engine.turns, engine.desires.in_force()
        extra = Extra(self.bounds, self.time, ends, engine.guards.in_force(), *kept)
        others = {"queries": lambda: msgspec.json.encode(self.running)} if queries_changed else {}
        self._saved.save(version, store, self.engine.state(), extra, others)

    def _report(self, controls: list[Control], asked: int, noticed: list[VertexId], busy_ns: int) -> Report:
        vertices = self.engine.observe()
        sizes = self._saved.sizes()
        unread, waiting = self.engine.unread() if self._limited else (0, {})
        for name, seen in vertices.items():
            seen.state_bytes = sizes.get(name, 0)
        return Report(
            bucket=self.number,
            time=self.time,
            arrived={name: came for control in controls for name, came in control.arrived.items()},
            bounds={name: self.engine.bounds[name] for name in self.engine.ends},
            vertices=vertices,
            streams=[control.streams for control in controls if control.streams is not None],
            ingest=[control.ingest for control in controls if control.ingest is not None],
            waits=self._waits(),
            asked=asked,
            guards=[_seen(guard) for guard in self.engine.guards.in_force()],
            ended=[_seen(guard) for guard in self.engine.guards.take_ended()],
            screened=[control.guards for control in controls if control.guards is not None],
            purged=self.engine.guards.take_purged(),
            noticed=noticed,
            reached=self._come(controls),
            relays=[
                Relay(guard.reader, guard.port, guard.pattern, guard.until)
                for guard in self.engine.guards.in_force()
                if guard.kind == "group"
            ],
            state_bytes=sum(sizes.values()),
            chunks=len(self._saved),
            restored=self.restored,
            busy_ns=busy_ns,
            ingest_ns=[control.busy_ns for control in controls if control.busy_ns],
            shed=[*self.engine.shedders.take_counts(), *(seen for control in controls for seen in control.shed or ())],
            unread=unread,
            waiting=waiting,
        )


def _graph_stays(command: Command) -> bool:
    """Return whether a command leaves the graph, its dispatch and its guards as they are."""
    return isinstance(command, _GRAPH_STAYS) or (
        isinstance(command, Set) and isinstance(command.setting, _GRAPH_STAYS_SET)
    )


def _moved(command: StopQuery, before: Running, after: Running) -> dict[VertexId, VertexId]:
    """Which vertices go on under another name in a stint that was shared and is now to end."""
    old = next(
        (query for query in before.queries if (query.query, query.number) == (command.query, command.number)), None
    )
    new = (
        None
        if old is None or old.stint is not None
        else next((query for query in after.ending if query.query == command.query), None)
    )
    return {} if old is None or new is None else counterparts(old.graph, new.graph)


def _seen(guard: Guard) -> GuardSeen:
    return GuardSeen(guard.reader, str(guard.pattern), guard.until, guard.saved)


@lru_cache(maxsize=4)
def _known(queries: bytes) -> tuple[Running, Placement, dict[VertexId, Facts]]:
    """Saved queries, where they run and what is known of them; a worker restores buckets of the same deployment again and again."""
    running = _running.decode(queries)
    return running, placement_of(running), facts_in(running)
