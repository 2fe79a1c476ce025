"""The time of events that rules raise: such an event comes as far, and ends, as all rules that raise it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.commands.running import Running
from headrace.driver.progress import Progress
from headrace.graph.graph import VertexId
from headrace.model.action import RaiseEvent
from headrace.model.time import BEGIN, END


def raisers(running: Running) -> dict[str, list[VertexId]]:
    """Return the outputs of the rules that raise each event."""
    outputs: dict[str, list[VertexId]] = {}
    for query in running.queries:
        for action in query.reaction.actions if query.reaction is not None else ():
            if isinstance(action, RaiseEvent):
                outputs.setdefault(action.event, []).append(query.output)
    return outputs


def feeders(running: Running) -> dict[str, set[str]]:
    """Return the streams and raised events on which each raised event depends, directly or through other rules."""
    direct: dict[str, set[str]] = {}
    for query in running.queries:
        for action in query.reaction.actions if query.reaction is not None else ():
            if isinstance(action, RaiseEvent):
                direct.setdefault(action.event, set()).update(stream.name for stream in query.streams)
    reached = {event: set(streams) for event, streams in direct.items()}
    while True:
        wider = {
            event: streams.union(*(reached.get(name, set()) for name in streams)) for event, streams in reached.items()
        }
        if wider == reached:
            return reached
        reached = wider


def caused_bounds(
    running: Running, bounds: Mapping[VertexId, int], raised: Mapping[str, int], *, has_backlog: bool
) -> dict[str, int]:
    """Return bounds on the times of the raised events that are still to come, after a micro-batch.

    `bounds` are those of the results of rules, `raised` has the earliest time of each event that the micro-batch
    raised. An event is not earlier than what leads to it. So in a cycle of rules, the bound is the least of the rules
    outside and of the events on their way.
    """
    reached, outputs = feeders(running), raisers(running)
    reads = {query.output: {stream.name for stream in query.streams} for query in running.queries}
    caused: dict[str, int] = {}
    for event, streams in reached.items():
        cycle = {name for name in streams if event in reached.get(name, ())}
        rules = {output for name in cycle or {event} for output in outputs.get(name, ())}
        outside = [
            output
            for output in rules
            if not any(name in cycle or cycle & reached.get(name, set()) for name in reads[output])
        ]
        bound = min((bounds.get(output, BEGIN) for output in outside), default=BEGIN)
        if cycle:
            bound = BEGIN if has_backlog else min([bound, *(raised[name] for name in cycle if name in raised)])
        caused[event] = bound
    return caused


def is_over(event: str, feeders: Mapping[str, set[str]], ended: Mapping[str, bool], progress: Progress) -> bool:
    """Return whether no rule can raise an event again while streams are drained; `ended`: a micro-batch ago.

    A rule that depends on its own event waits for it. Such a cycle is over when all its other inputs have ended and
    the last micro-batch raised none of its events.
    """
    mine = feeders.get(event)
    if mine is None or progress.raised.get(event, BEGIN) >= END:
        return True
    cycle = {name for name in mine if event in feeders.get(name, ())}
    outside = mine - cycle
    return (
        bool(cycle)
        and not progress.unread
        and not cycle & set(progress.raising)
        and all(ended.get(name, False) for name in outside)
    )
