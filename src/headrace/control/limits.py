"""How much micro-batches do and read: a work budget, streams that are left unread, and deferred operators.

These let queries that may wait make room for queries with a strict latency promise.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from headrace.analysis.forecast.priorities import is_strict
from headrace.commands.command import Command, UseDeferrals
from headrace.commands.running import Running
from headrace.commands.running_graph import names_in, placement_of
from headrace.control.decisions import CatchUp, Decision, Defer, EndDeferral, LeaveUnread, SetBudget
from headrace.control.policies.budget import (
    MEAN_OF_LONGEST,
    MIN_BUDGET_NS,
    SLACK,
    budget,
    differ,
    left_unread,
    overfull,
    portion,
)
from headrace.control.policies.deferral import deferrals
from headrace.control.policies.relief import Pressure
from headrace.control.situation import Situation, pressed, reading_work, work_in
from headrace.engine.scheduling.in_force import urgent_in
from headrace.model.qos import Strictness


class WorkLimits(Struct, frozen=True):
    """Limits of the next micro-batches: nanoseconds of work per bucket (None: no limit), and tuples of streams."""

    budget: int | None = None
    streams: dict[str, int] = {}


class LimitsMemory(Struct, frozen=True):
    """The budget in force, the streams left unread, and how far micro-batches exceeded their plan.

    `catching_up` are the queries whose waiting work is done in portions although a latency suffers from it.
    """

    pressure: Pressure = Pressure(slack=SLACK)
    budget: int | None = None
    unread: frozenset[str] = frozenset()
    catching_up: frozenset[str] = frozenset()

    def may_wait(self, running: Running) -> frozenset[str]:
        """Return the queries that wait for others; all of them under a budget that is the same for all."""
        if self.budget is None:
            return frozenset()
        is_for_all = not urgent_in(running)
        return frozenset(query.query for query in running.queries if is_for_all or not is_strict(query.qos))


def limit_work(
    memory: LimitsMemory, situation: Situation, *, costs_known: bool
) -> tuple[LimitsMemory, list[Decision], WorkLimits | None]:
    """Choose a budget and the streams to leave unread; None: as before, there is no limit."""
    pressure = pressed(memory.pressure, situation, (Strictness.MUST, Strictness.BEST_EFFORT), share=MEAN_OF_LONGEST)
    chosen = _budget(situation, pressure.value, costs_known=costs_known)
    if chosen is None and memory.budget is None:
        return replace(memory, pressure=pressure), [], None
    catching_up = frozenset[str]()
    if situation.running.budget.mode == "auto":
        catching_up = _catching_up(memory, situation)
        is_ending = chosen is None and situation.observation.unread > 0  # what waits is done in portions first
        if is_ending or (catching_up and chosen is not None):
            chosen = max(
                chosen or 0, portion(situation.observation.machine, _committed(situation), _buckets(situation))
            )
    decisions: list[Decision] = []
    if situation.running.budget.mode == "auto" and (chosen is None) != (memory.budget is None):
        is_needed = differ(situation.running.promises().values())
        decisions = [SetBudget(chosen, scheduled=chosen is not None and not is_needed)]
    waiting = {name: query.waiting for name, query in situation.observation.queries.items()}
    decisions += [
        CatchUp(name, waiting.get(name, 0), ends=name not in catching_up)
        for name in sorted(catching_up ^ memory.catching_up)
        if name in waiting
    ]
    memory = replace(memory, pressure=pressure, budget=chosen, catching_up=catching_up)
    unread, changes = _leave_unread(memory, situation)
    memory = replace(memory, unread=unread)
    return memory, decisions + changes, WorkLimits(chosen, dict.fromkeys(sorted(unread), 0))


def defer(memory: LimitsMemory, situation: Situation) -> tuple[list[Command], list[Decision]]:
    """Move expensive work of the ingest that may wait into the buckets, and back."""
    running = situation.running
    if memory.budget is None and not running.deferrals:
        return [], []
    ingest = placement_of(running).ingest.by_id()
    work = {name: seconds for name, seconds in work_in(situation.observation, running).items() if name in ingest}
    before, after = running.deferrals, deferrals(running, work, memory.may_wait(running))
    if before == after:
        return [], []
    names = names_in(running)
    begun = [Defer(names[new.vertex], work[new.vertex]) for new in after if new not in before]
    ended = [EndDeferral(names[old.vertex]) for old in before if old not in after]
    return [UseDeferrals(after)], [*begun, *ended]


def _budget(situation: Situation, pressure: float, *, costs_known: bool) -> int | None:
    """Return the budget that a user set, or the one that promises and schedulers need."""
    observation, running = situation.observation, situation.running
    match running.budget.mode:
        case "off":
            return None
        case "fixed":
            return running.budget.nanoseconds
        case "auto":
            pass
    chosen = budget(
        situation.promises,
        observation.machine,
        _committed(situation),
        _buckets(situation),
        pressure=pressure,
        is_scheduled=running.is_scheduled,
    )
    return chosen if chosen is None or costs_known else MIN_BUDGET_NS


def _committed(situation: Situation) -> float:
    """Return the busy seconds per second of reading, the ingest, and urgent queries."""
    observation, running = situation.observation, situation.running
    work, at_once = work_in(observation, running), placement_of(running).ingest.by_id().keys() | urgent_in(running)
    return reading_work(observation, running) + sum(work[name] for name in at_once if name in work)


def _buckets(situation: Situation) -> int:
    return max(1, situation.observation.buckets)


def _catching_up(memory: LimitsMemory, situation: Situation) -> frozenset[str]:
    """Return the queries for which too much waits, if no latency MUST hold that would suffer from catching up."""
    if any(query.qos.latency is not None and query.qos.latency.is_must for query in situation.running.queries):
        return frozenset()
    waiting = {name: query.waiting for name, query in situation.observation.queries.items()}
    return overfull(waiting, memory.may_wait(situation.running), memory.catching_up)


def _leave_unread(memory: LimitsMemory, situation: Situation) -> tuple[frozenset[str], list[Decision]]:
    """Return the streams to leave unread, and what that changes: tuples that may wait can wait in their source."""
    readers: dict[str, frozenset[str]] = {}
    for query in situation.running.queries:
        for stream in query.streams:
            readers[stream.name] = readers.get(stream.name, frozenset()) | {query.query}
    waiting = {name: query.waiting for name, query in situation.observation.queries.items()}
    unread = left_unread(readers, waiting, memory.may_wait(situation.running), memory.unread)
    most = {
        name: max((waiting.get(query, 0) for query in readers.get(name, ())), default=0)
        for name in unread | memory.unread
    }
    changed = sorted(unread ^ memory.unread)
    return unread, [LeaveUnread(name, name in unread, most[name]) for name in changed]
