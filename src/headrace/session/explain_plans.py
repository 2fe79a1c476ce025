"""EXPLAIN PLANS: the plans of a join of several streams that no other plan beats in both work and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.analysis.joins.join_facts import Facts, assumed
from headrace.analysis.joins.migration_price import Price, price_of, ways
from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.control.planning import COSTS, View, labels_of, shape_of, window_of
from headrace.control.policies.migration_choice import PAUSE, choose_way
from headrace.errors import QueryError
from headrace.graph.graph import Graph, Vertex, VertexId
from headrace.model.join_tree import Branch, Tree, branches, canonical, format_tree, left_deep, ports
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.specs import Scan
from headrace.optimizer.joins.choose import choose
from headrace.optimizer.joins.cost import Costs, Model, Plan
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.search import EXACT_ASKED, search

#: Assumed of a stream of which nothing is known: tuples per second, bytes of a row, and a window without end (seconds).
RATE, WIDTH, ENDLESS = 100.0, 32.0, 3600.0


class PlanRow(Struct, frozen=True):
    """One plan: seconds of work per second, bytes, search orders, and what a change to it takes."""

    plan: str
    work: float
    memory: float
    orders: tuple[str, ...]
    runs: bool
    best: bool
    build_seconds: float
    build_bytes: float
    how: str
    note: str


class JoinPlans(Struct, frozen=True):
    """The plans of one join; `assumed` names what was not measured."""

    join: str
    optimizer: str
    assumed: tuple[str, ...]
    plans: tuple[PlanRow, ...]


class _Known(NamedTuple):
    """What is known of a join, measured or assumed."""

    facts: Facts
    costs: Costs
    limits: Limits
    tree: Tree
    why: str


def explain_plans(
    query: AddQuery, running: Running, views: Mapping[VertexId, View], rates: Mapping[str, float], buckets: int
) -> tuple[JoinPlans, ...]:
    """Return the plans of all joins of several streams of a query, which may run or not."""
    joins = [vertex for vertex in query.graph if isinstance(vertex.spec, MultiJoin)]
    if not joins:
        raise QueryError(
            f"{query.query} has no join with several plans",
            hint="plans differ for inner joins of three streams or more with windows of time",
        )
    return tuple(_explain(vertex, query, running, views, rates, buckets) for vertex in joins)


def format_plans(joins: Iterable[JoinPlans]) -> str:
    """Return the plans as text."""
    return "\n\n".join("\n".join(_lines(join)) for join in joins)


def _explain(
    vertex: Vertex,
    query: AddQuery,
    running: Running,
    views: Mapping[VertexId, View],
    rates: Mapping[str, float],
    buckets: int,
) -> JoinPlans:
    spec = vertex.spec
    assert isinstance(spec, MultiJoin)
    cells = running.cells(vertex.id, buckets)
    known = _known(vertex, query.graph, running, views.get(vertex.id), rates, cells)
    model, names = Model(known.facts.graph, known.costs), labels_of(spec)
    now = model.plan(known.tree)
    plans = list(search(model, exact_up_to=EXACT_ASKED))
    best = choose(plans, known.limits)
    if all(canonical(plan.tree) != canonical(now.tree) for plan in plans):
        plans.append(now)
    rows = [_row(plan, now, best, model, known, spec, names, cells) for plan in plans]
    mode = "off, the plan is fixed" if query.query in running.fixed_plans else running.optimizer_of(query.query)
    return JoinPlans(spec.describe(), mode, _assumptions(vertex, views, known.facts), tuple(rows))


def _known(
    vertex: Vertex, graph: Graph, running: Running, view: View | None, rates: Mapping[str, float], buckets: int
) -> _Known:
    spec = vertex.spec
    assert isinstance(spec, MultiJoin)
    used = running.trees.get(vertex.id)
    if view is not None:
        tree = used.tree if used is not None else view.running.tree
        return _Known(view.facts, view.costs, view.limits, tree, view.choice.why)
    seconds = [ENDLESS if extent is None or extent.span is None else extent.span / 1e6 for extent in spec.extents]
    per_port = [max(rates.get(_stream(graph, name), RATE), 1e-6) for name in vertex.inputs]
    held = [rate * max(window, 0.001) for rate, window in zip(per_port, seconds, strict=True)]
    facts = assumed(shape_of(spec, buckets), per_port, held, WIDTH)
    return _Known(facts, COSTS, Limits(), used.tree if used else left_deep(range(len(spec.inputs))), "")


def _stream(graph: Graph, vertex: VertexId) -> str:
    """Return the stream from which an input comes, the first if there are several."""
    by_id = graph.by_id()
    while vertex in by_id:
        spec = by_id[vertex].spec
        if isinstance(spec, Scan):
            return spec.stream
        if not by_id[vertex].inputs:
            break
        vertex = by_id[vertex].inputs[0]
    return ""


def _assumptions(vertex: Vertex, views: Mapping[VertexId, View], facts: Facts) -> tuple[str, ...]:
    if vertex.id not in views:
        return ("rates that nobody declares", "how many keys agree", "the speed of the machine")
    return () if facts.is_measured else ("how many keys agree",)


def _row(
    plan: Plan,
    now: Plan,
    best: Plan,
    model: Model,
    known: _Known,
    spec: MultiJoin,
    names: tuple[str, ...],
    buckets: int,
) -> PlanRow:
    price = price_of(model, now.tree, plan.tree, buckets=buckets)
    found = ways(model, now.tree, plan.tree, price, buckets=buckets, window=window_of(spec))
    way = choose_way(found, PAUSE)
    is_now, is_best = canonical(plan.tree) == canonical(now.tree), plan == best
    return PlanRow(
        format_tree(canonical(plan.tree), names),
        plan.cpu,
        plan.memory,
        tuple(_orders(plan.tree, names)),
        is_now,
        is_best,
        price.build,
        price.bytes,
        way.how,
        _note(plan, price, known, is_now=is_now, is_best=is_best),
    )


def _note(plan: Plan, price: Price, known: _Known, *, is_now: bool, is_best: bool) -> str:
    said = []
    if is_now:
        said.append("runs now")
    if not known.limits.keeps(plan):
        said.append("exceeds the memory" if plan.memory > known.limits.memory else "exceeds the processor")
    if is_best and not is_now:
        said.append("best")
    if not is_now:
        build = f"{price.build * 1e3:.0f} ms to build {_size(price.bytes)}" if price.rows >= 1 else "nothing to build"
        said.append(build)
    if is_best and not is_now and known.why:
        said.append(f"not taken: {known.why}")
    return ", ".join(said)


def _orders(tree: Tree, names: tuple[str, ...]) -> Iterator[str]:
    """Yield for each child of each branch what its rows search, in order: `a: b c`."""
    for branch in branches(tree):
        texts = [_label(child, names) for child in branch.children]
        for place, text in enumerate(texts):
            yield f"{text}: {' '.join(texts[other] for other in branch.order(place))}"


def _label(tree: Tree, names: tuple[str, ...]) -> str:
    return "+".join(names[port] for port in ports(tree)) if isinstance(tree, Branch) else names[tree]


def _lines(join: JoinPlans) -> Iterator[str]:
    star = "*" if join.assumed else ""
    header = ("plan", "work/s", "memory", "search orders", "")
    rows = [
        (row.plan, f"{row.work:.3g}{star}", f"{_size(row.memory)}{star}", ", ".join(row.orders), row.note)
        for row in join.plans
    ]
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    yield f"{join.join} (optimizer: {join.optimizer})"
    for row in (header, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if join.assumed:
        yield f"* assumed: {', '.join(join.assumed)}"


def _size(size: float) -> str:
    for unit, scale in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def plans_as_json(joins: Iterable[JoinPlans]) -> str:
    """Return the plans as JSON."""
    return msgspec.json.format(msgspec.json.encode(tuple(joins))).decode()
