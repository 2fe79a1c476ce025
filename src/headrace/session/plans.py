"""ALTER QUERY ... SET plan and MIGRATE TO: which tree a query's join of several streams runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.commands.command import AddQuery, Set, UseTree
from headrace.commands.running import Running
from headrace.commands.settings import Plan
from headrace.control.migration_log import boxes_in, in_buckets, sharing, tree_text
from headrace.errors import HeadraceError, QueryError, Span
from headrace.graph.graph import Vertex, VertexId
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import Alter, Migrate
from headrace.model.join_tree import Tree, flat, late_ports, left_deep, parse_tree
from headrace.model.time import MILLISECOND
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.operators.specs import Join, JoinChanges, MultiJoin, RowsJoin, SequenceJoin

#: How long a micro-batch may last longer, in microseconds, while a plan changes stepwise.
WITHIN = 50 * MILLISECOND
#: A state of more rows than this is not built at once, if the user does not say how.
_AT_ONCE = 500_000
#: Rows that are read, built and written in a microsecond.
_ROWS = 0.5


def set_plan(
    statement: Alter, query: AddQuery, running: Running, boxes: Mapping[VertexId, BoxSeen], buckets: Sequence[int]
) -> list[Set | UseTree]:
    """Return the commands of SET plan: the tree stays until 'auto' gives it free."""
    value = statement.value
    if value.text.strip().lower() == "auto":
        _boxes(query, running, value)
        if statement.buckets:
            hint = f"write ALTER QUERY {query.query} SET plan = 'auto'"
            raise QueryError("plans are free to change in all buckets alike", span=statement.buckets[0][1], hint=hint)
        return [Set(query.query, Plan(fixed=False))]
    chosen = _chosen(statement.buckets, running, buckets)
    return [Set(query.query, Plan(fixed=True)), *_changes(query, value, None, None, running, boxes, chosen)]


def migrate(
    statement: Migrate, query: AddQuery, running: Running, boxes: Mapping[VertexId, BoxSeen], buckets: Sequence[int]
) -> list[Set | UseTree]:
    """Return the commands of MIGRATE TO."""
    chosen = _chosen(statement.buckets, running, buckets)
    return [*_changes(query, statement.plan, statement.how, statement.within, running, boxes, chosen)]


def _chosen(written: Sequence[tuple[int, Span]], running: Running, buckets: Sequence[int]) -> tuple[int, ...] | None:
    """Return the buckets of IN BUCKET; None: all."""
    known = running.all_buckets(buckets)
    for bucket, span in written:
        if bucket not in known:
            hint = f"choose one of {', '.join(map(str, known))}" if known else "no query has run yet"
            raise QueryError(f"there is no bucket {bucket}", span=span, hint=hint)
    return tuple(dict.fromkeys(bucket for bucket, _ in written)) or None


def said(query: str, commands: list[Set | UseTree], running: Running) -> str:
    """Say what the commands do, and to whom else."""
    changes = [command for command in commands if isinstance(command, UseTree)]
    if not changes:
        return f"{query}: the plan is free to change"
    parts = []
    others: set[str] = set()
    for change in changes:
        spec = next(box.spec for box in boxes_in(running, query) if box.id == change.vertex)
        assert isinstance(spec, MultiJoin)
        parts.append(f"{tree_text(change.tree, spec)} {_HOW[change.how]}{in_buckets(change.buckets)}")
        others |= set(sharing(change.vertex, running)) - {query}
    also = f"; {', '.join(sorted(others))} shares this join" if others else ""
    return f"{query}: plan {', '.join(parts)}{also}"


def explain_local(query: str, running: Running) -> str:
    """Say which buckets run other trees than the one that EXPLAIN shows."""
    lines: list[str] = []
    for box in boxes_in(running, query):
        assert isinstance(box.spec, MultiJoin)
        changes = {change.number: change for change in running.local_trees.get(box.id, {}).values()}
        for change in changes.values():
            buckets = [bucket for bucket, own in running.local_trees[box.id].items() if own.number == change.number]
            lines.append(f"{in_buckets(sorted(buckets))[1:]}: the join runs as {tree_text(change.tree, box.spec)}")
    return "\n\n" + "\n".join(lines) if lines else ""


_HOW: Mapping[How, str] = {"moving": "by moving state", "stepwise": "step by step", "parallel": "on a parallel track"}


def _changes(
    query: AddQuery,
    plan: Name,
    how: How | None,
    within: int | None,
    running: Running,
    seen: Mapping[VertexId, BoxSeen],
    buckets: tuple[int, ...] | None,
) -> list[UseTree]:
    boxes = _boxes(query, running, plan)
    changes = []
    for box, tree in _trees(boxes, plan):
        assert isinstance(box.spec, MultiJoin)
        chosen = how or ("moving" if _rows(seen.get(box.id)) <= _AT_ONCE else "stepwise")
        if chosen == "parallel":
            _check_parallel(box.spec, plan)
        portion = max(1, int((within or WITHIN) * _ROWS)) if chosen == "stepwise" else 0
        changes.append(UseTree(box.id, running.tree_number(box.id) + 1, tree, chosen, portion, buckets))
    return changes


def _boxes(query: AddQuery, running: Running, plan: Name) -> list[Vertex]:
    if not any(on.query == query.query for on in running.queries):
        hint = f"START QUERY {query.query} first"
        raise QueryError(f"{query.query} is off: it has no state and no plan that runs", span=plan.span, hint=hint)
    boxes = boxes_in(running, query.query)
    if not boxes:
        raise QueryError(f"the plan of {query.query} cannot change: {_reason(query)}", span=plan.span, hint=_HINT)
    return boxes


_HINT = "plans of inner joins of three or more streams with time windows and a common key can change; see docs/plans.md"


def _reason(query: AddQuery) -> str:
    joins = [v.spec for v in query.graph if isinstance(v.spec, Join | JoinChanges | RowsJoin | SequenceJoin)]
    if not joins:
        return "it joins no streams"
    if any(isinstance(join, RowsJoin) for join in joins):
        return "what windows of ROWS hold depends on the order of the joins"
    if any(isinstance(join, SequenceJoin) for join in joins):
        return "a FOLLOWING or CONSUMING join has one order"
    if len(joins) == 1:
        return "a join of two streams has one plan only"
    if any(isinstance(join, JoinChanges) or (isinstance(join, Join) and join.kind != "inner") for join in joins):
        return "its outer joins cannot be made in another order"
    if any(isinstance(join, Join) and join.manner != "plain" for join in joins):
        return "THRIFTY and IMPATIENT joins stay as they are written"
    return "its joins have no key that all streams have, or a key that only approximates, or it was created before"


def _trees(boxes: list[Vertex], plan: Name) -> list[tuple[Vertex, Tree]]:
    """Return the joins that change, with their new trees: all, or the one whose aliases the text has."""
    word = plan.text.strip().lower()
    if word in ("mjoin", "left-deep"):
        counts = [(box, len(box.spec.inputs)) for box in boxes if isinstance(box.spec, MultiJoin)]
        return [(box, flat(count) if word == "mjoin" else left_deep(range(count))) for box, count in counts]
    faults: list[HeadraceError] = []
    for box in boxes:
        assert isinstance(box.spec, MultiJoin)
        try:
            tree = parse_tree(plan.text, box.spec.labels)
            _check_late(tree, box.spec)
            return [(box, tree)]
        except QueryError as error:
            error.span = plan.span
            faults.append(error)
    raise faults[0]


def _check_late(tree: Tree, spec: MultiJoin) -> None:
    for port in late_ports(tree):
        if port not in spec.conditions:
            raise QueryError(
                f"no condition on {spec.labels[port]} can be tested late",
                hint="conditions on one input that call a function of your own can; see docs/plans.md",
            )


def _check_parallel(spec: MultiJoin, plan: Name) -> None:
    endless = [
        label
        for label, extent in zip(spec.labels, spec.extents, strict=True)
        if extent is not None and extent.span is None
    ]
    if endless:
        raise QueryError(
            f"a parallel track would never end: tuples of {', '.join(endless)} are kept forever",
            span=plan.span,
            hint="write USING MOVING STATE or USING STEPWISE",
        )


def _rows(seen: BoxSeen | None) -> int:
    return 0 if seen is None else sum(port.held for port in seen.ports) + sum(seen.rows.values())
