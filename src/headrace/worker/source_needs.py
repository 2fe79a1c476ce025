"""What the ingest needs of each stream: the columns that it reads, and the tuples that it can leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from headrace.catalog.definitions import Stream
from headrace.commands.running import Running
from headrace.commands.running_graph import invariants_in, spread_in, whole_of
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.expressions.expression import columns
from headrace.model.patterns.pattern import Pattern, covers, intersect, is_empty
from headrace.model.streams import late_stream
from headrace.operators.specs import Scan


class Needed:
    """The columns and tuples that queries need of streams; the driver limits what is read by it, a task reads by it."""

    def __init__(self, ingest: Graph, streams: Mapping[str, Stream], running: Running | None) -> None:
        self._streams, self._running = streams, running
        self._agreed: dict[str, list[Pattern]] = {}
        self.scans: dict[str, list[Vertex]] = {}
        for vertex in ingest:
            if isinstance(vertex.spec, Scan):
                self.scans.setdefault(vertex.spec.stream, []).append(vertex)

    @cached_property
    def _left_out(self) -> Mapping[VertexId, Sequence[Pattern]]:
        return (
            {}
            if self._running is None
            else spread_in(self._running, invariants_in(self._running)).of_sources(whole_of(self._running))
        )

    def columns(self, stream: str) -> tuple[str, ...] | None:
        """Return the columns of a stream's records that any scan reads (None: all)."""
        definition = self._streams.get(stream)
        if definition is None or late_stream(stream) in self.scans:
            return None
        used = {
            column
            for vertex in self.scans.get(stream, [])
            if isinstance(vertex.spec, Scan)
            for column in vertex.spec.columns
        }
        used |= {definition.time_column} if definition.time_column else set()
        for name, expr in definition.computed:
            used |= columns(expr) if name in used else set()
        return tuple(name for name in definition.recorded.schema.names if name in used)

    def unneeded(self, stream: str) -> list[Pattern]:
        """Return the tuples that no scan of a stream needs; scans read different columns, but the same tuples."""
        if stream not in self._agreed:
            self._agreed[stream] = self._agree(stream)
        return self._agreed[stream]

    def _agree(self, stream: str) -> list[Pattern]:
        """Return what all scans of a stream can do without, as far as records tell it before they are read."""
        definition = self._streams.get(stream)
        computed = set() if definition is None else {name for name, _ in definition.computed}
        if definition is not None and definition.time_column in computed:
            return []  # time must go on, and what is not read does not tell it
        return [pattern for pattern in self._agreed_by_scans(stream) if not pattern.names & computed]

    def _agreed_by_scans(self, stream: str) -> list[Pattern]:
        running = self._running
        if running is None or not (running.assumptions() or running.relays) or late_stream(stream) in self.scans:
            return []
        by_scan = [list(self._left_out.get(scan.id, ())) for scan in self.scans.get(stream, [])]
        agreed = by_scan[0] if by_scan else []
        for others in by_scan[1:]:
            both = [intersect(mine, other) for mine in agreed for other in others]
            agreed = [
                pattern
                for place, pattern in enumerate(both)
                if not is_empty(pattern) and not any(covers(other, pattern) for other in both[:place])
            ]
        return agreed
