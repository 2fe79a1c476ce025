"""One bucket's share of a micro-batch: restore, take commands, pages and bounds, work to quiescence, save what changed.

The state store is the truth. A bucket that is kept in memory after a micro-batch may be used again only if the store's version is the one it wrote.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from headrace.elements.feedback import Feedback, Intent
from headrace.elements.page import Page, Punctuation
from headrace.elements.time import BEGIN
from headrace.graph.command import Command, Relay, Running, SetPromises, SetShedding, Tell, UseRelays, UseShedders, decode_command
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import Placement
from headrace.graph.shedding import place_shedders, shedders_in
from headrace.graph.whole import facts_in, placement_of, spread_in
from headrace.operators.feedback.facts import Facts
from headrace.operators.feedback.reach import REACHES
from headrace.operators.specs import Exchange, Receive
from headrace.runtime.assumptions import Guard
from headrace.runtime.chunk_cache import ChunkCache
from headrace.runtime.engine import Engine
from headrace.runtime.ets import BatchEts
from headrace.runtime.saved_state import Extra, SavedState, Store
from headrace.runtime.wakeup import upstream_sources
from headrace.runtime.wire import Control, GuardSeen, Kind, Report, Row, Stage, Wait, decode_control, encode

_running = msgspec.json.Decoder(Running)


class Bucket:
    """The engine of one bucket and what of it has been saved."""

    def __init__(self, number: int, cache: ChunkCache | None = None) -> None:
        self.number = number
        self._saved = SavedState(number, cache)
        self.running = Running()
        self._ets = BatchEts()
        self.engine = Engine(Graph(), ets=self._ets, registers=True)
        self.bounds: dict[str, int] = {}  # of streams
        self._receives: dict[VertexId, Receive] = {}
        self._behind: dict[VertexId, list[VertexId]] = {}  # what is fed by each Receive
        self._exchanges: set[VertexId] = set()
        self._placement = Placement(Graph(), Graph())
        self.time = BEGIN
        self.restored = False

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
        bucket.engine.restore_guards(extra.guards)
        bucket.engine.shedders.restore(extra.shedders)
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
        for row in ordered:
            if row.kind is Kind.PAGE and row.name in self.engine.operators:
                self.engine.push(row.name, Page.decode(row.payload))
                self.engine.hurry(row.name)
                self.engine.run()
        for name, bound in self._reached(self.bounds):
            self.engine.push(name, Punctuation(bound))
        self.engine.run()
        asked = self._ask(controls)
        for command in commands:
            if isinstance(command, Tell) and command.feedback.intent is Intent.DEMANDED:
                self._tell(command)
        self._save(version, store, queries_changed=bool(commands) or self.version is None)
        out = [row for row in ordered if row.kind is Kind.STAGED]
        for name, pages in self.engine.take_results().items():
            staged = stage(self.number, name, pages) if stage is not None else None
            if staged is not None:
                out.append(staged)
            else:
                out += [Row(self.number, Kind.RESULT, name, index, len(page), page.encode()) for index, page in enumerate(pages)]
        for name, pages in self.engine.take_partials().items():
            out += [Row(self.number, Kind.PARTIAL, name, index, len(page), page.encode()) for index, page in enumerate(pages)]
        out.append(
            Row(self.number, Kind.REPORT, "", 0, self.running.commands, encode(self._report(controls, asked, clock.perf_counter_ns() - began)))
        )
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
        for command in commands:
            self.running = self.running.after(command)
        if not all(isinstance(command, Tell | UseRelays | UseShedders | SetShedding | SetPromises) for command in commands):
            self._deploy(placement_of(self.running), facts_in(self.running))
        elif any(isinstance(command, UseShedders | SetShedding | SetPromises) for command in commands):
            self._shed()  # the graph stays as it is
        for command in commands:
            if isinstance(command, Tell) and command.feedback.intent is not Intent.DEMANDED:
                self._tell(command)
        return commands

    def _tell(self, told: Tell) -> None:
        for query in self.running.queries:
            if query.query == told.query and query.output in self.engine.operators:
                self.engine.feedback(query.output, told.feedback)
        if told.feedback.intent is Intent.ASSUMED and self._exchanges:
            origins = {name.removeprefix("exchange-"): name for name in self._exchanges}
            for origin, wanted in spread_in(self.running, facts_in(self.running)).unneeded:
                if origin in origins:
                    self.engine.feedback(origins[origin], Feedback(Intent.ASSUMED, wanted))

    def _deploy(self, placement: Placement, facts: Mapping[VertexId, Facts]) -> None:
        """Run the queries in force, each by the strategy it was given."""
        self.engine.assumptions.know(facts)
        self.engine.use(placement.keyed)
        self._receives = {vertex.id: vertex.spec for vertex in placement.keyed if isinstance(vertex.spec, Receive)}
        self._exchanges = {vertex.id for vertex in placement.keyed if isinstance(vertex.spec, Exchange)}
        self._behind = {name: [] for name in self._receives}
        for behind, sources in upstream_sources(placement.keyed).items():
            for name in sources:
                self._behind[name].append(behind)
        whole = next((chosen.strategy for chosen in self.running.strategies if chosen.query is None), "dfs")
        own: dict[VertexId, str] = {}
        for chosen in self.running.strategies:
            if chosen.query is not None:
                own |= dict.fromkeys(self.running.own(chosen.query), chosen.strategy)
        self.engine.use_strategies(whole, own)
        cut: set[VertexId] = set()
        for breaks in sorted(self.running.breaks, key=lambda breaks: breaks.query is not None):
            vertices = self.running.own(breaks.query)
            cut = cut | vertices if breaks.where == "everywhere" else cut - vertices
        self.engine.use_breaks(cut)
        self.engine.assumptions.answer = REACHES[self.running.feedback.reach]
        self._placement = placement
        self._shed()

    def _shed(self) -> None:
        """Drop what is to be dropped from now on."""
        self.engine.use_shedders(place_shedders(self._placement, shedders_in(self.running)).keyed)

    def _advance_bounds(self, controls: list[Control]) -> None:
        for control in controls:
            if control.time is not None:
                self.time = control.time
            for stream, bound in control.bounds.items():
                self.bounds[stream] = max(bound, self.bounds.get(stream, BEGIN))

    def _reached(self, bounds: Mapping[str, int]) -> Iterator[tuple[VertexId, int]]:
        """How far each Receive has come if its streams have come to these bounds."""
        for name, spec in self._receives.items():
            bound = min((bounds.get(stream, BEGIN) for stream in spec.streams), default=BEGIN)
            if bound > BEGIN:
                yield name, bound

    def _ask(self, controls: list[Control]) -> int:
        """Where tuples are held, ask the streams that are silent how far the clock has brought them; returns how many said something new."""
        clocks = {stream: bound for control in controls for stream, bound in control.clocks.items()}
        if not clocks:
            return 0
        before = self.engine.asked
        reached = {stream: max(bound, clocks.get(stream, BEGIN)) for stream, bound in (dict.fromkeys(clocks, BEGIN) | self.bounds).items()}
        self._ets.bounds = dict(self._reached(reached))
        for name in self._ets.bounds:
            if any(self._waits_for_time(behind) for behind in self._behind[name]):
                self.engine.ask(name)
        self.engine.run()
        self._ets.bounds = {}  # the tuples of the next micro-batch come first
        return self.engine.asked - before

    def _waits_for_time(self, vertex: VertexId) -> bool:
        """Whether a vertex holds tuples, or those behind an exchange may: they hear of time through it alone."""
        return vertex in self._exchanges or self.engine.operators[vertex].held() > 0 or self.engine.network.blocked(vertex)

    def _waits(self) -> list[Wait]:
        """What waits for time: for each set of streams the least bound that would let something go on."""
        least: dict[tuple[str, ...], int] = {}
        for sources, bound in self.engine.waits():
            streams = tuple(sorted({stream for name in sources for stream in self._receives[name].streams}))
            least[streams] = min(bound, least.get(streams, bound))
        return [Wait(bound, streams) for streams, bound in least.items()]

    def _save(self, version: int, store: Store, *, queries_changed: bool) -> None:
        ends = {name: bound for name in self.engine.ends if (bound := self.engine.bounds[name]) > BEGIN}
        extra = Extra(self.bounds, self.time, ends, self.engine.guards(), self.engine.shedders.remembered())
        others = {"queries": lambda: msgspec.json.encode(self.running)} if queries_changed else {}
        self._saved.save(version, store, self.engine.state(), extra, others)

    def _report(self, controls: list[Control], asked: int, busy_ns: int) -> Report:
        vertices = self.engine.observe()
        sizes = self._saved.sizes()
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
            guards=[_seen(guard) for guard in self.engine.guards()],
            ended=[_seen(guard) for guard in self.engine.assumptions.take_ended()],
            screened=[control.guards for control in controls if control.guards is not None],
            purged=self.engine.assumptions.take_purged(),
            relays=[Relay(guard.reader, guard.port, guard.pattern, guard.until) for guard in self.engine.guards() if guard.kind == "group"],
            state_bytes=sum(sizes.values()),
            chunks=len(self._saved),
            restored=self.restored,
            busy_ns=busy_ns,
            shed=[*self.engine.shedders.take_counts(), *(seen for control in controls for seen in control.shed or ())],
        )


def _seen(guard: Guard) -> GuardSeen:
    return GuardSeen(guard.reader, str(guard.pattern), guard.until, guard.saved)


@lru_cache(maxsize=4)
def _known(queries: bytes) -> tuple[Running, Placement, dict[VertexId, Facts]]:
    """Saved queries, where they run and what is known of them; a worker restores buckets of the same deployment again and again."""
    running = _running.decode(queries)
    return running, placement_of(running), facts_in(running)
