"""Binds rules: the event in the rule's context, with the condition after it, or inside it where that is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import RAISED, Query, Stream, Table
from headrace.errors import NotSupported, TypeFault, UnboundedStateFault
from headrace.language.parser import parse
from headrace.language.read.events import part_named
from headrace.language.syntax.rules import ContextClause, CreateRule
from headrace.language.syntax.statements import Detection
from headrace.model.action import CASCADE
from headrace.model.events.event import Context, Mode, aliases, always
from headrace.model.events.growth import growing
from headrace.model.events.output import Pick
from headrace.model.expressions.expression import (
    Call,
    Column,
    Expr,
    Literal,
    columns,
    conjunction,
    conjuncts,
    transform,
)
from headrace.model.types import DataType, Type
from headrace.plan.binding.binder import bind
from headrace.plan.binding.event import bind_event, is_complex, repeated, selected
from headrace.plan.binding.expressions.coerce import TEMPORAL, coerce, is_text
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope, relation_of, unique
from headrace.plan.binding.scan import scan
from headrace.plan.binding.span import place
from headrace.plan.nodes import Detect, Filter, Node, Project


@dataclass(frozen=True, slots=True)
class BoundRule:
    """The plan of a rule's detections, the scope of its expressions, its context, and the state without a limit."""

    plan: Node
    scope: Scope
    context: Context | None
    warnings: tuple[str, ...]
    depths: tuple[str, ...]  # columns that say how many rules led to a constituent

    def expression(self, node: exp.Expr, catalog: Catalog) -> Expr:
        """Bind an argument of an action."""
        return ExpressionBinder(self.scope, catalog, "in an action").bind(node)

    def fitted(self, node: exp.Expr, target: DataType, catalog: Catalog) -> Expr:
        """Bind an argument and convert it to a type."""
        expr = self.expression(node, catalog)
        numeric = expr.type.is_numeric and target.is_numeric
        value = expr.value if isinstance(expr, Literal) else None
        if target is Type.INT and isinstance(value, int) and not -(2**31) <= value < 2**31:
            raise TypeFault(f"{value} is no {target.value}", span=place(node), hint="declare the column as BIGINT")
        is_written = is_text(expr) and target in TEMPORAL  # a constant such as '2026-01-01'
        if expr.type not in (target, Type.NULL) and not numeric and not is_written:
            raise TypeFault(
                f"expected {target.value}, not {expr.type.value}",
                span=place(node),
                hint=f"write CAST(... AS {target.value})",
            )
        try:
            return coerce(expr, target)
        except ValueError as error:
            raise TypeFault(str(error), span=place(node)) from error

    @property
    def cascade(self) -> Expr:
        """Return the largest number of rules that led to a constituent, plus one."""
        known: list[Expr] = [
            Call("coalesce", (Column(name, Type.INT), Literal(0, Type.INT)), Type.INT) for name in self.depths
        ]
        match known:
            case []:
                deepest: Expr = Literal(0, Type.INT)
            case [depth]:
                deepest = depth
            case _:
                deepest = Call("greatest", tuple(known), Type.INT)
        return Call("+", (deepest, Literal(1, Type.INT)), Type.INT)


def bind_rule(rule: CreateRule, catalog: Catalog, queries: Callable[[str], Node]) -> BoundRule:
    """Resolve the names of a rule; `queries` gives the plans of named queries."""
    source = catalog.find(rule.event.text, span=rule.event.span)
    match source:
        case Table():
            raise NotSupported(
                f"{rule.event.text!r} is a stored table, which has no events",
                span=rule.event.span,
                hint="name an event, a stream or a query after ON",
            )
        case Query() if is_complex(source):
            return _complex(rule, source, catalog, queries)
        case Query() | Stream():
            if rule.context is not None and rule.context.context.retentions:
                hint = "leave the parentheses out, or compose an event with CREATE EVENT e AS a SEQUENCE b"
                raise NotSupported(
                    f"{source.name} is not a complex event, so it has no CONTEXT",
                    span=rule.context.span,
                    hint=hint,
                )
            plan: Node = scan(source) if isinstance(source, Stream) else queries(source.name)
            scope = Scope((relation_of((source.name,), source.schema),))
            terms = _condition(rule, scope, catalog)
            plan = _filtered(plan, terms)
            depths = (CASCADE,) if source.schema.find(CASCADE) and _raised(source.name, catalog) else ()
            return BoundRule(plan, scope, None if rule.context is None else rule.context.context, (), depths)


