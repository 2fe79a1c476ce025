"""SHOW PLANS and SHOW MIGRATIONS: which join trees run, and how they changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.commands.running import Running
from headrace.control.migration_log import Migrated, boxes_in, tree_text
from headrace.graph.graph import VertexId
from headrace.model.time import format_instant
from headrace.operators.multijoin.seen import BoxSeen
from headrace.operators.specs import MultiJoin
from headrace.session.outcome import Listing

_HOW = {"moving": "moving state", "stepwise": "stepwise", "parallel": "parallel track"}


def show_plans(running: Running, seen: Mapping[VertexId, BoxSeen], buckets: int) -> Listing:
    """List the join tree of each query that joins several streams; the counts are of the last micro-batch.

    A tuple that is copied to several buckets counts once where it is taken, and as often as it is stored.
    """
    rows = []
    for query in running.queries:
        for box in boxes_in(running, query.query):
            assert isinstance(box.spec, MultiJoin)
            last, chosen = seen.get(box.id, BoxSeen()), running.trees.get(box.id)
            by = "default" if chosen is None else "Headrace" if chosen.auto else "ALTER"
            tree = last.tree if last.tree is not None or chosen is None else chosen.tree
            taken, cells = [port.taken for port in last.ports], running.cells(box.id, buckets)
            moving = "" if last.migration is None else f"{_HOW[last.migration.how]}, {last.migration.left} rows left"
            rows.append(
                (
                    query.query,
                    tree_text(tree, box.spec),
                    f"{by}, fixed" if query.query in running.fixed_plans else by,
                    sum(port.held for port in last.ports),
                    sum(last.rows.values()),
                    sum(taken) if box.spec.cells is None else box.spec.cells.once(taken, cells),
                    last.out,
                    round(last.busy_ns / 1e6, 1),
                    moving,
                )
            )
    names = ("query", "plan", "chosen by", "rows", "joined rows", "tuples in", "results", "ms", "change")
    return Listing(names, tuple(rows))


def show_migrations(migrations: Iterable[Migrated]) -> Listing:
    """List the changes of plans, the oldest first."""
    rows = tuple(
        (
            format_instant(entry.time),
            entry.query,
            entry.before,
            entry.after,
            _HOW[entry.how],
            entry.batches,
            round(entry.longest_ms, 1),
            entry.built,
            "given up" if entry.given_up else "running" if entry.ended is None else "done",
        )
        for entry in migrations
    )
    names = ("time", "query", "from", "to", "using", "micro-batches", "longest ms", "rows built", "state")
    return Listing(names, rows)
