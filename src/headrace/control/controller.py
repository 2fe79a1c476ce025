"""After each micro-batch: look, judge, and say what is to change. Decisions reach buckets as commands, so a repeated micro-batch sees the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from headrace.analysis.facts import Facts, VertexFacts
from headrace.analysis.shed_decision import ShedPlan, decide
from headrace.analysis.shedding_plan import shedding_plan
from headrace.control.journal import Decision, Decisions
from headrace.control.monitor import Monitor, Observation
from headrace.control.observation import Standing, standings
from headrace.control.policies.relief import GRAIN, Pressure, rounded, target
from headrace.elements.promise import Qos
from headrace.elements.time import SECOND
from headrace.graph.command import Command, Running, ShedAt, UseShedders
from headrace.runtime.statistics import Statistics
from headrace.runtime.wire import Report

#: Promises are compared with what will be expected so much later (microseconds).
LOOKAHEAD = SECOND
#: What is shed is reduced at most so often (microseconds); it is increased at once.
EVERY = 2 * SECOND
#: Rates and costs are not known before this many micro-batches.
FIRST = 3


class Guidance(Struct, frozen=True):
    """What is to change: commands to append."""

    commands: tuple[Command, ...] = ()


class Controller:
    """Keeps the promises of the queries of one deployment."""

    def __init__(self, directory: Path) -> None:
        self.decisions = Decisions(directory)
        self._monitor = Monitor()
        self._began: dict[str, int] = {}  # when each query was first seen
        self._plan = ShedPlan()
        self._pressure = Pressure()
        self._changed = 0  # when shedders were changed last
        self._short = False
        self._looks = 0

    def after(self, seen: Statistics, reports: Sequence[Report], running: Running, now: int) -> Guidance:
        """What to do after a micro-batch that has just been delivered."""
        promised = {query.query: query.qos for query in running.queries}
        self._began = {name: self._began.get(name, now) for name in promised}
        observation = self._monitor.look(seen, reports, running, now)
        self._looks += 1
        if running.draining or self._looks < FIRST:
            return Guidance()
        found = {name: standings(qos, observation.queries[name], now - self._began[name], LOOKAHEAD) for name, qos in promised.items()}
        return Guidance(tuple(self._shed(observation, running, found)))

    def _shed(self, seen: Observation, running: Running, found: dict[str, tuple[Standing, ...]]) -> list[Command]:
        """Shed what is missing for the latencies that must hold, or less than before."""
        promises = [(query.qos, seen.time - self._began[query.query]) for query in running.queries]
        seconds = target(promises, seen.machine.fixed)
        if seconds is None or not any(qos.error for qos, _ in promises):
            return self._order((), seen, running, "no latency must hold") if running.shedders else []
        self._press(found)
        room = max(seen.machine.room(seconds) / seconds, 1e-6)
        could = shedding_plan(running, facts_of(seen, running), speed=room)
        load = could.load * (1.0 + self._pressure.value)
        self._plan = decide(self._plan, load, could.places)
        self._note_shortfall(seen.time, load)
        wanted = tuple(
            ShedAt(one.reader, one.port, min(rounded(one.share), _bearable(running, one)), one.shedding, one.query)
            for one in could.shedders(self._plan, running)
            if one.share > GRAIN / 2
        )
        pressed = f", corrected by {self._pressure.value:+.0%}" if self._pressure.value else ""
        return self._order(wanted, seen, running, f"load {load:.2f} of what micro-batches of {seconds * 1e3:.0f} ms can do{pressed}")

    def _press(self, found: dict[str, tuple[Standing, ...]]) -> None:
        must = [each for standing in found.values() for each in standing if each.measure == "latency" and each.strictness.value == "MUST"]
        if must:
            self._pressure = self._pressure.after(is_broken=any(not each.is_kept for each in must), slack=min(each.slack for each in must))

    def _order(self, wanted: tuple[ShedAt, ...], seen: Observation, running: Running, reason: str) -> list[Command]:
        before = {one.arc: one for one in running.shedders}
        after = {one.arc: one for one in wanted}
        changes = [arc for arc in before.keys() | after.keys() if abs(_share(before.get(arc)) - _share(after.get(arc))) > GRAIN / 2]
        if not changes:
            return []
        more = any(_share(after.get(arc)) > _share(before.get(arc)) for arc in changes)
        if not more and seen.time - self._changed < EVERY:
            return []
        self._changed = seen.time
        for arc in sorted(changes):
            told = after.get(arc) or before[arc]
            self.decisions.add(Decision(seen.time, told.query, f"shed {_share(after.get(arc)):.0%} before {arc[0]}", reason))
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


def _share(shedder: ShedAt | None) -> float:
    return 0.0 if shedder is None else shedder.share


def _bearable(running: Running, shedder: ShedAt) -> float:
    qos: Qos = running.promises()[shedder.query]
    return qos.error or 0.0
