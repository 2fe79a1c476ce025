"""Runs one graph in one process, step by step, deterministically.

The two-step cycle of the query-graph model: execute the current operator on one element of its input, then choose the next by the rule in its row
of the dispatch table. Depth first is the default: what was produced goes on towards the output before anything new is begun.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.commands.command import Cost, ShedAt
from headrace.engine.bounds.bounds import Promises
from headrace.engine.bounds.ets import Ets
from headrace.engine.bounds.wakeup import ends_behind, next_wakeup, upstream_sources, waits
from headrace.engine.dispatch.cycle import Cycle, Visit
from headrace.engine.dispatch.strategies import Dispatch
from headrace.engine.feedback.desires import Desires, leading_to, results_now
from headrace.engine.feedback.guards import Guards
from headrace.engine.network import Network
from headrace.engine.observed import Backlog, Observed
from headrace.engine.remembered import Remembered
from headrace.engine.scheduling.master import Scheduled, Share, Turns
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.units import assumed_cost, costs_with_all_behind
from headrace.engine.shedding.shedders import Shedders
from headrace.engine.statistics import VertexStatistics
from headrace.engine.unread import MARK, Unread
from headrace.errors import HeadraceError, InternalError, OperatorFault
from headrace.graph.feedback import Respond, tap_of
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.graph.naming import Names
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.capabilities import Speaking, held_by, late_at
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.response import respond
from headrace.operators.operator import Operator, State
from headrace.operators.specs import Exchange, Output

Kind: TypeAlias = Literal["page", "punctuation", "register"]


@dataclass(frozen=True, slots=True)
class Step:
    """What was executed: a page of so many tuples, a punctuation, or only the registers of a merging operator."""

    vertex: VertexId
    kind: Kind
    tuples: int = 0


class Engine:
    """The operators of a graph and the arcs between them. Same graph, strategy and calls: same steps.

    `ets` answers for silent sources when a merging operator is blocked. `registers` lets bounds pass from register to register instead of as
    punctuation; `absorb` folds a punctuation into the register as soon as it is at the head (else it is taken in turn, like a tuple).
    `folds` keeps only the last of several promises in a row that nobody has read.
    Without `relaxed` a merging operator waits until all of its inputs have a tuple, however far they have come: the plain merge, for comparison.
    """

    def __init__(
        self,
        graph: Graph,
        strategy: str = "dfs",
        *,
        taps: Iterable[VertexId] = (),
        ets: Ets | None = None,
        registers: bool = False,
        absorb: bool = True,
        keep_late: bool = False,
        relaxed: bool = True,
        folds: bool = False,
        answer: Respond = respond,
    ) -> None:
        self.taps = frozenset(taps)  # vertices whose pages are wanted besides being passed on
        self.ets = ets
        self.operators: dict[VertexId, Operator] = {}
        self.statistics: dict[VertexId, VertexStatistics] = {}
        self.bounds: dict[VertexId, int] = {}  # newest promise of each vertex's output
        self.results: dict[VertexId, list[Page]] = {}  # what reached Output and Exchange vertices
        self.graph = Graph()
        self.ends: set[VertexId] = set()
        self.network = Network(absorb=absorb, keep_late=keep_late, relaxed=relaxed, folds=folds)
        self.time = BEGIN  # when what enters now arrived
        self.costs: dict[VertexId, Cost] = {}
        self.urgent: frozenset[VertexId] = frozenset()  # what no budget holds up: all before these is urgent, too
        self._costs_with_all_behind: dict[VertexId, float] = {}
        self._unread = Unread()
        self.partials: dict[VertexId, list[Page]] = {}  # what was demanded before it was final
        self.guards = Guards(self.network, self.operators, self.bounds, answer)
        self.network.screen = self.guards.screen
        self.shedders = Shedders()
        self.network.shed = self._shed
        self._promises = Promises(self.network, self.bounds, self._emit, ets, registers=registers)
        self._cycle = Cycle(self.network, self._promises)
        self.dispatch = Dispatch(self._cycle, self.network, strategy, registers=registers)
        self.desires = Desires(self.network, self.guards, self._cycle.preferred)
        self.scheduled: Scheduled | None = None
        self._turns = Turns()
        self.use(graph)

    def use(self, graph: Graph, invariants: Mapping[VertexId, Invariants] | None = None) -> None:
        """Change to another graph between steps.

        Vertices of both graphs keep their state and unread input, new ones start empty, the others finish their input and go.
        `invariants` are those of the vertices of other graphs from which this one gets its input; None: those given before.
        """
        if invariants is not None:
            self.guards.use_invariants(invariants)
        kept = {vertex.id for vertex in graph}
        self._turns, self.scheduled = self.turns, None  # units of another graph
        self.shedders.active = False  # what goes is not shed: nobody would know any more on whose behalf
        for vertex in self.graph:
            while vertex.id not in kept and vertex.id not in self.ends and self.network.more(vertex.id):
                self._execute(Visit(vertex.id, None))
        self.shedders.active = bool(self.shedders.settings)
        before = self.graph.by_id()
        for vertex in graph:
            if vertex.id not in before or before[vertex.id].spec != vertex.spec:
                self.operators[vertex.id] = vertex.spec.build()
                self.statistics[vertex.id] = VertexStatistics()
                self.bounds[vertex.id] = BEGIN
        for gone in [name for name in self.operators if name not in kept]:
            del self.operators[gone], self.statistics[gone], self.bounds[gone]
            self._promises.owed.pop(gone, None)
        self.graph = graph
        self._portions = {vertex.id: vertex.spec.portion for vertex in graph}
        self._speaking = {name: each for name, each in self.operators.items() if isinstance(each, Speaking)}
        self.ends = {vertex.id for vertex in graph if isinstance(vertex.spec, Output | Exchange)}
        readers = graph.readers()
        self._ends_of = {
            name: tuple(reader for reader, _ in arcs if reader in self.ends) for name, arcs in readers.items()
        }
        self._promises.ends = self.ends
        self._connect()
        self._sources = upstream_sources(graph)
        self._ends_behind = ends_behind(graph, self.ends)
        self.use_costs(self.costs)
        self._steady = leading_to(graph, self.network.registers)
        self.guards.use(graph, self.taps)
        self.desires.use(graph, self.taps, self.ends)
        self.dispatch.use(graph, self.ends)

    @property
    def asked(self) -> int:
        """How many bounds sources gave on demand."""
        return self._promises.asked

    @property
    def tests(self) -> int:
        """How many rules were looked at."""
        return self._cycle.tests

    def runs(self, vertex: VertexId) -> bool:
        """Return whether the graph has a vertex."""
        return vertex in self.operators

    def use_strategies(self, strategy: str, own: Mapping[VertexId, str], cut: Collection[VertexId] = ()) -> None:
        """Select by a strategy, and by those in `own` where these vertices are; cut all arcs into the vertices of `cut`."""
        self.dispatch.use_strategies(strategy, own)
        self.dispatch.use_breaks(cut)

    def use_shedders(self, shedders: Mapping[Arc, ShedAt]) -> None:
        """Drop a share of what comes to these arcs and to no others; what is stored there stays."""
        self.shedders.use(shedders)
        if self.network.shedding != shedders.keys():
            self.network.shedding = set(shedders)
            self._connect()

    def use_responses(self, respond: Respond) -> None:
        """Let operators respond to feedback by this table."""
        self.guards.answer = respond

    def use_costs(self, costs: Mapping[VertexId, Cost], urgent: frozenset[VertexId] | None = None) -> None:
        """Charge executions by these costs, and where there is none by what is assumed of the kind of operator.

        No budget holds up `urgent` vertices (None: those named before).
        """
        if urgent is not None:
            self.urgent = urgent
        self.costs = {vertex.id: costs.get(vertex.id) or assumed_cost(vertex) for vertex in self.graph}
        self._costs_with_all_behind = costs_with_all_behind(self.graph, self.costs, self.ends)

    def use_schedulers(self, shares: Sequence[Share], fairness: Fairness) -> None:
        """Let schedulers choose who runs, until the graph changes; without any, the cycle does."""
        turns = self.turns
        self.scheduled = (
            Scheduled(self.network, self._cycle.runnable, lambda name: self.costs[name], turns) if shares else None
        )
        if self.scheduled is not None:
            self.scheduled.use(shares, fairness)

    @property
    def is_scheduled(self) -> bool:
        """Whether schedulers choose who runs, so that all input should be there before they do."""
        return self.scheduled is not None

    @property
    def turns(self) -> Turns:
        """What schedulers remember."""
        return self._turns if self.scheduled is None else self.scheduled.turns

    def remembered(self) -> Remembered:
        """Return all that a restart must find again besides `state`."""
        return Remembered(
            ends={name: bound for name in self.ends if (bound := self.bounds[name]) > BEGIN},
            owed=dict(self._promises.owed),
            guards=self.guards.in_force(),
            desires=self.desires.in_force(),
            shedders=self.shedders.remembered(),
            turns=self.turns,
        )

    def resume(self, remembered: Remembered) -> None:
        """Continue from what `remembered` returned, after `restore`; the graph, costs and schedulers are in use already."""
        self.bounds |= {name: bound for name, bound in remembered.ends.items() if name in self.bounds}
        self.guards.restore(remembered.guards)
        self.shedders.restore(remembered.shedders)
        self._promises.owed |= {name: bound for name, bound in remembered.owed.items() if name in self.operators}
        self._turns = remembered.turns
        if self.scheduled is not None:
            self.scheduled.turns = remembered.turns
        self.desires.restore(remembered.desires)

    def begin(self, time: int | None, *seed: object) -> None:
        """Begin a micro-batch: what enters arrives at this time (None: as before), and shedders draw by this seed."""
        if time is not None:
            self.time = time
        self.shedders.begin(*seed)

    def push(self, source: VertexId, element: Element) -> None:
        """Let an element enter at a source vertex; desired tuples overtake others that wait there."""
        if self.ets is not None and isinstance(element, Page) and len(element):
            self.ets.saw(source, int(element.rows[TS][-1]))
        self.network.arrival = self.time
        self._emit(source, (element,))
        if isinstance(element, Page):
            self.desires.hurry(source)

    def run(self, budget: float | None = None) -> float | None:
        """Work until no operator can execute, or what was done is worth a budget (nanoseconds of estimated service); returns what is left of it.

        Promises cost nothing, nor does what is urgent, and one tuple at least is taken whatever the budget, so that every micro-batch gets on.
        """
        if self.scheduled is not None:
            self.scheduled.restart()
        if budget is None:
            while self.step() is not None:
                pass
            return None
        left = max(budget, 1.0)
        while left > 0 and (done := self.step(left)) is not None:
            if done.vertex not in self.urgent:
                left -= done.tuples * self.costs[done.vertex].service_ns
        if left <= 0:
            self._finish_urgent()
        return max(left, 0.0)

    def _finish_urgent(self) -> None:
        """Do what must not wait, in the order of the graph, so that what comes of it goes on."""
        for vertex in self.graph:
            while (
                vertex.id in self.urgent
                and vertex.inputs
                and vertex.id not in self.ends
                and self._cycle.runnable(vertex.id)
            ):
                visit = Visit(vertex.id, None)
                done = self._execute(visit)
                self._cycle.executed(visit, done.tuples, is_data=done.kind == "page")

    def backlog(self) -> Backlog:
        """Return the work that could be done now; a bound that no tuple accompanies counts as one tuple."""
        count, since = 0, dict[VertexId, int]()
        able = {name for name in {reader for reader, _ in self.network.ready} if self._cycle.runnable(name)}
        for arc in self.network.ready:
            if arc[0] in able:
                count += max(1, self.network.tuples(arc))
                oldest = self.network.oldest(arc)
                for end in self._ends_behind[arc[0]]:
                    since[end] = min(oldest, since.get(end, oldest))
        return Backlog(count or int(any(map(self._cycle.runnable, self.network.registers))), since)

    def step(self, budget: float | None = None) -> Step | None:
        """Choose and execute one operator, of a page on as much as fits a budget; None if there is nothing to do."""
        self.network.arrival = self.time
        if self.scheduled is not None and (visit := self.scheduled.select(self.time)) is not None:
            done = self._execute(visit if budget is None else self._cut(visit, budget))
            self._cycle.executed(visit, done.tuples, is_data=done.kind == "page")
            self.scheduled.executed(done.tuples * self.costs[done.vertex].service_ns)
            return done
        visit = self._cycle.select()
        if visit is None and self._promises.send_due(
            self.operators, self._sources, self.guards.due() if self.guards.by_arc else {}
        ):
            visit = self._cycle.select()
        if visit is None:
            return None
        done = self._execute(visit if budget is None else self._cut(visit, budget))
        self._cycle.executed(visit, done.tuples, is_data=done.kind == "page")
        return done

    def take_results(self) -> dict[VertexId, list[Page]]:
        """What reached the ends of the graph, and what tapped vertices emitted, since the last call."""
        taken, self.results = self.results, {}
        return taken

    def take_late(self) -> dict[VertexId, list[Page]]:
        """Tuples that came below their input's register since the last call, if they are kept."""
        late = {name: found.side for name, found in self.network.registers.items() if found.side}
        for name in late:
            self.network.registers[name].side = []
        return late

    def registers(self, vertex: VertexId) -> tuple[int, ...]:
        """How far each input of a merging vertex has come."""
        self.network.refresh(vertex)
        return tuple(self.network.registers[vertex].values)

    def next_wakeup(self) -> int | None:
        """The time at which a silent source could release what is held now; None if no source ever will."""
        return (
            None
            if self.ets is None
            else next_wakeup(waits(self.network, self._sources, self.operators), self.bounds, self.ets)
        )

    def waits(self) -> Iterator[tuple[tuple[VertexId, ...], int]]:
        """What would release something that is held now: sources, and the bound that all of them must reach."""
        return waits(self.network, self._sources, self.operators)

    def waits_for_time(self, source: VertexId) -> bool:
        """Return whether anything fed by a source holds tuples back, or sends to an exchange, behind which something may."""
        return any(
            isinstance(self.network.vertices[name].spec, Exchange)
            or held_by(self.operators[name]) > 0
            or self.network.blocked(name)
            for name, sources in self._sources.items()
            if source in sources
        )

    def ask(self, source: VertexId) -> bool:
        """Ask a silent source for a bound and send it on; False if it has none that is new."""
        self.network.arrival = self.time
        return self._promises.ask(source)

    def feedback(self, vertex: VertexId, feedback: Feedback) -> bool:
        """Heed what the readers of a vertex's output say of it (of an end: the outside), before anything else is executed; False if nothing was done.

        What is relayed to sources is in `guards.relayed`, demanded results are in `partials`.
        """
        match feedback.intent:
            case Intent.ASSUMED:
                return self.guards.assume(vertex, feedback.pattern)
            case Intent.DESIRED:
                return self.desires.add(vertex, feedback.pattern)
            case Intent.DEMANDED:
                pages = results_now(self.graph, self.operators, vertex, feedback.pattern)
                self.partials.setdefault(vertex, []).extend(pages)
                return bool(pages)

    def take_partials(self) -> dict[VertexId, list[Page]]:
        """Demanded results that are not final, since the last call; the final ones come in their time."""
        taken, self.partials = self.partials, {}
        return taken

    def state(self) -> Mapping[VertexId, State]:
        """The state of every operator, and what is unread at its inputs."""
        found: dict[VertexId, State] = {}
        for name, operator in self.operators.items():
            found[name] = operator.state()
            if name not in self.ends and (name in self.network.registers or self.network.ready):
                found[name] = {**found[name], **self._unread.save(self.network, name)}
        self._unread.sweep(found)
        return found

    def restore(self, state: Mapping[VertexId, State]) -> None:
        """Continue from what `state` returned."""
        for name, chunks in state.items():
            if name in self.operators:
                self.operators[name].restore(
                    {chunk: frame for chunk, frame in chunks.items() if not chunk.startswith(MARK)}
                )
                self._unread.load(self.network, name, chunks)

    def close(self) -> None:
        """Let go of all operators and of what is unread; the engine cannot be used any more."""
        self.operators.clear()
        self.results.clear()
        self._unread = Unread()
        self.network.use(Graph(), [], set())

    def observe(self) -> Observed:
        """Return what was counted since the last call, with what is queued and held now."""
        vertices, self.statistics = self.statistics, {name: VertexStatistics() for name in self.statistics}
        for name, counts in vertices.items():
            counts.held, counts.late = held_by(self.operators[name]), late_at(self.operators[name])
            counts.queued = self.network.queued(name) if name not in self.ends else 0
        return Observed(
            vertices=vertices,
            bounds={name: self.bounds[name] for name in self.ends},
            guards=self.guards.in_force(),
            ended=self.guards.take_ended(),
            purged=self.guards.take_purged(),
            shed=self.shedders.take_counts(),
        )

    def _connect(self) -> None:
        vertices = self.graph.by_id()
        self.network.use(self.graph, [name for name in self.operators if vertices[name].spec.merges_inputs], self.ends)

    def _cut(self, visit: Visit, budget: float) -> Visit:
        """Take no more than can go on to the end: the pairs of a join, for one, would else all be stored. What is urgent is not cut."""
        if visit.vertex in self.urgent:
            return visit
        fits = int(budget / max(self._costs_with_all_behind[visit.vertex], 1e-3))
        return Visit(visit.vertex, _least(visit.limit, max(1, fits)))

    def _execute(self, visit: Visit) -> Step:
        name = visit.vertex
        operator, seen = self.operators[name], self.statistics[name]
        merges = name in self.network.registers
        port, element = (
            (0, None)
            if merges and not self.network.more(name)
            else self.network.take(name, _least(visit.limit, self._portions[name]))
        )
        bound = BEGIN  # what a dropped tuple would have told those who wait behind
        if (name, port) in self.guards.by_arc and element is not None:
            element, bound = self.guards.let_in((name, port), element, tells_time=name in self._steady)
        began = time.perf_counter_ns()  # a measurement, never an input to a result
        try:
            emitted: list[Element] = []
            if isinstance(element, Page):
                seen.tuples_in += len(element)
                seen.pages_in += 1
                if len(element):
                    emitted += operator.on_page(port, element)
                if bound > BEGIN:
                    emitted += operator.on_punctuation(port, Punctuation(bound))
            elif element is not None and not merges:
                emitted += operator.on_punctuation(port, element)
            if merges:
                emitted += self._tell(name, operator)
        except HeadraceError:
            raise
        except Exception as error:
            what = Names(self.graph)[name]
            raise OperatorFault(f"operator '{what}' failed: {type(error).__name__}: {error}") from error
        seen.busy_ns += time.perf_counter_ns() - began
        if name in self._speaking:
            self._hear(name, self._speaking[name].said())
        if name in self.guards.watches and isinstance(element, Page):
            self.guards.find_groups(name)
        if merges:
            self._emit_merged(name, emitted)
        else:
            self._emit(name, emitted)
        if element is None:
            return Step(name, "register")
        return Step(name, "page", len(element)) if isinstance(element, Page) else Step(name, "punctuation")

    def _tell(self, name: VertexId, operator: Operator) -> list[Element]:
        """Let a merging operator know how far its inputs have come."""
        found, emitted = self.network.registers[name], list[Element]()
        for port, value in enumerate(found.values):
            if value > found.told[port]:
                found.told[port] = value
                emitted += operator.on_punctuation(port, Punctuation(value))
                if (name, port) in self.guards.by_arc:
                    self.guards.expire((name, port), value)
        found.passed, found.raised = found.minimum, False
        return emitted

    def _emit(self, name: VertexId, elements: Sequence[Element]) -> None:
        useful, pages = list[Element](), list[Page]()
        for element in elements:
            if isinstance(element, Punctuation):
                self.bounds[name] = max(self.bounds[name], element.bound)
                useful.append(element)
            elif len(element):
                pages.append(element)
                useful.append(element)
        for end in self._ends_of[name]:
            self._deliver(end, pages, self.bounds[name])
        if name in self.taps:
            self._keep(name, self.guards.let_out((tap_of(name), 0), pages, self.bounds[name]))
        if useful:
            self.statistics[name].tuples_out += self.network.append(name, useful)

    def _emit_merged(self, name: VertexId, elements: Sequence[Element]) -> None:
        """Emit what a merging operator gave: tuples first, then the newest promise, if it must go as punctuation."""
        pages = [element for element in elements if isinstance(element, Page) and len(element)]
        if pages:
            found = self.network.registers[name]
            found.newest = max(found.newest, int(pages[-1].rows[TS][-1]))
        bound = max((element.bound for element in elements if isinstance(element, Punctuation)), default=BEGIN)
        self._emit(name, pages)
        left = self._promises.hand_on(name, bound, with_tuples=bool(pages))
        if left is not None:
            self._emit(name, (Punctuation(left),))

    def _deliver(self, end: VertexId, pages: Sequence[Page], bound: int) -> None:
        """Hand results to the outside; an end executes nothing."""
        pages = self.guards.let_out((end, 0), pages, bound)
        if self.shedders.active and (end, 0) in self.shedders.settings:
            pages = [left for page in pages if len(left := self.shedders.screen((end, 0), page))]
        seen, count = self.statistics[end], sum(map(len, pages))
        self.bounds[end] = max(self.bounds[end], bound)
        seen.tuples_in += count
        seen.pages_in += len(pages)
        seen.tuples_out += count
        self._keep(end, pages)

    def _shed(self, arc: Arc, elements: Sequence[Element]) -> Sequence[Element]:
        """What is stored of elements on an arc with a shedder."""
        tells_time = arc[0] in self._steady or arc[0] in self.network.registers
        return self.shedders.screen_all(arc, elements, tells_time=tells_time) if self.shedders.active else elements

    def _keep(self, name: VertexId, pages: Sequence[Page]) -> None:
        if pages:
            self.results.setdefault(name, []).extend(pages)

    def _hear(self, name: VertexId, said: Iterable[tuple[int, Feedback]]) -> None:
        """An operator speaks to those before it."""
        for port, feedback in said:
            match feedback.intent:
                case Intent.ASSUMED:
                    self.guards.assume_at((name, port), feedback.pattern)
                case Intent.DESIRED:
                    self.desires.add_at((name, port), feedback.pattern)
                case Intent.DEMANDED:
                    raise InternalError(f"{name} demands partial results, which only the outside may")


def _least(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