def _complex(rule: CreateRule, event: Query, catalog: Catalog, queries: Callable[[str], Node]) -> BoundRule:
    (written,) = parse(event.text)
    assert isinstance(written, Detection)
    detection = written if rule.context is None else _in_context(written, rule.context)

    def select(tree: exp.Expr) -> Node:
        return bind(tree, event.text, catalog, queries=queries)

    try:
        detect = bind_event(detection, catalog, queries, select)
    except UnboundedStateFault as error:
        if rule.context is not None:  # the event by itself is bounded, so the rule's context is to blame
            error.span, error.text = rule.context.span, None
        raise
    if detection.items:
        plan = selected(detection, detect, catalog)
        chosen = Scope((relation_of((event.name,), plan.schema),))
        terms = _condition(rule, chosen, catalog)
        warnings = growing(detect.event, detection.context)
        plan, depths = _with_depths(plan, _depths(detection, detect, catalog))
        return BoundRule(_filtered(plan, terms), chosen, detection.context, warnings, depths)
    scope = _scope(event.name, detect)
    inside, behind = _divided(detect, _condition(rule, scope, catalog))
    if inside:
        detect = bind_event(detection, catalog, queries, select, inside)
    depths = tuple(output.name for output in _depths(detection, detect, catalog))
    return BoundRule(
        _filtered(detect, behind), scope, detection.context, growing(detect.event, detection.context), depths
    )


def _depths(detection: Detection, detect: Detect, catalog: Catalog) -> tuple[Pick, ...]:
    """Return the columns that tell how many rules led to a constituent."""
    sources = {part.alias.text: part.source.text for part in detection.parts if part.select is None}
    return tuple(
        output for output in detect.outputs
        if isinstance(output, Pick) and output.column == CASCADE and _raised(sources.get(output.part, ""), catalog)
    )  # fmt: skip


def _with_depths(plan: Node, depths: Sequence[Pick]) -> tuple[Node, tuple[str, ...]]:
    """Let an event with a SELECT list show these columns, too."""
    assert isinstance(plan, Project)
    assert isinstance(plan.input, Detect)
    taken = {name.lower() for name in (*plan.schema.names, *plan.input.schema.names)}
    named = tuple(msgspec.structs.replace(depth, name=unique(CASCADE, taken)) for depth in depths)
    below = msgspec.structs.replace(plan.input, outputs=(*named, *plan.input.outputs))
    columns_ = (*plan.columns, *((depth.name, Column(depth.name, Type.INT)) for depth in named))
    return Project(below, columns_), tuple(depth.name for depth in named)


def _in_context(detection: Detection, clause: ContextClause) -> Detection:
    """Bind the event in the context of the rule, whatever context it was created with."""
    parts = [*(part.alias.text for part in detection.parts), *(alias.name for alias in aliases(detection.event))]
    names = [part_named(name, parts) for name in clause.parts]
    kept = tuple(
        msgspec.structs.replace(retention, part=name)
        for retention, name in zip(clause.context.retentions, names, strict=True)
    )
    known = {name.lower(): name for name in names}
    by = tuple(
        replace(reference, text=f"{known[part.lower()]}.{column}")
        for reference in clause.by
        for part, _, column in (reference.text.partition("."),)
    )
    return replace(detection, context=msgspec.structs.replace(clause.context, retentions=kept), by=by)


def _scope(event: str, detect: Detect) -> Scope:
    """Return the columns of the event by its own name, and those of each constituent by the constituent's."""
    types = {field.name: field.type for field in detect.schema}
    picked: dict[str, list[tuple[str, Expr]]] = {}
    for output in detect.outputs:
        if isinstance(output, Pick):
            picked.setdefault(output.part, []).append((output.column, Column(output.name, types[output.name])))
    whole = relation_of((event,), detect.schema)
    parts = (Relation((part,), tuple(columns)) for part, columns in picked.items() if part.lower() != event.lower())
    # an unqualified name is one of the event's columns, which have names of their own
    return Scope((whole, *parts), dict(whole.columns))


def _condition(rule: CreateRule, scope: Scope, catalog: Catalog) -> tuple[Expr, ...]:
    if rule.condition is None:
        return ()
    return conjuncts(ExpressionBinder(scope, catalog, "in the condition of a rule").predicate(rule.condition))


def _divided(detect: Detect, terms: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Divide conditions into those tested while pairing, over `part.column`, and those tested on the detection.

    Only where every combination is detected and nothing replaces, uses up or prevents another: else what is filtered
    early would no longer do so.
    """
    if detect.context.mode is not Mode.UNRESTRICTED or detect.context.retentions:
        return (), tuple(terms)
    single = {part.name for part in always(detect.event)} - repeated(detect.event, detect.context.mode)
    origin = {
        output.name: Column(f"{output.part}.{output.column}", Type.NULL)
        for output in detect.outputs
        if isinstance(output, Pick) and output.part in single
    }
    inside = [term for term in terms if columns(term) and columns(term) <= origin.keys()]
    renamed = tuple(
        transform(term, lambda part: Column(origin[part.name].name, part.type) if isinstance(part, Column) else part)
        for term in inside
    )
    return renamed, tuple(term for term in terms if term not in inside)


def _filtered(plan: Node, terms: Sequence[Expr]) -> Node:
    predicate = conjunction(tuple(terms))
    return plan if predicate is None else Filter(plan, predicate)


def _raised(name: str, catalog: Catalog) -> bool:
    """Return whether a relation depends on an event that rules raise."""
    relations = (catalog.get(relation) for relation in catalog.sources(name))
    return any(isinstance(relation, Stream) and relation.connector.kind == RAISED for relation in relations)
