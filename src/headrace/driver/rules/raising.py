"""When an event that rules raise cannot happen any more: rules write it, so it ends after them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.commands.running import Running
from headrace.driver.progress import Progress
from headrace.graph.graph import VertexId
from headrace.model.action import RaiseEvent
from headrace.model.time import BEGIN, END


def raisers(running: Running) -> dict[str, list[VertexId]]:
    """The outputs of the rules that raise each event."""
    found: dict[str, list[VertexId]] = {}
    for query in running.queries:
        for action in query.reaction.actions if query.reaction is not None else ():
            if isinstance(action, RaiseEvent):
                found.setdefault(action.event, []).append(query.output)
    return found


def feeders(running: Running) -> dict[str, set[str]]:
    """For each raised event the streams, raised events among them, that it depends on, directly or through other rules."""
    direct: dict[str, set[str]] = {}
    for query in running.queries:
        for action in query.reaction.actions if query.reaction is not None else ():
            if isinstance(action, RaiseEvent):
                direct.setdefault(action.event, set()).update(stream.name for stream in query.streams)
    found = {event: set(streams) for event, streams in direct.items()}
    while True:
        wider = {
            event: streams.union(*(found.get(name, set()) for name in streams)) for event, streams in found.items()
        }
        if wider == found:
            return found
        found = wider


def is_over(event: str, feeders: Mapping[str, set[str]], ended: Mapping[str, bool], progress: Progress) -> bool:
    """Whether no rule can raise an event again, all streams being drained; `ended` says which streams had ended a micro-batch ago.

    A rule that depends on its own event waits for it. Such a circle is over when all that feeds it from outside has ended and it has come to rest.
    """
    mine = feeders.get(event)
    if mine is None or progress.raised.get(event, BEGIN) >= END:
        return True
    circle = {name for name in mine if event in feeders.get(name, ())}
    outside = mine - circle
    return (
        bool(circle)
        and not progress.unread
        and not circle & set(progress.raising)
        and all(ended.get(name, False) for name in outside)
    )
