"""The changes of plans of a checkpoint, with what each took: a durable list that SHOW MIGRATIONS reads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.commands.command import UseTree
from headrace.commands.running import Running
from headrace.graph.graph import Vertex, VertexId
from headrace.model.join_tree import Tree, format_tree, left_deep
from headrace.operators.multijoin.seen import BoxSeen, How, merged_boxes
from headrace.operators.specs import MultiJoin
from headrace.storage import sealed
from headrace.storage.lines import LineFile

#: So many changes are kept at least; the file may hold more lines, since each has two.
MIN_KEPT = 200


class Migrated(Struct, frozen=True, omit_defaults=True):
    """A change of plan: what it was, when it began, what it has taken so far, and when it was through.

    `batches` are the micro-batches that it lasted, `longest_ms` the longest of them.
    """

    vertex: VertexId
    number: int
    time: int
    query: str
    before: str
    after: str
    how: How
    auto: bool = False
    batches: int = 0
    longest_ms: float = 0.0
    built: int = 0
    ended: int | None = None
    given_up: bool = False  # because another change came, or the query went
    buckets: tuple[int, ...] | None = None  # that change; None: all


class MigrationLog:
    """The changes of plans of a checkpoint, and what joins of several inputs reported last."""

    def __init__(self, directory: Path) -> None:
        self._lines = LineFile(directory / "migrations.jsonl")
        self._known: dict[tuple[VertexId, int], Migrated] | None = None
        self.boxes: dict[VertexId, BoxSeen] = {}
        self.apart: Mapping[int, Mapping[VertexId, BoxSeen]] = {}  # the same by bucket, if they may differ
        self._lock = threading.Lock()  # statements read while a micro-batch writes

    def all(self) -> list[Migrated]:
        """Return the changes that are known, the oldest first."""
        with self._lock:
            return list(self._all().values())

    def follow(
        self,
        reports: Iterable[Mapping[str, BoxSeen]],
        running: Running,
        now: int,
        batch_ms: float,
        apart: Mapping[int, Mapping[str, BoxSeen]] | None = None,
    ) -> None:
        """Take in what joins reported after a micro-batch; `apart` by bucket, if buckets may run different trees."""
        before, self.boxes = self.boxes, merged_boxes(reports)
        apart_before, self.apart = self.apart, apart or {}
        with self._lock:
            self._follow(before, apart_before, running, now, batch_ms)

    def _follow(
        self,
        before: Mapping[VertexId, BoxSeen],
        apart_before: Mapping[int, Mapping[VertexId, BoxSeen]],
        running: Running,
        now: int,
        batch_ms: float,
    ) -> None:
        known = self._all()
        changed: list[Migrated] = []
        for change in in_force(running):
            vertex = change.vertex
            if (vertex, change.number) not in known and (box := _box_of(vertex, running)) is not None:
                first = before if change.buckets is None else apart_before.get(change.buckets[0], before)
                changed.append(_begun(change, box, self._plan(box, vertex, first.get(vertex)), running, now))
        open_ = [entry for entry in known.values() if entry.ended is None] + changed
        for entry in open_:
            after = self._progressed(entry, running, now, batch_ms)
            known[entry.vertex, entry.number] = after
            if after.ended is not None:
                changed = [*(other for other in changed if other is not entry), after]
        if changed:
            self._write([known[entry.vertex, entry.number] for entry in changed])

    def _progressed(self, entry: Migrated, running: Running, now: int, batch_ms: float) -> Migrated:
        seen = self._seen(entry)
        stays = any((change.vertex, change.number) == (entry.vertex, entry.number) for change in in_force(running))
        if not stays or _box_of(entry.vertex, running) is None or self._is_gone(entry, running):
            return replace(entry, ended=now, given_up=True)
        if seen is None or seen.number < entry.number:
            return entry
        longest = max(entry.longest_ms, batch_ms)
        entry = replace(entry, batches=entry.batches + 1, longest_ms=longest, built=entry.built + seen.built)
        return entry if seen.migration is not None else replace(entry, ended=now)

    def _is_gone(self, entry: Migrated, running: Running) -> bool:
        """Return whether the buckets that a change is for are no longer there."""
        if entry.buckets is None or not running.buckets:
            return False
        return not {*running.buckets, *self.apart} & {*entry.buckets}

    def _seen(self, entry: Migrated) -> BoxSeen | None:
        """Return what the buckets reported that a change is for."""
        if entry.buckets is None:
            return self.boxes.get(entry.vertex)
        own = [self.apart[bucket] for bucket in entry.buckets if bucket in self.apart]
        return merged_boxes({name: box for name, box in boxes.items() if name == entry.vertex} for boxes in own).get(
            entry.vertex
        )

    def _plan(self, box: MultiJoin, vertex: VertexId, seen: BoxSeen | None) -> str:
        """Return the plan before a change; if the join has not reported, what the last change made of it."""
        if seen is not None:
            return tree_text(seen.tree, box)
        changes = [entry.after for entry in self._all().values() if entry.vertex == vertex]
        return changes[-1] if changes else tree_text(None, box)

    def _all(self) -> dict[tuple[VertexId, int], Migrated]:
        if self._known is None:
            try:
                lines = [msgspec.json.decode(line, type=Migrated) for line in self._lines.read_new()]
            except ValueError as error:  # DecodeError is one
                raise sealed.damaged(self._lines.path, error) from error
            self._known = {(entry.vertex, entry.number): entry for entry in lines}
        return self._known

    def _write(self, entries: list[Migrated]) -> None:
        known = self._all()
        if len(known) > 2 * MIN_KEPT:
            self._known = dict(list(known.items())[-MIN_KEPT:])
            self._lines.replace(map(msgspec.json.encode, self._known.values()))
        else:
            self._lines.append([msgspec.json.encode(entry) for entry in entries])


def in_force(running: Running) -> list[UseTree]:
    """Return the last changes of plans: of all buckets, and those of some since."""
    local = (change for own in running.local_trees.values() for change in own.values())
    numbered = {(change.vertex, change.number): change for change in (*running.trees.values(), *local)}
    return list(numbered.values())


def in_buckets(buckets: Sequence[int] | None) -> str:
    """Say in which buckets a change is made; nothing if in all."""
    if buckets is None:
        return ""
    return f" in bucket{'s' if len(buckets) > 1 else ''} {', '.join(map(str, buckets))}"


def boxes_in(running: Running, query: str) -> list[Vertex]:
    """Return the joins of several inputs of a query that is on."""
    graphs = [added.graph for added in running.queries if added.query == query]
    return [vertex for graph in graphs for vertex in graph if isinstance(vertex.spec, MultiJoin)]


def sharing(vertex: VertexId, running: Running) -> list[str]:
    """Return the queries that a vertex works for."""
    return [query.query for query in running.queries if any(own.id == vertex for own in query.graph)]


def tree_text(tree: Tree | None, spec: MultiJoin) -> str:
    """Write a tree with the aliases of its inputs; None is the tree that a join begins with."""
    return format_tree(left_deep(range(len(spec.inputs))) if tree is None else tree, spec.labels)


def _box_of(vertex: VertexId, running: Running) -> MultiJoin | None:
    for query in (*running.queries, *running.ending):
        for own in query.graph:
            if own.id == vertex and isinstance(own.spec, MultiJoin):
                return own.spec
    return None


def _begun(change: UseTree, box: MultiJoin, before: str, running: Running, now: int) -> Migrated:
    queries = ", ".join(sharing(change.vertex, running))
    after = tree_text(change.tree, box)
    return Migrated(
        change.vertex, change.number, now, queries, before, after, change.how, change.auto, buckets=change.buckets
    )
