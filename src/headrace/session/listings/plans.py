"""SHOW PLANS and SHOW MIGRATIONS: which join trees run, and how they changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.commands.command import UseTree
from headrace.commands.running import Running
from headrace.control.migration_log import Migrated, boxes_in, in_buckets, tree_text
from headrace.graph.graph import VertexId
from headrace.model.join_tree import Tree
from headrace.model.time import format_instant
from headrace.operators.multijoin.seen import BoxSeen, merged_boxes
from headrace.operators.specs import MultiJoin
from headrace.session.outcome import Listing

_HOW = {"moving": "moving state", "stepwise": "stepwise", "parallel": "parallel track"}


def show_plans(
    running: Running,
    seen: Mapping[VertexId, BoxSeen],
    buckets: int,
    apart: Mapping[int, Mapping[VertexId, BoxSeen]] | None = None,
) -> Listing:
    """List the join trees of each query that joins several streams; the counts are of the last micro-batch.

    There is a row for each tree, with the buckets that run it if they differ. `apart` is what each bucket did. A tuple
    that is copied to several buckets counts once where it is taken, and as often as it is stored.
    """
    rows: list[tuple[object, ...]] = []
    for query in running.queries:
        for box in boxes_in(running, query.query):
            assert isinstance(box.spec, MultiJoin)
            cells = running.cells(box.id, buckets)
            is_fixed = query.query in running.fixed_plans
            for chosen, last, where in _parts(box.id, running, seen.get(box.id, BoxSeen()), apart or {}):
                by = "default" if chosen is None else "Headrace" if chosen.auto else "ALTER"
                tree = last.tree if last.tree is not None or chosen is None else chosen.tree
                taken = [port.taken for port in last.ports]
                moving = last.migration
                rows.append(
                    (
                        query.query,
                        tree_text(tree, box.spec),
                        f"{by}, fixed" if is_fixed else by,
                        sum(port.held for port in last.ports),
                        sum(last.rows.values()),
                        sum(taken) if box.spec.cells is None else box.spec.cells.once(taken, cells),
                        last.out,
                        round(last.busy_ns / 1e6, 1),
                        "" if moving is None else f"{_HOW[moving.how]}, {moving.left} rows left",
                        where,
                    )
                )
    names = ("query", "plan", "chosen by", "rows", "joined rows", "tuples in", "results", "ms", "change", "buckets")
    return Listing(names, tuple(rows))


def _parts(
    vertex: VertexId, running: Running, whole: BoxSeen, apart: Mapping[int, Mapping[VertexId, BoxSeen]]
) -> list[tuple[UseTree | None, BoxSeen, str]]:
    """Return the changes of a join that are in force, what the buckets of each did, and which they are."""
    known = {bucket: boxes[vertex] for bucket, boxes in sorted(apart.items()) if vertex in boxes}
    if vertex not in running.local_trees or not known:
        return [(running.trees.get(vertex), whole, "all")]
    found: dict[Tree | None, list[int]] = {}
    for bucket, box in known.items():
        found.setdefault(box.tree, []).append(bucket)
    parts = []
    for buckets in found.values():
        together = merged_boxes({vertex: known[bucket]} for bucket in buckets)[vertex]
        parts.append((running.tree_in(vertex, buckets[0]), together, ", ".join(map(str, buckets))))
    return parts


def show_migrations(migrations: Iterable[Migrated]) -> Listing:
    """List the changes of plans, the oldest first."""
    rows = tuple(
        (
            format_instant(entry.time),
            entry.query,
            entry.before,
            entry.after,
            f"{_HOW[entry.how]}{in_buckets(entry.buckets)}",
            entry.batches,
            round(entry.longest_ms, 1),
            entry.built,
            "given up" if entry.given_up else "running" if entry.ended is None else "done",
        )
        for entry in migrations
    )
    names = ("time", "query", "from", "to", "using", "micro-batches", "longest ms", "rows built", "state")
    return Listing(names, rows)
