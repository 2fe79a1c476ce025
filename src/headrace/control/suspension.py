"""Which queries are suspended: promises of others that MUST hold are broken otherwise, or too much waits for them.

A suspended query is stopped as by STOP and resumed as by START: what its windows held comes out when it is suspended,
and it begins with empty state. It misses the tuples of the meantime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.analysis.forecast.priorities import is_strict
from headrace.commands.command import AddQuery, Command, StartQuery, StopQuery, Suspension
from headrace.commands.running import Running
from headrace.commands.running_graph import sharing_in_transit
from headrace.commands.shedders_in_force import readers_of
from headrace.control.decisions import Decision, Resume, Suspend
from headrace.control.policies.budget import MAX_WAITING
from headrace.control.promise_checks import PromiseCheck
from headrace.control.shedding import SheddingMemory, capacity_of
from headrace.control.situation import Situation, must, reading_work, short_of_results, work_in
from headrace.engine.scheduling.in_force import weight_of
from headrace.model.qos import METRICS, Qos
from headrace.model.stint import Stint
from headrace.model.time import MINUTE, SECOND

#: A promise must have been broken for so long (microseconds) before a query is suspended for it, or another one.
PATIENCE = 20 * SECOND
#: Promises must have been kept for so long before a query is resumed; twice as long after each further suspension.
REST, LONGEST_REST = 30 * SECOND, 10 * MINUTE
#: The load below which a broken promise is not blamed on other queries, and the load up to which one is resumed.
MIN_LOAD, RESUME_LOAD = 0.7, 0.8
#: A latency below this multiple of the fixed part of a micro-batch cannot be kept, whatever is suspended.
SHORTEST = 2.5
#: A query with less work of its own (busy seconds per second) is not suspended: that would not help.
MIN_WORK = 0.02
#: A query is suspended if more tuples than this wait for it. Streams that others do not read are left unread before.
LARGEST_BACKLOG = 10 * MAX_WAITING


class SuspensionMemory(Struct, frozen=True):
    """Since when a promise is broken, or all are kept (microseconds), and how often queries were suspended."""

    broken_since: int | None = None
    kept_since: int | None = None
    times: Mapping[str, int] = {}


def suspend(
    memory: SuspensionMemory, situation: Situation, shedding: SheddingMemory
) -> tuple[SuspensionMemory, list[Command], list[Decision]]:
    """Suspend the least important query if a promise that MUST hold stays broken, or resume one that there is room for.

    Only one at a time: its effect must be seen before the next.
    """
    now, running = situation.observation.time, situation.running
    known = {query.query for query in running.known}
    memory = replace(memory, times={name: count for name, count in memory.times.items() if name in known})
    backlog = _overfull(situation)
    if backlog is not None:
        return _stop(memory, situation, backlog)
    broken = _broken(situation)
    if broken is None:
        memory = replace(memory, broken_since=None, kept_since=now if memory.kept_since is None else memory.kept_since)
        return _resume(memory, situation, shedding)
    memory = replace(memory, kept_since=None, broken_since=now if memory.broken_since is None else memory.broken_since)
    is_shed = shedding.active.shortfall > 0 or not any(query.qos.error for query in running.queries)
    if not is_shed or now - (memory.broken_since or now) < PATIENCE or _load(situation) < MIN_LOAD:
        return memory, [], []
    victim = _least_important(situation)
    if victim is None:
        return memory, [], []
    query, work = victim
    strict, check = broken
    return _stop(memory, situation, Suspend(query.query, f"{strict}: {check}", work))


def _stop(
    memory: SuspensionMemory, situation: Situation, decision: Suspend
) -> tuple[SuspensionMemory, list[Command], list[Decision]]:
    """Suspend a query, and wait for the effect."""
    now, name = situation.observation.time, decision.query
    query = next(query for query in situation.running.queries if query.query == name)
    command = StopQuery(name, query.number, Suspension(decision.cause, now, decision.work))
    times = {**memory.times, name: memory.times.get(name, 0) + 1}
    return SuspensionMemory(now, None, times), [command], [decision]


def has_must(qos: Qos) -> bool:
    """Return whether a promise MUST hold."""
    return any(promise is not None and promise.is_must for promise in map(qos.promise, METRICS))


def _overfull(situation: Situation) -> Suspend | None:
    """Return the suspension of a query for which tuples wait without end, because its streams are read for others."""
    waiting = {
        name: query.waiting for name, query in situation.observation.queries.items() if query.waiting > LARGEST_BACKLOG
    }
    for query, work in _ranked(situation) if waiting else ():
        if query.query in waiting:
            cause = f"{waiting[query.query]:,} tuples wait for it, more than may"
            return Suspend(query.query, cause, work, waiting[query.query])
    return None


def _broken(situation: Situation) -> tuple[str, PromiseCheck] | None:
    """Return a query with a latency or throughput that MUST hold and does not, but could."""
    least = SHORTEST * situation.observation.machine.fixed * SECOND
    for query in situation.running.queries:
        check = must(situation, query.query, "latency")
        if check is not None and not check.is_kept and check.expected >= least:
            return query.query, check
    return next(iter(short_of_results(situation).items()), None)


def _resume(
    memory: SuspensionMemory, situation: Situation, shedding: SheddingMemory
) -> tuple[SuspensionMemory, list[Command], list[Decision]]:
    """Resume the most important suspended query, if promises have been kept for long enough and would be with it."""
    now, running = situation.observation.time, situation.running
    suspended = [query for query in running.stopped if query.query in running.suspended]
    if not suspended:
        return memory, [], []
    chosen = max(suspended, key=lambda query: (has_must(query.qos), weight_of(query.qos), query.query))
    others_first = any(has_must(query.qos) or is_strict(query.qos) for query in running.queries)
    is_free = has_must(chosen.qos) or not others_first
    load = None if is_free else _load(situation, more=running.suspended[chosen.query].work)
    rest = min(LONGEST_REST, REST * 2 ** max(0, memory.times.get(chosen.query, 1) - 1))
    is_rested = now - (memory.kept_since or now) >= rest and not shedding.active.sheds
    if load is not None and (load > RESUME_LOAD or not is_rested):
        return memory, [], []
    command = StartQuery(Stint(chosen.query, chosen.number + 1))
    return replace(memory, kept_since=now), [command], [Resume(chosen.query, load)]


def _load(situation: Situation, *, more: float = 0.0) -> float:
    """Return the load of everything that comes, and of more work."""
    observation, running = situation.observation, situation.running
    work = sum(work_in(observation, running).values()) + reading_work(observation, running)
    return (work + more) / max(capacity_of(situation), 1e-6)


def _least_important(situation: Situation) -> tuple[AddQuery, float] | None:
    """Return the query to suspend, with its own work; None if none would help."""
    return next(((query, work) for query, work in _ranked(situation) if work >= MIN_WORK), None)


def _ranked(situation: Situation) -> list[tuple[AddQuery, float]]:
    """Return the queries that may be suspended, with their own work: the lowest weight first, of these the most work.

    A query that promises anything that MUST hold is never suspended, nor are rules and queries that turn themselves on
    and off.
    """
    running = situation.running
    may_be = [
        query
        for query in running.queries
        if not has_must(query.qos) and query.reaction is None and query.activation.is_manual
    ]
    own = _own_work(situation, may_be)
    ranked = sorted(may_be, key=lambda query: (weight_of(query.qos), -own[query.query], query.query))
    return [(query, own[query.query]) for query in ranked if sharing_in_transit(query, running) is None]


def _own_work(situation: Situation, queries: Iterable[AddQuery]) -> dict[str, float]:
    """Return the busy seconds per second that would be saved without each of these queries."""
    observation, running = situation.observation, situation.running
    work, readers = work_in(observation, running), readers_of(running)
    streams = _readers_of_streams(running)
    return {
        query.query: sum(work[vertex.id] for vertex in query.graph if readers[vertex.id] == (query.query,))
        + observation.reading
        * sum(
            observation.rates.get(stream.name, 0.0) for stream in query.streams if streams[stream.name] == {query.query}
        )
        for query in queries
    }


def _readers_of_streams(running: Running) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = {}
    for query in running.queries:
        for stream in query.streams:
            readers.setdefault(stream.name, set()).add(query.query)
    return readers
