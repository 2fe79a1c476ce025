"""The controller: what changes after a micro-batch so that promises hold.

A pure function of what is remembered and observed. Its decisions reach the buckets as commands, so a repeated
micro-batch sees the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.commands.command import Command
from headrace.commands.running import Running
from headrace.control.decisions import Decision
from headrace.control.limits import LimitsMemory, WorkLimits, defer, limit_work
from headrace.control.observation import Observation
from headrace.control.planning import PlanningMemory, boxes_of, plan_joins
from headrace.control.scheduling import SchedulingMemory, schedule
from headrace.control.shedding import SheddingMemory, shed
from headrace.control.situation import situation_of
from headrace.control.suspension import SuspensionMemory, suspend


class Memory(Struct, frozen=True):
    """What the controller remembers from one micro-batch to the next; `began` is when it first saw each query."""

    began: Mapping[str, int] = {}
    limiting: LimitsMemory = LimitsMemory()
    scheduling: SchedulingMemory = SchedulingMemory()
    shedding: SheddingMemory = SheddingMemory()
    suspending: SuspensionMemory = SuspensionMemory()
    planning: PlanningMemory = PlanningMemory()


class Guidance(Struct, frozen=True):
    """What the controller remembers, changes and decides; `limits` is None if they stay as they are."""

    memory: Memory
    commands: tuple[Command, ...] = ()
    decisions: tuple[Decision, ...] = ()
    limits: WorkLimits | None = None


def control(memory: Memory, observation: Observation, running: Running) -> Guidance:
    """Decide what changes after a micro-batch."""
    memory = replace(
        memory, began={query.query: memory.began.get(query.query, observation.time) for query in running.queries}
    )
    if running.draining:
        return Guidance(memory, limits=WorkLimits())  # no tuple arrives any more that could be urgent
    situation = situation_of(observation, running, memory.began)
    limiting, limited, limits = limit_work(memory.limiting, situation, costs_known=bool(memory.scheduling.costs))
    scheduling, commands, scheduled = schedule(memory.scheduling, situation, limits)
    deferrals, deferred = defer(limiting, situation)
    commands, decisions = commands + deferrals, limited + scheduled + deferred
    shedding, suspending, planning = memory.shedding, memory.suspending, memory.planning
    if not observation.is_first:
        shedding, shedders, changes = shed(shedding, situation)
        suspending, stops, suspended = suspend(suspending, situation, shedding)
        planning, trees, plans = plan_joins(planning, situation, boxes_of(running, observation.buckets))
        commands, decisions = commands + shedders + stops + trees, decisions + changes + suspended + plans
    memory = Memory(memory.began, limiting, scheduling, shedding, suspending, planning)
    return Guidance(memory, tuple(commands), tuple(decisions), limits)
