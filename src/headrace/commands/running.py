"""What runs after some commands: queries with what they promise, how they are scheduled, what is told, shed and left out."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headrace.commands.command import (
    AddQuery,
    Command,
    Cost,
    Drain,
    DropQuery,
    EndQuery,
    Relay,
    SetPromises,
    SetShedding,
    ShedAt,
    StartQuery,
    StopQuery,
    Tell,
    UseBreaks,
    UseCapacities,
    UseDeferrals,
    UseEligibility,
    UseEts,
    UseFairness,
    UseFeedback,
    UseRelays,
    UseScheduler,
    UseShedders,
    UseStrategy,
)
from headrace.graph.graph import VertexId
from headrace.graph.place import Deferral
from headrace.graph.stints import for_stint, has_exchange
from headrace.model.patterns.feedback import Intent
from headrace.model.patterns.pattern import Pattern
from headrace.model.qos import Qos
from headrace.model.stint import Stint


def assumed(running: Running) -> list[tuple[VertexId, Pattern]]:
    """What nobody needs, as the outputs that it was said of and patterns."""
    outputs = {query.query: query.output for query in running.queries}
    return [
        (outputs[told.query], told.feedback.pattern)
        for told in running.told
        if told.feedback.intent is Intent.ASSUMED and told.query in outputs
    ]


#: So many assumptions about one query are in force at most. More are ignored, which is always right; to forget one that buckets heed is not.
MOST_TOLD = 64


class Running(Struct, frozen=True):
    """The queries in force after some commands."""

    queries: tuple[AddQuery, ...] = ()
    ending: tuple[AddQuery, ...] = ()  # stints that were stopped and have not given their last result
    stopped: tuple[AddQuery, ...] = ()  # queries that are off
    draining: bool = False
    commands: int = 0  # how many have been taken
    ets: UseEts = UseEts()
    feedback: UseFeedback = UseFeedback()
    relays: tuple[Relay, ...] = ()
    told: tuple[Tell, ...] = ()  # what is not needed and what is wanted first, as long as it has not ended
    strategies: tuple[
        UseStrategy, ...
    ] = ()  # at most one for each query and one for all; a later one counts where queries share vertices

    breaks: tuple[UseBreaks, ...] = ()  # likewise
    shedders: tuple[ShedAt, ...] = ()  # as promises need; see graph.shedding for what is in force
    shedding: tuple[SetShedding, ...] = ()  # by hand, at most one for each query
    schedulers: tuple[UseScheduler, ...] = ()  # likewise
    fairness: UseFairness = UseFairness()
    eligibility: UseEligibility = UseEligibility()
    costs: dict[VertexId, Cost] = {}
    deferrals: tuple[Deferral, ...] = ()

    def after(self, command: Command) -> Running:
        taken = msgspec.structs.replace(self, commands=self.commands + 1, deferrals=self._deferred_after(command))
        match command:
            case AddQuery():
                queries, ending, stopped = (
                    _without(found, command.query) for found in (self.queries, self.ending, self.stopped)
                )
                if command.stint is None and not command.switch.is_manual:
                    return msgspec.structs.replace(taken, queries=queries, ending=ending, stopped=(*stopped, command))
                added = _apart(command, ending)
                return msgspec.structs.replace(taken, queries=(*queries, added), ending=ending, stopped=stopped)
            case StartQuery(stint=stint):
                found = next(
                    (query for query in self.stopped if query.query == stint.query and query.number < stint.number),
                    None,
                )
                if found is None:
                    return taken
                begun = msgspec.structs.replace(found, graph=for_stint(found.graph, stint), stint=stint)
                return msgspec.structs.replace(
                    taken, queries=(*self.queries, begun), stopped=_without(self.stopped, stint.query)
                )
            case StopQuery(query=name, number=number):
                found = next((query for query in self.queries if query.query == name and query.number == number), None)
                if found is None:
                    return taken
                queries, closed = _without(self.queries, name), closing(found)
                return msgspec.structs.replace(
                    taken, queries=queries, ending=(*self.ending, closed), stopped=(*self.stopped, closed)
                )
            case EndQuery(query=name, number=number):
                ending = tuple(query for query in self.ending if (query.query, query.number) != (name, number))
                return msgspec.structs.replace(taken, ending=ending)
            case DropQuery(query=name):
                queries, ending, stopped = (
                    _without(found, name) for found in (self.queries, self.ending, self.stopped)
                )
                strategies = tuple(chosen for chosen in self.strategies if chosen.query != name)
                breaks = tuple(chosen for chosen in self.breaks if chosen.query != name)
                schedulers = tuple(choice for choice in self.schedulers if choice.query != name)
                told = tuple(told for told in self.told if told.query != name)
                shedding = tuple(chosen for chosen in self.shedding if chosen.query != name)
                left = msgspec.structs.replace(
                    taken, queries=queries, ending=ending, stopped=stopped, shedding=shedding
                )
                return msgspec.structs.replace(
                    left, strategies=strategies, breaks=breaks, schedulers=schedulers, told=told
                )
            case Drain():
                return msgspec.structs.replace(taken, draining=True)
            case UseStrategy(query=name):
                strategies = tuple(chosen for chosen in self.strategies if chosen.query != name)
                return msgspec.structs.replace(taken, strategies=(*strategies, command))
            case UseBreaks(query=name):
                breaks = tuple(chosen for chosen in self.breaks if chosen.query != name)
                return msgspec.structs.replace(taken, breaks=(*breaks, command))
            case UseScheduler(query=name):
                schedulers = tuple(choice for choice in self.schedulers if choice.query != name)
                return msgspec.structs.replace(taken, schedulers=(*schedulers, command))
            case UseFairness():
                return msgspec.structs.replace(taken, fairness=command)
            case UseEligibility():
                return msgspec.structs.replace(taken, eligibility=command)
            case UseCapacities(stages=stages):
                return msgspec.structs.replace(taken, costs=stages)
            case UseDeferrals(deferrals=deferrals):
                return msgspec.structs.replace(taken, deferrals=deferrals)
            case UseEts():
                return msgspec.structs.replace(taken, ets=command)
            case SetPromises(query=name, qos=qos):
                queries, stopped = (
                    tuple(msgspec.structs.replace(query, qos=qos) if query.query == name else query for query in found)
                    for found in (self.queries, self.stopped)
                )
                return msgspec.structs.replace(taken, queries=queries, stopped=stopped)
            case Tell():
                return msgspec.structs.replace(taken, told=_with(self.told, command))
            case UseRelays(relays=relays):
                return msgspec.structs.replace(taken, relays=relays)
            case UseFeedback():
                return msgspec.structs.replace(taken, feedback=command)
            case UseShedders(shedders=shedders):
                return msgspec.structs.replace(taken, shedders=shedders)
            case SetShedding(query=name, share=share):
                others_set = tuple(chosen for chosen in self.shedding if chosen.query != name)
                return msgspec.structs.replace(taken, shedding=others_set if share is None else (*others_set, command))

    def _deferred_after(self, command: Command) -> tuple[Deferral, ...]:
        """What is deferred belongs to queries that have been there for a while; what another comes to share, or one leaves, is not put off."""
        match command:
            case AddQuery():
                touched = (command.graph, *command.switch.watched)
            case StartQuery(stint=Stint(query=name)) | StopQuery(query=name) | DropQuery(query=name):
                touched = tuple(query.graph for query in (*self.known, *self.ending) if query.query == name)
            case _:
                return self.deferrals
        names = {vertex.id for graph in touched for vertex in graph}
        return tuple(deferral for deferral in self.deferrals if deferral.vertex not in names)

    def own(self, query: str | None) -> set[VertexId]:
        """The vertices of a query; of None, all."""
        return {vertex.id for running in self.queries if query in (None, running.query) for vertex in running.graph}

    @property
    def working(self) -> tuple[AddQuery, ...]:
        """Queries that are on, and stints that are being ended."""
        return (*self.queries, *self.ending)

    @property
    def known(self) -> tuple[AddQuery, ...]:
        """Queries, on or off."""
        return (*self.queries, *self.stopped)

    def watched(self) -> dict[VertexId, str]:
        """The outputs of what is watched to turn queries on and off, and whose switch it is."""
        return {graph.vertices[-1].id: query.query for query in self.known for graph in query.switch.watched}

    def promises(self) -> dict[str, Qos]:
        """What each query promises now."""
        return {query.query: query.qos for query in self.queries}


def _without(queries: tuple[AddQuery, ...], name: str) -> tuple[AddQuery, ...]:
    return tuple(query for query in queries if query.query != name)


def closing(query: AddQuery) -> AddQuery:
    """A query whose streams are to end for it alone: a stint by itself, unless tuples of it are between two micro-batches and would be missed."""
    if query.stint is not None:
        return query
    stint = Stint(query.query, 1)
    apart = has_exchange(query.graph)
    return msgspec.structs.replace(query, graph=query.graph if apart else for_stint(query.graph, stint), stint=stint)


def _apart(query: AddQuery, ending: tuple[AddQuery, ...]) -> AddQuery:
    """A new query shares nothing with one that is being ended."""
    taken = {vertex.id for other in ending for vertex in other.graph}
    if query.stint is not None or not any(vertex.id in taken for vertex in query.graph):
        return query
    stint = Stint(query.query, 1)
    return msgspec.structs.replace(query, graph=for_stint(query.graph, stint), stint=stint)


def _with(told: tuple[Tell, ...], new: Tell) -> tuple[Tell, ...]:
    """What was told, without what has ended by now; of what is wanted first the newest counts, and a demand is met at once."""
    match new.feedback.intent:
        case Intent.DEMANDED:
            return told
        case Intent.DESIRED:
            left = [old for old in told if old.query != new.query or old.feedback.intent is not Intent.DESIRED]
        case Intent.ASSUMED:
            left = [old for old in told if old.query != new.query or old.until is None or old.until > new.since]
            mine = sum(old.query == new.query and old.feedback.intent is Intent.ASSUMED for old in left)
            if mine >= MOST_TOLD:
                return tuple(left)
    return (*left, new)
