"""From a plan to the physical graph: the only module that knows both worlds."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from headrace.graph.graph import Graph, Vertex, VertexId, vertex
from headrace.graph.lives import longest_wait
from headrace.model.changelog import CHANGE
from headrace.model.expressions.expression import Column, Expr, columns
from headrace.model.schema import SEQ, Schema
from headrace.model.window import (
    AggregateCall,
    Cumulative,
    Extent,
    Landmark,
    Panes,
    Range,
    Rows,
    Session,
    Sliding,
    While,
)
from headrace.operators import specs
from headrace.operators.order.leading import can_lead, last_place
from headrace.operators.tuples.archives import ArchiveSpec, PythonFunction, StoredRows
from headrace.operators.windows.pane_times import pane_length
from headrace.optimizer.narrowing import pick
from headrace.plan import nodes


def lower(
    plan: nodes.Node,
    query: str,
    tables: Mapping[str, bytes],
    *,
    numbered: bool = False,
    versioned: Mapping[str, str] | None = None,
) -> Graph:
    """Choose operators for a plan; `tables` holds the stored relations that it joins, as Arrow IPC.

    Those that are `versioned` have names under which commands give their rows instead. `numbered` lets results keep the
    places of their tuples in the base stream, if they have one.
    """
    lowering = _Lowering(query, tables, versioned or {})
    lowering.add(specs.Output(query), lowering.lower(plan, seq=numbered and is_base(plan)))
    return Graph(tuple(lowering.vertices.values()))


def streams_of(plan: nodes.Node) -> frozenset[str]:
    """Return the names of all streams that a plan scans."""
    if isinstance(plan, nodes.Scan):
        return frozenset({plan.name})
    return frozenset(name for origin in nodes.inputs(plan) for name in streams_of(origin))


def tables_of(plan: nodes.Node) -> frozenset[str]:
    """Return the names of all stored relations that a plan joins."""
    own: set[str] = {plan.table} if isinstance(plan, nodes.TableJoin | nodes.Membership) else set()
    if isinstance(plan, nodes.Impute) and isinstance(plan.archive, nodes.StoredArchive):
        own = {plan.archive.table}
    return frozenset(own).union(*(tables_of(origin) for origin in nodes.inputs(plan)))


class _Lowering:
    def __init__(self, query: str, tables: Mapping[str, bytes], versioned: Mapping[str, str]) -> None:
        self.query = query
        self.tables = tables
        self.versioned = versioned
        self.vertices: dict[VertexId, Vertex] = {}
        self._lowered: dict[tuple[int, bool, bool, bool], Vertex] = {}  # nodes that a plan has in several places

    def add(self, spec: specs.Spec, *inputs: Vertex) -> Vertex:
        made = vertex(spec, inputs)
        return self.vertices.setdefault(made.id, made)

    def lower(self, node: nodes.Node, *, seq: bool = False, expiry: bool = False, paced: bool = False) -> Vertex:
        """Lower a node. `seq` asks base streams for arrival numbers, `expiry` asks joins to keep their expiry."""
        key = id(node), seq, expiry, paced
        if key not in self._lowered:
            self._lowered[key] = self._lower(node, seq=seq, expiry=expiry, paced=paced)
        return self._lowered[key]

    def _lower(self, node: nodes.Node, *, seq: bool, expiry: bool, paced: bool) -> Vertex:
        match node:
            case nodes.Scan(name=name):
                return self.add(specs.Scan(name, node.schema.names, seq))
            case nodes.Filter(input=nodes.Rank() as ranked):
                limit = last_place(node.predicate, ranked.name)
                return self.add(specs.Filter(node.predicate), self._rank(ranked, limit))
            case nodes.Filter():
                return self.add(
                    specs.Filter(node.predicate), self.lower(node.input, seq=seq, expiry=expiry, paced=paced)
                )
            case nodes.Project(input=nodes.Scan(name=name)) if _only_narrows(node):
                return self.add(specs.Scan(name, node.schema.names, seq))
            case nodes.Project(input=nodes.Scan(name=name, schema=schema)):  # what is not computed with is not read
                scan = self.add(specs.Scan(name, pick(schema, _read_by(node)), seq))
                return self.add(specs.Project(node.columns), scan)
            case nodes.Project():
                return self.add(
                    specs.Project(node.columns), self.lower(node.input, seq=seq, expiry=expiry, paced=paced)
                )
            case nodes.Condense():
                return self.add(specs.Condense(node.keys, node.calls), self.lower(node.input))
            case nodes.Unnest():
                unnesting = specs.Unnest(node.of, node.names, node.place, node.first, node.outer, node.kept)
                return self.add(unnesting, self.lower(node.input, expiry=expiry, paced=paced))
            case nodes.Union():
                return self.add(specs.Union(len(node.inputs)), *(self.lower(origin) for origin in node.inputs))
            case nodes.Pace():
                pacing = specs.Pace(len(node.inputs), node.tolerance, node.share, node.service, node.late)
                return self.add(pacing, *(self.lower(origin, paced=True) for origin in node.inputs))
            case nodes.Punctuate():
                types = {field.name: field.type for field in node.schema}
                keys = tuple(Column(name, types[name]) for name in node.keys)
                marking = specs.Punctuate(Column(node.mark, types[node.mark]), keys, node.late)
                return self.add(marking, self.lower(node.input, seq=seq))
            case nodes.Impute():
                filling = specs.Impute(node.name, node.value, node.keys, self._archive(node.archive), paced)
                return self.add(filling, self.lower(node.input, seq=seq, paced=paced))
            case nodes.Join():
                return self._join(node, expiry)
            case nodes.MultiJoin():
                return self._multi_join(node, expiry)
            case nodes.SequenceJoin():
                return self._sequence(node)
            case nodes.TableJoin():
                joining = specs.TableJoin(
                    self.tables.get(node.table, b""),
                    node.table_schema,
                    node.kind,
                    node.keys,
                    node.residual,
                    node.table_names,
                    table=self.versioned.get(node.table, UNSET),
                )
                return self.add(joining, self.lower(node.input, expiry=expiry))
            case nodes.Membership():
                asking = specs.Membership(
                    self.tables.get(node.table, b""),
                    node.table_schema,
                    node.name,
                    node.keys,
                    node.compared,
                    node.residual,
                    node.table_names,
                    table=self.versioned.get(node.table, UNSET),
                    calls=node.calls,
                    value=node.value,
                )
                return self.add(asking, self.lower(node.input, seq=seq, expiry=expiry, paced=paced))
            case nodes.Aggregate():
                return self._aggregate(node)
            case nodes.Changes():
                seq = is_base(node.input) and any(_needs_order(call) for call in node.calls)
                changing = specs.Changes(node.keys, node.calls, node.ttl, node.columns, node.condition, node.change)
                return self.add(changing, self.lower(node.input, seq=seq))
            case nodes.Distinct():
                columns = _columns(node.schema)
                return self.add(specs.Distinct(columns, node.span), self.lower(node.input))
            case nodes.Suppress():
                suppressing = specs.Suppress(node.input.schema, node.by, node.rule, node.old_names)
                return self.add(suppressing, self._ordered(node.input, node.by))
            case nodes.Deduplicate():
                seq = is_base(node.input)
                ties = (SEQ,) if seq else node.schema.names
                return self.add(specs.Deduplicate(node.by, node.span, node.last, ties), self.lower(node.input, seq=seq))
            case nodes.Over():
                seq = is_base(node.input)
                ties = (SEQ,) if seq else node.input.schema.names
                return self.add(specs.Over(node.by, node.frame, node.calls, ties), self.lower(node.input, seq=seq))
            case nodes.MatchRows():
                seq = is_base(node.input)
                ties = (*(column.name for column in node.order), *((SEQ,) if seq else node.input.schema.names))
                matching = specs.MatchRows(node.by, node.pattern, node.lookups, node.folds, tuple(dict.fromkeys(ties)))
                return self.add(matching, self.lower(node.input, seq=seq))
            case nodes.Rank():
                return self._rank(node)
            case nodes.WindowOver():
                by_arrival = is_base(node.input)
                ties = (SEQ,) if by_arrival else node.input.schema.names
                spec = specs.WindowOver(node.size, node.by, node.order, node.frame, node.calls, ties)
                return self.add(spec, self.lower(node.input, seq=by_arrival))
            case nodes.Detect():
                return self._detect(node)
            case nodes.Limit():
                return self._limit(node)
            case nodes.Order(by=by) if by and not is_base(node.input):
                # the new row of a key comes after the delete of the old one
                others = (name for name in node.schema.names if name != CHANGE)
                order = (CHANGE, *others) if node.schema.find(CHANGE) else tuple(others)
                return self.add(specs.Reorder(by, order), self.lower(node.input))
            case nodes.Order(by=by) if by:
                return self._ordered(node.input, by)
            case nodes.Order():
                return self._merged(node.input) if node.merge else self._ordered(node.input, ())

    def _rank(self, node: nodes.Rank, limit: int | None = None) -> Vertex:
        """Lower a ranking of which only the first places are read, if there is a limit."""
        by_arrival = is_base(node.input)
        ties = (SEQ,) if by_arrival else node.input.schema.names
        below = self.lower(node.input, seq=by_arrival)
        if limit is not None and can_lead(node.order[0].expr.type):
            distinct = node.function == "dense_rank"
            below = self.add(specs.Leading(node.size, node.by, node.order[0], limit, distinct), below)
        return self.add(specs.Rank(node.size, node.by, node.order, node.function, node.name, ties), below)

    def _archive(self, archive: nodes.StoredArchive | nodes.FunctionArchive) -> ArchiveSpec:
        match archive:
            case nodes.StoredArchive():
                return StoredRows(
                    self.tables.get(archive.table, b""),
                    archive.schema,
                    archive.keys,
                    archive.column,
                    table=self.versioned.get(archive.table, UNSET),
                )
            case nodes.FunctionArchive():
                return PythonFunction(archive.target)

    def _limit(self, node: nodes.Limit) -> Vertex:
        by_arrival = is_base(node.input)
        order = (SEQ,) if by_arrival else node.schema.names
        counting = specs.Limit(node.count, order, node.query or self.query)
        return self.add(counting, self.lower(node.input, seq=by_arrival))

    def _ordered(self, node: nodes.Node, by: tuple[Expr, ...], *, expiry: bool = False) -> Vertex:
        """Sort a node's tuples by timestamp; ties by arrival in a base stream, else by content."""
        if is_base(node):
            return self.add(specs.Reorder(by, (SEQ,)), self.lower(node, seq=True))
        return self.add(specs.Reorder(by, node.schema.names), self.lower(node, expiry=expiry))

    def _merged(self, node: nodes.Node) -> Vertex:
        """Merge a node's tuples by timestamp where its inputs are in order, else sort them."""
        match node:
            case nodes.Union():
                return self.add(specs.OrderedUnion(len(node.inputs)), *(self._merged(origin) for origin in node.inputs))
            case nodes.Filter() if not is_base(node):
                return self.add(specs.Filter(node.predicate), self._merged(node.input))
            case nodes.Project() if not is_base(node):
                return self.add(specs.Project(node.columns), self._merged(node.input))
            case nodes.Join(
                kind="inner", manner="plain", left_extent=Extent(rows=None), right_extent=Extent(rows=None)
            ):
                spec = specs.OrderedJoin(
                    node.kind,
                    node.left.schema,
                    node.right.schema,
                    node.right_names,
                    node.keys,
                    node.residual,
                    node.left_extent,
                    node.right_extent,
                    expiry=False,
                    whole=True,
                )
                return self.add(spec, self._merged(node.left), self._merged(node.right))
            case _:
                return self._ordered(node, ())

    def _join(self, node: nodes.Join, expiry: bool) -> Vertex:
        by_rows = any(
            extent is not None and extent.rows is not None for extent in (node.left_extent, node.right_extent)
        )
        if node.change:
            return self._join_changes(node)
        kind = specs.RowsJoin if by_rows else specs.Join
        spec = kind(
            node.kind,
            node.left.schema,
            node.right.schema,
            node.right_names,
            node.keys,
            node.residual,
            node.left_extent,
            node.right_extent,
            expiry,
            node.manner,
            both_keys=True,
            life=longest_wait(node),
        )
        if by_rows:
            first = self._ordered(node.left, spec.partition_by(0), expiry=node.left_extent is None)
            return self.add(
                spec, first, self._ordered(node.right, spec.partition_by(1), expiry=node.right_extent is None)
            )
        left = self.lower(node.left, expiry=node.left_extent is None)
        return self.add(spec, left, self.lower(node.right, expiry=node.right_extent is None))

    def _join_changes(self, node: nodes.Join) -> Vertex:
        spec = specs.JoinChanges(
            node.kind,
            node.left.schema,
            node.right.schema,
            node.right_names,
            node.keys,
            node.residual,
            node.left_extent,
            node.right_extent,
            expiry=False,
            both_keys=True,
            change=node.change,
        )
        left = self.lower(node.left, expiry=node.left_extent is None)
        return self.add(spec, left, self.lower(node.right, expiry=node.right_extent is None))

    def _multi_join(self, node: nodes.MultiJoin, expiry: bool) -> Vertex:
        schemas = tuple(part.schema for part in node.inputs)
        spec = specs.MultiJoin(
            schemas, node.names, node.extents, node.classes, node.terms, expiry, node.labels, node.grid
        )
        parts = zip(node.inputs, node.extents, strict=True)
        return self.add(spec, *(self.lower(part, expiry=extent is None) for part, extent in parts))

    def _sequence(self, node: nodes.SequenceJoin) -> Vertex:
        spec = specs.SequenceJoin(
            node.mode,
            node.inclusive,
            node.left.schema,
            node.right.schema,
            node.right_names,
            node.keys,
            node.residual,
            node.span,
            node.padded or UNSET,
            node.right_span if node.mode == "consuming" else UNSET,
        )
        left = self._ordered(node.left, spec.partition_by(0))
        if node.mode != "recent":
            return self.add(spec, left, self._ordered(node.right, spec.partition_by(1)))
        return self.add(spec, left, self.lower(node.right))  # each right tuple is on its own, so none waits for another

    def _detect(self, node: nodes.Detect) -> Vertex:
        spec = specs.Detect(
            node.event,
            node.context,
            tuple(part.schema for part in node.parts),
            node.keys,
            node.conditions,
            node.outputs,
        )
        return self.add(spec, *(self._ordered(part, spec.partition_by(port)) for port, part in enumerate(node.parts)))

    def _aggregate(self, node: nodes.Aggregate) -> Vertex:
        seq = is_base(node.input) and any(_needs_order(call) for call in node.calls)
        match node.window:
            case Range() | Landmark() | Cumulative():
                partial = self.add(
                    specs.PartialAggregate(_panes(node.window), node.keys, node.calls), self.lower(node.input, seq=seq)
                )
                return self.add(specs.PaneAggregate(node.window, node.keys, node.calls), partial)
            case Session():
                return self.add(
                    specs.SessionAggregate(node.window, node.keys, node.calls), self.lower(node.input, seq=seq)
                )
            case Sliding():
                spec: specs.Spec = specs.SlidingAggregate(node.window, node.keys, node.calls)
            case Rows():
                spec = specs.RowsAggregate(node.window, node.keys, node.calls)
            case While():
                spec = specs.WhileAggregate(node.window, node.keys, node.calls)
        return self.add(spec, self._ordered(node.input, spec.partition_by(0)))


def _panes(window: Panes) -> Range | Landmark:
    """Return the window of one pane of a window: all windows of the same panes share their partial aggregates."""
    if isinstance(window, Landmark) or (isinstance(window, Range) and window.slide > window.size):
        return window
    pane = pane_length(window)
    return Range(pane, pane, window.offset % pane)


def is_base(node: nodes.Node) -> bool:
    """Return whether a node's tuples are those of one stream, so that they have a place in its arrival order."""
    match node:
        case nodes.Scan():
            return True
        case nodes.Filter() | nodes.Project() | nodes.Impute() | nodes.Membership() | nodes.Punctuate():
            return is_base(node.input)
        case _:
            return False


def _needs_order(call: AggregateCall) -> bool:
    return call.function in ("first", "last")


def _only_narrows(node: nodes.Project) -> bool:
    return all(isinstance(expr, Column) and expr.name == name for name, expr in node.columns)


def _read_by(node: nodes.Project) -> frozenset[str]:
    return frozenset(name for _, expr in node.columns for name in columns(expr))


def _columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type) for field in schema)
