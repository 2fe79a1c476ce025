"""An engine runs one graph in one process, step by step, deterministically.

The two-step cycle of the query-graph model: a chooser selects an operator, the operator executes on one element of its
input. By default the dispatch table chooses depth first: results go on toward the output before new input is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy

from headrace.commands.command import Cost, ShedAt
from headrace.engine.blame import blaming
from headrace.engine.bounds.ets import Ets
from headrace.engine.bounds.mode import PUNCTUATION, BoundsMode
from headrace.engine.bounds.wakeup import ends_behind, next_wakeup, waits
from headrace.engine.choosing import Chooser, InOrder, Step, Visit
from headrace.engine.dispatch.cycle import Cycle
from headrace.engine.dispatch.strategies import Dispatch
from headrace.engine.execution import Execution, lower_limit
from headrace.engine.feedback.desires import Desires
from headrace.engine.observed import Backlog, Observed
from headrace.engine.remembered import Remembered
from headrace.engine.scheduling.master import Master, Share
from headrace.engine.scheduling.schedulers.fairness import Fairness
from headrace.engine.scheduling.units import WayCost, assumed_cost, costs_with_all_behind
from headrace.engine.statistics import VertexCounts
from headrace.engine.unread import MARK, Unread
from headrace.errors import InternalError
from headrace.graph.feedback import Respond
from headrace.graph.graph import Arc, Graph, VertexId, part_before
from headrace.model.join_tree import Tree
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.pattern import Pattern, complement, matches, one_of_all
from headrace.model.schema import TS
from headrace.model.time import BEGIN, END
from headrace.operators.capabilities import (
    Choose,
    Splittable,
    held_by,
    is_movable,
    is_replannable,
    is_splittable,
    late_at,
)
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.operators.operator import State
from headrace.operators.order.hold import HoldOperator
from headrace.operators.partitioning import Keys
from headrace.operators.specs import Exchange


class Engine:
    """The operators of a graph and the arcs between them. Same graph, settings and calls: same steps.

    `taps` are vertices whose pages are results besides being passed on. `ets` gives the bounds of silent sources.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        taps: Iterable[VertexId] = (),
        ets: Ets | None = None,
        mode: BoundsMode = PUNCTUATION,
    ) -> None:
        self.execution = Execution(taps, ets, mode, self._take_feedback)
        self.taps, self.operators = self.execution.taps, self.execution.operators
        self.network, self.bounds = self.execution.network, self.execution.bounds
        self.guards, self.shedders = self.execution.guards, self.execution.shedders
        self.ets = ets
        self.graph, self.ends = Graph(), self.execution.ends
        self.time = BEGIN  # the arrival time of what enters now
        self.partials: dict[VertexId, list[Page]] = {}  # results that were demanded before they were final
        self._demanded: list[tuple[Arc, Pattern]] = []  # by operators, of their inputs
        self.costs: dict[VertexId, Cost] = {}
        self.urgent: frozenset[VertexId] = frozenset()  # vertices that no budget holds up, with all those before them
        self._costs_with_all_behind: dict[VertexId, WayCost] = {}
        self._unread = Unread()
        self._cycle = Cycle(self.network, self.bounds)
        self.dispatch = Dispatch(self._cycle, self.network, registers=mode.registers)
        self.desires = Desires(self.network, self.guards, self._cycle.preferred)
        self._master = Master(self.network, self._cycle, lambda name: self.costs[name])
        self._chooser: Chooser = self._cycle
        self.use(graph)

    def use(self, graph: Graph, invariants: Mapping[VertexId, Invariants] | None = None) -> None:
        """Change to another graph between steps; schedulers must be set again after it.

        Vertices of both graphs keep their state and unread input, new ones start empty, others finish their input and
        go. `invariants` are those of vertices in other graphs from which input comes; None: those given before.
        """
        if invariants is not None:
            self.guards.use_invariants(invariants)
        self._chooser = self._cycle  # schedulers have units of the old graph
        self._finish_leaving(graph)
        self.execution.use(graph)
        self.graph, self.ends = graph, self.execution.ends
        self._ends_behind = ends_behind(graph, self.ends)
        self.use_costs(self.costs)
        self.desires.use(graph, self.taps, self.ends)
        self.dispatch.use(graph, self.ends)

    def _finish_leaving(self, graph: Graph) -> None:
        """Let vertices that are not in a graph process their input, unshed, as no query would account for the loss."""
        kept = graph.by_id()
        leaving = [vertex.id for vertex in self.graph if vertex.id not in kept and vertex.id not in self.ends]
        self.shedders.active = False
        self._run_all(InOrder(leaving, self.network.more))
        self.shedders.active = bool(self.shedders.settings)

    @property
    def statistics(self) -> Mapping[VertexId, VertexCounts]:
        """What was counted since the last call of `observe`."""
        return self.execution.statistics

    @property
    def asked(self) -> int:
        """Return how many bounds sources gave on demand."""
        return self.bounds.asked

    @property
    def tests(self) -> int:
        """Return how many selections of the dispatch table were made."""
        return self._cycle.tests

    def runs(self, vertex: VertexId) -> bool:
        """Return whether the graph has a vertex."""
        return vertex in self.operators

    def use_strategies(self, strategy: str, own: Mapping[VertexId, str], cut: Collection[Arc] = ()) -> None:
        """Use `strategy`, but those in `own` for the vertices named there; cut all arcs into the vertices of `cut`."""
        self.dispatch.use_strategies(strategy, own, cut)

    def use_shedders(self, shedders: Mapping[Arc, ShedAt]) -> None:
        """Drop shares of the tuples that come to these arcs and to no others; what is stored there stays."""
        is_other = self.shedders.settings.keys() != shedders.keys()
        self.shedders.use(shedders)
        if is_other:
            self.execution.connect()

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
        self._master.use(shares, fairness)
        self._chooser = self._master if shares else self._cycle

    @property
    def is_scheduled(self) -> bool:
        """Return whether schedulers choose which unit runs, so that all input should be there before they do."""
        return self._chooser is self._master

    def remembered(self) -> Remembered:
        """Return all that a restart must find again besides `state`."""
        return Remembered(
            ends={name: bound for name in sorted(self.ends) if (bound := self.bounds.reached[name]) > BEGIN},
            owed=dict(self.bounds.owed),
            guards=self.guards.in_force(),
            desires=self.desires.in_force(),
            shedders=self.shedders.remembered(),
            turns=self._master.turns,
        )

    def resume(self, remembered: Remembered) -> None:
        """Continue from what `remembered` returned; call it after all that sets the engine up, and after `restore`."""
        self.bounds.reached.update({name: bound for name, bound in remembered.ends.items() if self.runs(name)})
        self.guards.restore(remembered.guards)
        self.shedders.restore(remembered.shedders)
        self.bounds.owed.update({name: bound for name, bound in remembered.owed.items() if self.runs(name)})
        self._master.turns = remembered.turns
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
        self.execution.emit(source, (element,))
        if isinstance(element, Page):
            self.desires.hurry(source)

    def run(self, budget: float | None = None) -> float | None:
        """Work until no operator can execute or a budget (nanoseconds of estimated service) is spent; returns its rest.

        Bounds and urgent vertices cost nothing. At least one tuple is taken, so that every micro-batch makes progress.
        """
        self._master.restart()
        if budget is None:
            while self.step() is not None:
                pass
            return None
        rest = max(budget, 1.0)
        while rest > 0 and (step := self.step(rest)) is not None:
            if step.vertex not in self.urgent:
                rest -= self.costs[step.vertex].of(step.tuples)
        if rest <= 0:
            urgent = [
                vertex.id
                for vertex in self.graph
                if vertex.id in self.urgent and vertex.inputs and vertex.id not in self.ends
            ]
            self._run_all(InOrder(urgent, self._cycle.runnable, self._cycle))
        return max(rest, 0.0)

    def step(self, budget: float | None = None) -> Step | None:
        """Choose and execute one operator, of a page on as much as fits a budget; None if there is nothing to do."""
        return self._step(self._chooser, budget)

    def _step(self, chooser: Chooser, budget: float | None = None) -> Step | None:
        self.network.arrival = self.time
        visit = chooser.select(self.time)
        if visit is None:
            return None
        step = self.execution.execute(visit if budget is None else self._cut(visit, budget))
        chooser.executed(visit, step)
        return step

    def _run_all(self, chooser: Chooser) -> None:
        while self._step(chooser) is not None:
            pass

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

    def take_results(self) -> dict[VertexId, list[Page]]:
        """Return what reached the ends of the graph, and what tapped vertices emitted, since the last call."""
        return self.execution.take_results()

    def take_late(self) -> dict[VertexId, list[Page]]:
        """Return the tuples that came below their input's register since the last call, with BoundsMode.keep_late."""
        registers = self.network.registers
        late = {name: kept.late_pages for name, kept in registers.items() if kept.late_pages}
        for name in late:
            registers[name].late_pages = []
        return late

    def registers(self, vertex: VertexId) -> tuple[int, ...]:
        """Return the bound of each input of a merging vertex."""
        self.network.refresh(vertex)
        return tuple(self.network.registers[vertex].values)

    def next_wakeup(self) -> int | None:
        """Return the time at which a silent source could release what is held now; None if no source ever will."""
        return None if self.ets is None else next_wakeup(self.waits(), self.bounds.reached, self.ets)

    def waits(self) -> Iterator[tuple[tuple[VertexId, ...], int]]:
        """Yield what would release something that is held now: sources, and the bound that all of them must reach."""
        for _, sources, bound in waits(self.network, self.bounds.sources, self.operators):
            yield sources, bound

    def waits_for_time(self, source: VertexId) -> bool:
        """Return whether an operator fed by a source holds tuples back, or may do so behind an exchange."""
        return any(
            isinstance(self.network.vertices[name].spec, Exchange)
            or held_by(self.operators[name]) > 0
            or self.network.blocked(name)
            for name, sources in self.bounds.sources.items()
            if source in sources
        )

    def ask(self, source: VertexId) -> bool:
        """Ask a silent source for a bound and send it on; False if it has none that is new."""
        self.network.arrival = self.time
        return self.bounds.ask(source)

    def feedback(self, vertex: VertexId, feedback: Feedback) -> bool:
        """Act on feedback on a vertex's output (of an end: its input) before the next step; False if without effect.

        What is relayed to sources is in `guards.relayed`, demanded results are in `partials`.
        """
        match feedback.intent:
            case Intent.ASSUMED:
                return self.guards.assume(vertex, feedback.pattern)
            case Intent.DESIRED:
                return self.desires.add(vertex, feedback.pattern, feedback.priority)
            case Intent.DEMANDED:
                pages = self.results_now(vertex, complement(feedback.pattern))
                wanted = [Page(page.rows.filter(matches(feedback.pattern, page.rows))) for page in pages]
                self.partials.setdefault(vertex, []).extend(page for page in wanted if len(page))
                return any(map(len, wanted))

    def results_now(
        self,
        vertex: VertexId,
        unneeded: Iterable[Pattern] = (),
        given: Mapping[VertexId, Sequence[Page]] | None = None,
        unneeded_at: Iterable[tuple[Arc, Pattern]] = (),
    ) -> list[Page]:
        """Return what would still come out of a vertex if all input ended now; a twin of the engine finds out.

        What is `unneeded` of it may be missing, which saves work, and so may what readers do not need `unneeded_at` an
        arc. `given` are pages that would come before the end.
        """
        taps = () if vertex in self.ends else (vertex,)
        twin = Engine(part_before(self.graph, vertex), taps=taps, mode=self.network.mode)
        twin.restore(self.state())
        remembered = self.remembered()
        guards = [copy(guard) for guard in remembered.guards]  # guards count what they drop
        twin.resume(Remembered(ends=remembered.ends, owed=remembered.owed, guards=guards))
        for pattern in unneeded:
            twin.guards.assume(vertex, pattern)
        for arc, pattern in unneeded_at:
            twin.guards.assume_at(arc, pattern)
        for source in (scan.id for scan in twin.graph if not scan.inputs):
            for page in (given or {}).get(source, ()):
                twin.push(source, page)
            twin.push(source, Punctuation(END))
        twin.run()
        pages = twin.take_results().get(vertex, [])
        twin.close()
        return [page for page in pages if len(page)]

    def demanded_now(self, end: VertexId) -> list[Page]:
        """Return what would come out of an end now, as far as operators before it have demanded it of their inputs."""
        before = {vertex.id for vertex in part_before(self.graph, end)} if self._demanded else set()
        wanted: dict[Arc, list[Pattern]] = {}
        for arc, pattern in self._demanded:
            if arc[0] in before:
                wanted.setdefault(arc, []).append(pattern)
        others = [(arc, other) for arc, patterns in wanted.items() for other in complement(one_of_all(patterns))]
        return self.results_now(end, unneeded_at=others) if wanted else []

    def forget_demands(self) -> None:
        """Forget what operators have demanded."""
        self._demanded.clear()

    def take_partials(self) -> dict[VertexId, list[Page]]:
        """Return demanded results that are not final, since the last call; the final ones follow in their time."""
        taken, self.partials = self.partials, {}
        return taken

    def state(self) -> Mapping[VertexId, State]:
        """Return the state of every operator, and what is unread at its inputs."""
        state: dict[VertexId, State] = {}
        for name, operator in self.operators.items():
            with blaming(name, self.graph):
                state[name] = operator.state()
            if name not in self.ends and (name in self.network.registers or self.network.ready):
                state[name] = {**state[name], **self._unread.save(self.network, name)}
        self._unread.sweep(state)
        return state

    def restore(self, state: Mapping[VertexId, State]) -> None:
        """Continue from what `state` returned."""
        for name, chunks in state.items():
            if name in self.operators:
                with blaming(name, self.graph):
                    self.operators[name].restore(
                        {chunk: frame for chunk, frame in chunks.items() if not chunk.startswith(MARK)}
                    )
                self._unread.load(self.network, name, chunks)

    def release(self, vertex: VertexId) -> None:
        """Let a vertex give up what it holds until somebody asks."""
        operator = self.execution.operators[vertex]
        assert isinstance(operator, HoldOperator)
        self.execution.emit(vertex, operator.release())

    def release_all(self) -> None:
        """Let all vertices give up what they hold: where one had too much and let go of it, time is ahead of others."""
        for name, operator in self.operators.items():
            if isinstance(operator, HoldOperator):
                self.release(name)

    def use_tree(self, vertex: VertexId, number: int, tree: Tree, how: How, portion: int) -> None:
        """Let a join of several inputs go on with another tree."""
        operator = self.operators.get(vertex)
        if operator is not None and is_replannable(operator):
            operator.use(number, tree, how, portion)

    def advance_trees(self) -> int:
        """Do a portion of each change of plan that is under way; return how many rows are still to be built."""
        return sum(operator.advance() for operator in self.operators.values() if is_replannable(operator))

    def boxes(self, *, sample: bool) -> dict[VertexId, BoxSeen]:
        """Return what each join of several inputs did since the last call."""
        return {name: op.seen(sample=sample) for name, op in self.operators.items() if is_replannable(op)}

    def give(self, keys: Mapping[VertexId, Sequence[Keys]], choose: Choose) -> list[tuple[VertexId, State]]:
        """Let vertices give up the rows that are chosen by the keys of their ports; return what they gave."""
        given: list[tuple[VertexId, State]] = []
        for name, by in keys.items():
            with blaming(name, self.graph):
                operator = self.operators[name]
                if not is_movable(operator):
                    raise InternalError(f"operator {name} cannot give up part of its state")
                state = operator.give(by, choose)
                given += [(name, state)] if state else []
        return given

    def begin_again(self, vertex: VertexId) -> None:
        """Let a vertex begin with nothing: without state and unread input, with the bounds of its inputs."""
        self.execution.rebuild(vertex)
        self.network.clear(vertex)

    def copy(self, vertex: VertexId, port: int, keys: Sequence[Keys], choose: Choose) -> State:
        """Return the rows of a port that are chosen, and keep them."""
        with blaming(vertex, self.graph):
            return self._splittable(vertex).copy(port, keys, choose)

    def forget(self, vertex: VertexId, port: int, keys: Sequence[Keys], choose: Choose) -> None:
        """Let a vertex forget the rows of a port that are chosen."""
        with blaming(vertex, self.graph):
            self._splittable(vertex).forget(port, keys, choose)

    def _splittable(self, vertex: VertexId) -> Splittable:
        operator = self.operators[vertex]
        if not is_splittable(operator):
            raise InternalError(f"operator {vertex} cannot have a key in several buckets")
        return operator

    def take_in(self, given: Mapping[VertexId, State]) -> None:
        """Let vertices that are here go on with what others gave up elsewhere."""
        for name, state in given.items():
            operator = self.operators.get(name)
            if operator is not None and is_movable(operator):
                with blaming(name, self.graph):
                    operator.take(state)

    def close(self) -> None:
        """Release all operators and unread input; the engine cannot be used any more."""
        self.operators.clear()
        self.execution.take_results()
        self._unread = Unread()
        self.network.use(Graph(), [], set())

    def observe(self) -> Observed:
        """Return what was counted since the last call, with what is queued and held now."""
        vertices = self.execution.take_statistics()
        peaks = self.network.take_peaks()
        waiting = {name for name, _, _ in waits(self.network, self.bounds.sources, self.operators)}
        for name, counts in vertices.items():
            counts.waits = int(name in waiting)
            counts.peak = max((peaks.get(origin, 0) for origin in self.network.vertices[name].inputs), default=0)
            counts.held, counts.late = held_by(self.operators[name]), late_at(self.operators[name])
            if name not in self.ends:
                counts.queued, counts.queued_bytes = self.network.queued(name), self.network.queued_bytes(name)
        return Observed(
            vertices=vertices,
            bounds={name: self.bounds.reached[name] for name in sorted(self.ends)},
            guards=self.guards.in_force(),
            ended=self.guards.take_ended(),
            purged=self.guards.take_purged(),
            shed=self.shedders.take_counts(),
            queues=self.network.take_queues(),
        )

    def _cut(self, visit: Visit, budget: float) -> Visit:
        """Limit a visit to tuples whose results can reach the end within the budget, so that joins store no pairs."""
        if visit.vertex in self.urgent:
            return visit
        fitting = self._costs_with_all_behind[visit.vertex].fitting(budget)
        return Visit(visit.vertex, lower_limit(visit.limit, fitting))

    def _take_feedback(self, name: VertexId, given: Iterable[tuple[int, Feedback]]) -> None:
        """Act on the feedback that an operator has for its inputs."""
        for port, feedback in given:
            match feedback.intent:
                case Intent.ASSUMED:
                    self.guards.assume_at((name, port), feedback.pattern)
                case Intent.DESIRED:
                    self.desires.add_at((name, port), feedback.pattern)
                case Intent.DEMANDED:
                    self._demanded.append(((name, port), feedback.pattern))
