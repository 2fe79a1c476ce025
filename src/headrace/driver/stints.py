"""Starts and stops queries after a micro-batch, as commands: by schedule, by events, and when a stint has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.commands.command import AddQuery, Command, EndQuery, StartQuery, StopQuery
from headrace.commands.running import Running
from headrace.graph.graph import Graph
from headrace.model.stint import Stint
from headrace.model.time import BEGIN, END
from headrace.worker.wire import Report


def stint_commands(reports: Sequence[Report], running: Running) -> list[Command]:
    """Return what to send after a micro-batch; sending it twice has the same effect as once."""
    if not (running.ending or any(not query.activation.is_manual for query in running.known)):
        return []
    now = max((report.time for report in reports), default=BEGIN)
    noticed = {name for report in reports for name in report.noticed}
    begun = begun_in(reports, running)
    on = {query.query for query in begun.queries if query.stint is None or query.stint.begin <= now}
    return [
        *(StartQuery(early.stint) for early in begun.early if early not in running.early and early.stint is not None),
        *_ended(reports, running),
        *_stops(reports, begun, noticed, now),
        *_besides(begun, on, now),
        *_starts(reports, running.stopped, noticed, now),
    ]


def begun_in(reports: Iterable[Report], running: Running) -> Running:
    """Return what is in force with the stints that began in a micro-batch because their tuples came."""
    for stint in dict.fromkeys(stint for report in reports for stint in report.begun):
        running = running.begin(stint)
    return running


def start_command(query: AddQuery, now: int) -> StartQuery:
    """Return the command that starts a query now; it stops at the next time that its schedule names."""
    schedule = query.activation.schedule
    end = END if schedule is None else schedule.stop_after(now)
    return StartQuery(Stint(query.query, query.number + 1, BEGIN, end))


def _ended(reports: Sequence[Report], running: Running) -> Iterable[Command]:
    for query in running.ending:
        if reports and all(report.bounds.get(query.output, BEGIN) >= END for report in reports):
            yield EndQuery(query.query, query.number)


def _stops(reports: Sequence[Report], running: Running, noticed: set[str], now: int) -> Iterable[Command]:
    for query in running.queries:
        if _happened(query.activation.stop_on, noticed):
            yield StopQuery(query.query, query.number)
        elif _is_over(query, reports):
            yield from _next(query, running.early_of(query.query), _reached(query, reports), now)


def _next(query: AddQuery, early: Sequence[AddQuery], reached: int, now: int) -> Iterable[Command]:
    """Stop a stint that is over, and those after it that are, too; the next one by the schedule takes their place."""
    stint, schedule = query.stint, query.activation.schedule
    assert stint is not None
    following = None
    if schedule is not None and schedule.every is not None and reached < END:
        span = schedule.following(_after(stint, now), reached)
        following = None if span is None else schedule.after(stint, span[0])
    if following is not None and all(other.number != following.number for other in early):
        yield StartQuery(following)
    for ended in (query, *early):
        if following is None or ended.number < following.number:
            yield StopQuery(query.query, ended.number)


def _is_over(query: AddQuery, reports: Sequence[Report]) -> bool:
    """Return whether no tuple of its stint can come any more."""
    return query.stint is not None and query.stint.end < END and _reached(query, reports) >= query.stint.end


def _reached(query: AddQuery, reports: Sequence[Report]) -> int:
    """Return how far the slowest stream of a query has come; one without tuples goes by the clock, if that counts."""
    return min(
        (
            report.reached.get(stream.name, report.time - stream.skew if query.ends_by_clock else BEGIN)
            for report in reports
            for stream in query.streams
        ),
        default=BEGIN,
    )


def _besides(running: Running, on: set[str], now: int) -> Iterable[Command]:
    """Start queries when all those that they are beside are on, and stop them when one is off."""
    for query in running.stopped:
        if query.activation.beside and on.issuperset(query.activation.beside) and query.query not in running.suspended:
            yield start_command(query, now)
    for query in running.queries:
        if not on.issuperset(query.activation.beside):
            yield StopQuery(query.query, query.number)


def _starts(reports: Sequence[Report], queries: Iterable[AddQuery], noticed: set[str], now: int) -> Iterable[Command]:
    for query in queries:
        schedule = query.activation.schedule
        if _happened(query.activation.start_on, noticed):
            yield start_command(query, now)
        elif schedule is not None:
            span = schedule.following(
                now if query.stint is None else _after(query.stint, now), _reached(query, reports)
            )
            if span is not None:
                yield StartQuery(Stint(query.query, query.number + 1, *span))


def _after(stint: Stint, now: int) -> int:
    """Return when the next stint may begin: perhaps before now if this one ended in time, for more is to be read."""
    return max(stint.begin + 1, min(now, stint.end))


def _happened(watched: Graph | None, noticed: set[str]) -> bool:
    return watched is not None and watched.vertices[-1].id in noticed
