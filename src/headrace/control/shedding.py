"""How much is shed where, so that what MUST hold does: latencies, memory, and throughput."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.analysis.shedding.decision import MARGIN, ActiveSheds, decide
from headrace.analysis.shedding.from_running import shed_options
from headrace.commands.command import Command, ShedAt, UseShedders
from headrace.commands.running import Running
from headrace.commands.running_graph import names_in
from headrace.control.decisions import Decision, NoteShortfall, Overload, ShedBefore
from headrace.control.memory_shares import MemoryShare, memory_shares, memory_shedders
from headrace.control.policies.relief import SHARE_STEP, Pressure, rounded, target
from headrace.control.promise_checks import PromiseCheck
from headrace.control.situation import Situation, facts_of, must, pressed, short_of_results
from headrace.graph.graph import Arc
from headrace.model.qos import Strictness
from headrace.model.time import SECOND

#: Shedding is reduced at most so often (microseconds); it is increased at once.
REDUCE_INTERVAL = 2 * SECOND


class SheddingMemory(Struct, frozen=True):
    """What is shed, the correction of the load, when shedders changed last, and whether shedding is not enough.

    `shares` is what queries shed for the memory that they promise, `short` are those whose throughput others shed for.
    """

    active: ActiveSheds = ActiveSheds()
    pressure: Pressure = Pressure()
    changed_at: int = 0
    is_short: bool = False
    shares: Mapping[str, MemoryShare] = {}
    short: frozenset[str] = frozenset()


def shed(memory: SheddingMemory, situation: Situation) -> tuple[SheddingMemory, list[Command], list[Decision]]:
    """Shed what exceeds the capacity that MUST latencies leave or the memory that MUST suffice, or less than before.

    For a throughput, others shed what exceeds the whole capacity.
    """
    running = situation.running
    if not any(qos.error for qos, _ in situation.promises.values()):
        return _change_shedders(memory, (), situation, None) if running.shedders else (memory, [], [])
    memory, shedders, overload, noted = _for_load(memory, situation)
    shares = memory_shares(memory.shares, situation)
    for_memory = memory_shedders(running, shares, shedders) if shares else ()
    is_changed = shares != memory.shares
    memory = replace(memory, shares=shares)
    if not shedders and not for_memory and not running.shedders:
        return memory, [], noted
    memory, commands, changes = _change_shedders(
        memory, (*shedders, *for_memory), situation, overload, at_once=is_changed
    )
    return memory, commands, [*noted, *changes]


def _for_load(
    memory: SheddingMemory, situation: Situation
) -> tuple[SheddingMemory, tuple[ShedAt, ...], Overload | None, list[Decision]]:
    """Return the shedders that MUST latencies need, or else those of other queries that a MUST throughput needs."""
    observation, running = situation.observation, situation.running
    seconds = target(situation.promises.values(), observation.machine.fixed)
    lacking = short_of_results(situation).keys()
    short = memory.short.intersection(running.promises()) | lacking
    if seconds is None and not short:
        return replace(memory, active=ActiveSheds(), short=short), (), None, []
    pressure = pressed(memory.pressure, situation, (Strictness.MUST,))
    if seconds is None or lacking:  # what is not read is no part of the load: that there is more shows in the results
        pressure = memory.pressure.after(is_broken=bool(lacking), slack=1.0)
    room = max(capacity_of(situation), 1e-6)
    bears = {query.query: 0.0 if query.query in short else query.qos.error or 0.0 for query in running.queries}
    options = shed_options(running, facts_of(observation, running), speed=room, bears=bears)
    load = options.load * (1.0 + pressure.value)
    active = decide(memory.active, load, options.places)
    if load < 1.0 - MARGIN:  # all that comes is processed without shedding
        short = frozenset()
    memory, noted = _note_shortfall(replace(memory, pressure=pressure, active=active, short=short), load)
    shedders = tuple(
        replace(shedder, share=min(rounded(shedder.share), _tolerance(running, shedder)))
        for shedder in options.shedders(active, running)
        if shedder.share > SHARE_STEP / 2
    )
    return memory, shedders, Overload(load, seconds, pressure.value), noted


def capacity_of(situation: Situation) -> float:
    """Return the busy seconds per second for which there is time in micro-batches as long as MUST latencies allow."""
    machine = situation.observation.machine
    seconds = target(situation.promises.values(), machine.fixed)
    return machine.speed if seconds is None else machine.room(seconds) / seconds


def _change_shedders(
    memory: SheddingMemory,
    shedders: tuple[ShedAt, ...],
    situation: Situation,
    overload: Overload | None,
    *,
    at_once: bool = False,
) -> tuple[SheddingMemory, list[Command], list[Decision]]:
    """Put other shedders in force, if they differ enough from those that are; `at_once` also if they drop less."""
    before = {shedder.arc: shedder for shedder in situation.running.shedders}
    after = {shedder.arc: shedder for shedder in shedders}
    changed = [
        arc for arc in before.keys() | after.keys() if abs(_share(before, arc) - _share(after, arc)) > SHARE_STEP / 2
    ]
    if not changed:
        return memory, [], []
    is_more = any(_share(after, arc) > _share(before, arc) for arc in changed)
    if not is_more and not at_once and situation.observation.time - memory.changed_at < REDUCE_INTERVAL:
        return memory, [], []
    names = names_in(situation.running)
    decisions: list[Decision] = [
        ShedBefore(query, names[arc[0]], _share(after, arc), overload, _memory_of(memory, query, situation))
        for arc in sorted(changed)
        for query in [(after.get(arc) or before[arc]).query]
    ]
    return replace(memory, changed_at=situation.observation.time), [UseShedders(shedders)], decisions


def _memory_of(memory: SheddingMemory, query: str, situation: Situation) -> PromiseCheck | None:
    """Return the memory that a query sheds for; None if it sheds for something else."""
    return must(situation, query, "memory") if query in memory.shares else None


def _note_shortfall(memory: SheddingMemory, load: float) -> tuple[SheddingMemory, list[Decision]]:
    """Note when shedding begins or ends not to be enough."""
    shortfall = memory.active.shortfall
    if (shortfall > 0) == memory.is_short:
        return memory, []
    return replace(memory, is_short=shortfall > 0), [NoteShortfall(load, shortfall)]


def _share(shedders: Mapping[Arc, ShedAt], arc: Arc) -> float:
    return shedders[arc].share if arc in shedders else 0.0


def _tolerance(running: Running, shedder: ShedAt) -> float:
    return running.promises()[shedder.query].error or 0.0
