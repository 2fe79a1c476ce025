"""After each micro-batch: look, judge, and say what is to change. Decisions reach buckets as commands, so a repeated micro-batch sees the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.analysis.forecast.facts import Facts, VertexFacts
from headrace.analysis.shedding.decision import ActiveSheds, decide
from headrace.analysis.shedding.from_running import shed_options
from headrace.commands import settings
from headrace.commands.command import Command, Cost, Set, ShedAt, UseCosts, UseDeferrals, UseShedders
from headrace.commands.running import Running
from headrace.commands.running_graph import names_in, placement_of, whole_of
from headrace.control.decisions import Decision, Decisions
from headrace.control.monitor import STARTING, Monitor
from headrace.control.observation import Observation, VertexCost
from headrace.control.policies.budget import LEAST_NS, MEAN_OF_LONGEST, SLACK, budget, is_strict, left_unread
from headrace.control.policies.deferral import deferrals
from headrace.control.policies.relief import GRAIN, Pressure, rounded, target
from headrace.control.policies.strategy import Keep, Past, UseStrategy, judge
from headrace.control.promise_checks import PromiseCheck, promise_checks, promise_phase
from headrace.control.sampling import Sampling
from headrace.engine.scheduling.in_force import urgent_in
from headrace.engine.scheduling.schedulers import NONE
from headrace.engine.statistics import Statistics
from headrace.graph.graph import VertexId
from headrace.model.qos import Qos, Strictness
from headrace.model.time import SECOND
from headrace.operators.specs import Scan
from headrace.worker.wire import Report

#: Promises are compared with what will be expected so much later (microseconds).
LOOKAHEAD = SECOND
#: What is shed is reduced at most so often (microseconds); it is increased at once.
EVERY = 2 * SECOND
#: How often a query is judged: every two seconds at first, later up to every half or every eight.
FIRST_SAMPLING = Sampling(SECOND // 2, 8 * SECOND, 2 * SECOND)
#: Schedulers are told what operators cost when it has changed by so much.
DIFFERENT = 0.3
#: What a tuple is taken to occupy.
TUPLE_BYTES = 64.0


class Pace(Struct, frozen=True):
    """How much the next micro-batches may do in each bucket (nanoseconds of service; None: all there is) and read of streams."""

    budget: int | None = None
    limits: dict[str, int] = {}


class Guidance(Struct, frozen=True):
    """What is to change: commands to append, and how much is done at a time (None: as before)."""

    commands: tuple[Command, ...] = ()
    pace: Pace | None = None


class Controller:
    """Keeps the promises of the queries of one deployment."""

    def __init__(self, directory: Path) -> None:
        self.decisions = Decisions(directory)
        self.seen: Observation | None = None  # after the last micro-batch
        self._monitor = Monitor()
        self._began: dict[str, int] = {}  # when each query was first seen
        self._plan = ActiveSheds()
        self._pressure = Pressure()  # to shed
        self._haste = Pressure(slack=SLACK)  # to let what may wait wait
        self._changed = 0  # when shedders were changed last
        self._short = False
        self._budget: int | None = None
        self._unread: frozenset[str] = frozenset()  # streams that are not read
        self._past: dict[str, Past] = {}
        self._samplings: dict[str, Sampling] = {}
        self._due: dict[str, int] = {}  # when each query is judged again
        self._told: dict[VertexId, Cost] = {}
        self._told_at = -EVERY

    def after(self, seen: Statistics, reports: Sequence[Report], running: Running, now: int, cores: int) -> Guidance:
        """What to do after a micro-batch that has just been delivered; `cores` tasks run side by side."""
        promised = {query.query: query.qos for query in running.queries}
        self._began = {name: self._began.get(name, now) for name in promised}
        self.seen = observation = self._monitor.look(seen, reports, running, now, cores)
        if running.draining:
            return Guidance(pace=Pace())  # nothing comes any more that could be quick
        found = {
            name: promise_checks(qos, observation.queries[name], now - self._began[name], LOOKAHEAD)
            for name, qos in promised.items()
        }
        pace = self._pace(observation, running, found, len(reports))
        commands = self._order_work(observation, running, found, pace)
        commands += self._defer(observation, running)
        if self._monitor.looks > STARTING:
            commands += self._shed(observation, running, found)
        return Guidance(tuple(commands), pace)

    def _pace(
        self, seen: Observation, running: Running, found: dict[str, tuple[PromiseCheck, ...]], buckets: int
    ) -> Pace | None:
        """How much is done at a time: all of it, unless something may wait for something else that is more urgent."""
        promises = {query.query: (query.qos, seen.time - self._began[query.query]) for query in running.queries}
        work, at_once = work_in(seen, running), placement_of(running).ingest.by_id().keys() | urgent_in(running)
        committed = reading_work(seen, running) + sum(work[name] for name in at_once if name in work)
        self._haste = _pressed(self._haste, found, Strictness.MUST, Strictness.BEST_EFFORT, share=MEAN_OF_LONGEST)
        wanted = budget(promises, seen.machine, committed, max(1, buckets), pressure=self._haste.value)
        if wanted is not None and not self._told:
            wanted = LEAST_NS  # nobody knows yet what work costs
        if wanted is None and self._budget is None:
            return None
        if (wanted is None) != (self._budget is None):
            what = (
                "do all at once" if wanted is None else f"do about {wanted / 1e6:.0f} ms of work in a bucket at a time"
            )
            self.decisions.add(
                Decision(
                    seen.time,
                    None,
                    what,
                    "queries differ in how quick they must be" if wanted else "none must be quicker",
                )
            )
        self._budget = wanted
        return Pace(wanted, dict.fromkeys(self._left_unread(seen, running), 0))

    def _left_unread(self, seen: Observation, running: Running) -> frozenset[str]:
        """What may wait can wait unread, once there is enough of it."""
        readers: dict[str, frozenset[str]] = {}
        for query in running.queries:
            for stream in query.streams:
                readers[stream.name] = readers.get(stream.name, frozenset()) | {query.query}
        may_wait = self._may_wait(running)
        waiting = {name: each.waiting for name, each in seen.queries.items()}
        found, before = left_unread(readers, waiting, may_wait, self._unread), self._unread
        for name in sorted(found ^ before):
            most = max((waiting.get(query, 0) for query in readers.get(name, ())), default=0)
            what = f"leave {name} unread" if name in found else f"read {name} again"
            self.decisions.add(
                Decision(seen.time, None, what, f"{most:,} tuples wait for those who read it, and they may wait")
            )
        self._unread = found
        return found

    def _may_wait(self, running: Running) -> frozenset[str]:
        """The queries that wait for others."""
        return frozenset(
            query.query for query in running.queries if self._budget is not None and not is_strict(query.qos)
        )

    def _defer(self, seen: Observation, running: Running) -> list[Command]:
        """Put off what the ingest would do at once and can wait."""
        if self._budget is None and not running.deferrals:
            return []
        ingest = placement_of(running).ingest.by_id()
        work = {name: seconds for name, seconds in work_in(seen, running).items() if name in ingest}
        before, after = running.deferrals, deferrals(running, work, self._may_wait(running))
        if before == after:
            return []
        names = names_in(running)
        for new in after:
            if new not in before:
                why = f"it takes {work[new.vertex]:.2f} s of work a second, and nobody waits for it"
                self.decisions.add(Decision(seen.time, None, f"put {names[new.vertex]} off", why))
        for gone in before:
            if gone not in after:
                self.decisions.add(
                    Decision(
                        seen.time,
                        None,
                        f"put {names[gone.vertex]} off no longer",
                        "it may not wait now, or nothing must be quick",
                    )
                )
        return [UseDeferrals(after)]

    def _order_work(
        self, seen: Observation, running: Running, found: dict[str, tuple[PromiseCheck, ...]], pace: Pace | None
    ) -> list[Command]:
        """Choose who runs first, unless users have."""
        if any(not choice.auto for choice in running.schedulers.values()):
            return self._tell_costs(seen)
        commands: list[Command] = []
        if pace is not None and pace.budget is not None:
            commands += self._use(None, "edf", seen.time, running, "what must be quick comes first")
            if running.fairness == settings.Fairness():  # what nobody cares about has no turn before what must be quick
                commands.append(Set(None, settings.Fairness("none", auto=True)))
        elif pace is not None:
            commands += self._use(None, NONE, seen.time, running, "nothing waits")
            commands += [Set(None, settings.Fairness())] if running.fairness.auto else []
        else:
            for query in running.queries:
                commands += self._judge(query.query, query.qos, found[query.query], seen.time, running)
        if commands or any(choice.name != NONE for choice in running.schedulers.values()):
            commands += self._tell_costs(seen)
        return commands

    def _judge(
        self, query: str, qos: Qos, found: tuple[PromiseCheck, ...], now: int, running: Running
    ) -> list[Command]:
        """Another strategy for a query that breaks a promise, if one would serve it better."""
        if now < self._due.get(query, 0):
            return []
        for each in found[:1]:  # the sooner again, the more it changes
            self._samplings[query] = self._samplings.get(query, FIRST_SAMPLING).after(each.observed)
        self._due[query] = now + self._samplings.get(query, FIRST_SAMPLING).period
        current = _scheduler(running, query)
        past = self._past.get(query, Past()).at(promise_phase(qos, now - self._began[query]))
        match judge(found, current, past):
            case UseStrategy(strategy=strategy, past=past, scores=worth, in_circles=circles):
                self._past[query] = past
                broken = ", ".join(str(each) for each in found if not each.is_kept)
                why = f"{broken}; worth {', '.join(f'{name} {value:.2f}' for name, value in worth.items())}{'; else in circles' if circles else ''}"
                return self._use(query, strategy, now, running, why)
            case Keep():
                return []

    def _use(self, query: str | None, scheduler: str, now: int, running: Running, reason: str) -> list[Command]:
        if _scheduler(running, query) == scheduler:
            return []
        self.decisions.add(Decision(now, query, f"schedule by {scheduler}", reason))
        return [Set(query, settings.Scheduler(scheduler, auto=True))]

    def _tell_costs(self, seen: Observation) -> list[Command]:
        """What operators cost, if it differs much from what was told."""
        costs = {
            name: Cost(cost.service * 1e9, cost.selectivity, TUPLE_BYTES, TUPLE_BYTES)
            for name, cost in seen.costs.items()
        }
        if seen.time - self._told_at < EVERY or not any(
            _differs(self._told.get(name), cost) for name, cost in costs.items()
        ):
            return []
        self._told, self._told_at = costs, seen.time
        return [UseCosts(costs)]

    def _shed(self, seen: Observation, running: Running, found: dict[str, tuple[PromiseCheck, ...]]) -> list[Command]:
        """Shed what is missing for the latencies that must hold, or less than before."""
        promises = [(query.qos, seen.time - self._began[query.query]) for query in running.queries]
        seconds = target(promises, seen.machine.fixed)
        if seconds is None or not any(qos.error for qos, _ in promises):
            return self._order((), seen, running, "no latency must hold") if running.shedders else []
        self._pressure = _pressed(self._pressure, found, Strictness.MUST)
        room = max(seen.machine.room(seconds) / seconds, 1e-6)
        could = shed_options(running, facts_of(seen, running), speed=room)
        load = could.load * (1.0 + self._pressure.value)
        self._plan = decide(self._plan, load, could.places)
        self._note_shortfall(seen.time, load)
        wanted = tuple(
            ShedAt(one.reader, one.port, min(rounded(one.share), _bearable(running, one)), one.shedding, one.query)
            for one in could.shedders(self._plan, running)
            if one.share > GRAIN / 2
        )
        pressed = f", corrected by {self._pressure.value:+.0%}" if self._pressure.value else ""
        return self._order(
            wanted, seen, running, f"load {load:.2f} of what micro-batches of {seconds * 1e3:.0f} ms can do{pressed}"
        )

    def _order(self, wanted: tuple[ShedAt, ...], seen: Observation, running: Running, reason: str) -> list[Command]:
        before = {one.arc: one for one in running.shedders}
        after = {one.arc: one for one in wanted}
        changes = [
            arc
            for arc in before.keys() | after.keys()
            if abs(_share(before.get(arc)) - _share(after.get(arc))) > GRAIN / 2
        ]
        if not changes:
            return []
        more = any(_share(after.get(arc)) > _share(before.get(arc)) for arc in changes)
        if not more and seen.time - self._changed < EVERY:
            return []
        self._changed = seen.time
        names = names_in(running)
        for arc in sorted(changes):
            told = after.get(arc) or before[arc]
            self.decisions.add(
                Decision(seen.time, told.query, f"shed {_share(after.get(arc)):.0%} before {names[arc[0]]}", reason)
            )
        return [UseShedders(wanted)]

    def _note_shortfall(self, now: int, load: float) -> None:
        if (self._plan.shortfall > 0) == self._short:
            return
        self._short = not self._short
        if self._short:
            what, why = "shed all that may be lost", f"{self._plan.shortfall:.0%} of the processor is missing even so"
        else:
            what, why = "shed less than may be lost", "that is enough again"
        self.decisions.add(Decision(now, None, what, f"load {load:.2f}: {why}"))


def facts_of(seen: Observation, running: Running) -> Facts:
    """What was observed, as the analysis wants it."""
    streams = {stream.name: stream for query in running.queries for stream in query.streams}
    return Facts(
        dict(seen.rates),
        vertices={name: VertexFacts(cost.service, cost.selectivity) for name, cost in seen.costs.items()},
        schemas={name: stream.schema for name, stream in streams.items()},
        skews={name: stream.skew / SECOND for name, stream in streams.items()},
        reading=seen.reading,
        elsewhere=seen.machine.fixed,
    )


def work_in(seen: Observation, running: Running) -> dict[VertexId, float]:
    """The busy seconds a second that each operator would take for all that comes."""
    rates: dict[VertexId, float] = {}
    work: dict[VertexId, float] = {}
    for vertex in whole_of(running):
        cost = seen.costs.get(vertex.id, VertexCost(0.0, 1.0))
        into = (
            seen.rates.get(vertex.spec.stream, 0.0)
            if isinstance(vertex.spec, Scan)
            else sum(rates.get(name, 0.0) for name in vertex.inputs)
        )
        rates[vertex.id] = into if isinstance(vertex.spec, Scan) else into * cost.selectivity
        work[vertex.id] = into * cost.service
    return work


def reading_work(seen: Observation, running: Running) -> float:
    """The busy seconds a second that reading takes."""
    streams = {stream.name for query in running.queries for stream in query.streams}
    return seen.reading * sum(seen.rates.get(name, 0.0) for name in streams)


def _differs(told: Cost | None, now: Cost) -> bool:
    if told is None:
        return True
    return (
        abs(now.service_ns - told.service_ns) > DIFFERENT * told.service_ns
        or abs(now.selectivity - told.selectivity) > DIFFERENT * told.selectivity
    )


def _pressed(
    pressure: Pressure, found: dict[str, tuple[PromiseCheck, ...]], *classes: Strictness, share: float = 1.0
) -> Pressure:
    """What latencies of these classes say, of which so much is judged."""
    latencies = [
        each
        for standing in found.values()
        for each in standing
        if each.measure == "latency" and each.strictness in classes
    ]
    seen = [msgspec.structs.replace(each, observed=share * each.observed) for each in latencies]
    return (
        pressure.after(is_broken=any(not each.is_kept for each in seen), slack=min(each.slack for each in seen))
        if seen
        else pressure
    )


def _scheduler(running: Running, query: str | None) -> str:
    chosen = running.schedulers.get(query)
    return NONE if chosen is None else chosen.name


def _share(shedder: ShedAt | None) -> float:
    return 0.0 if shedder is None else shedder.share


def _bearable(running: Running, shedder: ShedAt) -> float:
    qos: Qos = running.promises()[shedder.query]
    return qos.error or 0.0
