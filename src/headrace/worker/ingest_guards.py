"""Feedback in the ingest: guards drop the tuples that no query needs, before they are routed."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.commands.running import Running
from headrace.commands.running_graph import invariants_in, spread_in
from headrace.engine.bounds.wakeup import upstream_sources
from headrace.engine.engine import Engine
from headrace.engine.feedback.guards import guards_of
from headrace.engine.observed import Observed
from headrace.model.time import BEGIN
from headrace.operators.specs import Scan
from headrace.worker.wire import GuardSeen


class IngestGuards:
    """The guards of an ingest engine; they end by the bounds of streams, since no bound passes through the ingest."""

    def __init__(self, engine: Engine, running: Running) -> None:
        self._engine = engine
        invariants = invariants_in(running)
        engine.guards.restore(guards_of(engine.graph, engine.taps, spread_in(running, invariants), invariants))
        streams = {vertex.id: vertex.spec.stream for vertex in engine.graph if isinstance(vertex.spec, Scan)}
        self._streams = {
            name: tuple(streams[source] for source in sources)
            for name, sources in upstream_sources(engine.graph).items()
        }

    def expire(self, floors: Mapping[str, int]) -> None:
        """End the guards that no further tuple can match, given lower bounds of what each stream still brings."""
        guards = self._engine.guards
        for arc in list(guards.by_arc):
            bound = min((floors.get(stream, BEGIN) for stream in self._streams[guards.origin(arc)]), default=BEGIN)
            guards.expire(arc, bound)

    def report(self, observed: Observed) -> list[GuardSeen]:
        """Return what each guard dropped since the last report."""
        reported = []
        for guards, ended in ((observed.guards, False), (observed.ended, True)):
            for guard in guards:
                reported.append(GuardSeen(guard.reader, str(guard.pattern), guard.until, guard.saved, ended))
                guard.saved = 0
        return reported
