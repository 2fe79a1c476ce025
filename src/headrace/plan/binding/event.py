"""An event expression to a plan: names resolved, masks at their primitive events, keys found, state bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace
from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Query, Stream, Table
from headrace.errors import NameFault, NotSupported, Span, TypeFault, UnboundedStateFault
from headrace.language.names import did_you_mean
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import Detection, EventPart
from headrace.model.events import event as events
from headrace.model.events.event import (
    PREVIOUS,
    Context,
    Event,
    Mode,
    Retention,
    aliases,
    constituents,
    operands,
    primitives,
)
from headrace.model.events.output import Count, Output, Pick, Started
from headrace.model.events.rewrite import own_names, rebuild
from headrace.model.expressions.expression import Call, Column, Expr, columns, conjunction, conjuncts, transform
from headrace.model.limits import EVENT_OPERATORS
from headrace.model.schema import TS
from headrace.model.types import Type
from headrace.plan.binding.event_columns import EVENT_START, select_columns
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope, unique
from headrace.plan.binding.scan import scan
from headrace.plan.binding.span import place
from headrace.plan.nodes import Detect, Node, Order


def is_complex(query: Query) -> bool:
    """Return whether a name stands for a composition, not for the tuples of a SELECT."""
    return query.text.startswith("DETECT ")


def bind_detection(
    detection: Detection, catalog: Catalog, queries: Callable[[str], Node], select: Callable[[exp.Expr], Node]
) -> Node:
    """Bind an event expression and its SELECT list, if it has one."""
    detect = bind_event(detection, catalog, queries, select)
    return selected(detection, detect, catalog) if detection.items else detect


def selected(detection: Detection, detect: Detect, catalog: Catalog) -> Node:
    """Return a bound event with the columns of its SELECT list."""
    names = (part.alias.text for part in detection.parts)
    scope = Scope(tuple(_relation(name, part) for name, part in zip(names, detect.parts, strict=True)))
    return select_columns(detection, detect, scope, catalog)


def bind_event(
    detection: Detection,
    catalog: Catalog,
    queries: Callable[[str], Node],
    select: Callable[[exp.Expr], Node],
    further: Sequence[Expr] = (),
) -> Detect:
    """Bind an event expression; `queries` gives plans of named queries, `select` those of SELECTs in it.

    `further` are conditions over `part.column`. Errors have spans into the detection's text.
    """
    _check_size(detection)
    names = tuple(part.alias.text for part in detection.parts)
    parts = tuple(
        _input(catalog, part.source.text, part.source.span, queries) if part.select is None else _selected(part, select)
        for part in detection.parts
    )
    terms: tuple[Expr, ...] = ()
    if detection.where is not None:
        scope = Scope(tuple(_relation(name, part) for name, part in zip(names, parts, strict=True)))
        binder = ExpressionBinder(
            scope, catalog, "in the condition of an event", modify=lambda node: _previous(node, scope)
        )
        terms = conjuncts(binder.predicate(detection.where))
    terms += tuple(further)
    links = tuple(term for term in terms if any(PREVIOUS in name for name in columns(term)))
    terms = tuple(term for term in terms if term not in links)
    masks = {name: tuple(term for term in terms if _named(term) == {name}) for name in names}
    joint = tuple(term for term in terms if len(_named(term)) != 1)
    event = _lasting(_masked(_with_links(detection, links), masks), detection.parts, catalog)
    keys, conditions = _keys(names, joint)
    _check(event, conditions, detection)
    _check_repetitions(event, None, conditions, detection)
    context = _with_columns(detection, dict(zip(names, parts, strict=True)))
    event = _without_unused(event, context)
    return Detect(parts, event, context, keys, conditions, _outputs(event, parts, context.mode))


def _input(catalog: Catalog, name: str, span: Span, queries: Callable[[str], Node]) -> Node:
    match catalog.find(name, span=span):
        case Stream() as stream:
            return scan(stream)
        case Query() as query:
            return queries(query.name)
        case Table():
            raise NotSupported(
                f"{name!r} is a stored table, which has no events",
                span=span,
                hint="name a stream, a query or another event",
            )


def _selected(part: EventPart, select: Callable[[exp.Expr], Node]) -> Node:
    """Return the plan of a SELECT that stands for the name of an event; an event needs no order of arrival."""
    assert part.select is not None
    node = select(part.select)
    while isinstance(node, Order):
        node = node.input
    return node


def _relation(name: str, part: Node) -> Relation:
    own = tuple((field.name, Column(f"{name}.{field.name}", field.type)) for field in part.schema)
    rowtime: Expr = Call("timestamp_micros", (Column(f"{name}.{TS}", Type.BIGINT),), Type.TIMESTAMP)
    return Relation((name,), own if part.schema.find("rowtime") else (*own, ("rowtime", rowtime)))


def _named(term: Expr) -> set[str]:
    return {name.partition(".")[0] for name in columns(term)}


def _masked(event: Event, masks: dict[str, tuple[Expr, ...]]) -> Event:
    """Move conditions on single primitive events to these, so that they are decided before anything waits."""

    def change(part: Event) -> Event:
        return replace(part, mask=conjunction(masks[part.name])) if isinstance(part, events.Primitive) else part

    return rebuild(event, change)


def _previous(node: exp.Expr, scope: Scope) -> Expr | None:
    """Bind PREV(b.x): the column of the tuple before, of an event that is repeated."""
    if not isinstance(node, exp.Anonymous) or node.name.upper() != "PREV":
        return None
    if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
        raise TypeFault("PREV takes one column", span=place(node), hint="write b.x > PREV(b.x)")
    return transform(
        scope.column(node.expressions[0]),
        lambda part: Column(part.name.replace(".", f".{PREVIOUS}", 1), part.type) if isinstance(part, Column) else part,
    )


def _with_links(detection: Detection, links: Sequence[Expr]) -> Event:
    """Move conditions with PREV to the repetitions whose tuples they link."""
    remaining = list(links)

    def change(part: Event) -> Event:
        if not isinstance(part, events.Repetition) or not links:
            return part
        mine: list[tuple[Expr, ...]] = []
        for middle in part.middles:
            names = {middle.name} if isinstance(middle, events.Primitive) else set()
            found = [term for term in remaining if _named(term) == names]
            remaining[:] = [term for term in remaining if term not in found]
            mine.append(tuple(map(own_names, found)))
        return replace(part, links=tuple(mine)) if any(mine) else part

    event = rebuild(detection.event, change)
    if remaining:
        raise NotSupported(
            "PREV is allowed in conditions on one event that is repeated by itself",
            span=detection.span,
            hint="write a SEQUENCE b+ SEQUENCE c WITHIN 10 MINUTES WHERE b.x > PREV(b.x)",
        )
    return event


def _lasting(event: Event, parts: Sequence[EventPart], catalog: Catalog) -> Event:
    """Mark the parts that are complex events, which last from a start to an end."""

    def change(part: Event) -> Event:
        if not isinstance(part, events.Primitive) or parts[part.port].select is not None:
            return part
        source = catalog.find(parts[part.port].source.text)
        return replace(part, start=EVENT_START) if isinstance(source, Query) and is_complex(source) else part

    return rebuild(event, change)


#: An expression over the columns of one part, with the name of the part.
_Member: TypeAlias = tuple[str, Expr]


def _keys(names: Sequence[str], terms: Sequence[Expr]) -> tuple[tuple[tuple[Expr, ...], ...], tuple[Expr, ...]]:
    """Return the keys of each part, which equalities must link with all the others, and the remaining conditions."""
    equalities = dict(_equalities(terms))
    keys = [dict(reversed(linked)) for linked in _linked(equalities.values()) if set(dict(linked)) == set(names)]
    used = {
        term
        for term, ((left, left_expr), (right, right_expr)) in equalities.items()
        if any(key.get(left) == left_expr and key.get(right) == right_expr for key in keys)
    }
    by_part = tuple(tuple(own_names(key[name]) for key in keys) for name in names)
    return by_part, tuple(term for term in terms if term not in used)


def _linked(pairs: Iterable[tuple[_Member, _Member]]) -> list[list[_Member]]:
    """Divide expressions into classes of those that the pairs say to be equal; members in the order of the pairs."""
    classes: list[list[_Member]] = []
    for left, right in pairs:
        touched = [members for members in classes if left in members or right in members]
        classes = [members for members in classes if members not in touched]
        classes.append(list(dict.fromkeys([*chain.from_iterable(touched), left, right])))
    return classes


def _equalities(terms: Sequence[Expr]) -> Iterator[tuple[Expr, tuple[_Member, _Member]]]:
    """Find the conditions by which an expression over one part equals one over another."""
    for term in terms:
        if isinstance(term, Call) and term.function == "=" and all(len(_named(arg)) == 1 for arg in term.args):
            left, right = ((_named(arg).pop(), arg) for arg in term.args)
            if left[0] != right[0]:
                yield term, (left, right)


def _check_size(detection: Detection) -> None:
    operators, level = 0, [detection.event]
    while level:
        operators += len(level)
        level = [operand for part in level for operand in operands(part)]
    if operators > EVENT_OPERATORS:
        raise NotSupported(
            f"the event has {operators} operators and parts; at most {EVENT_OPERATORS} are allowed",
            span=detection.span,
            hint="name parts of it with CREATE EVENT",
        )


def _check(event: Event, conditions: Sequence[Expr], detection: Detection) -> None:
    for part in _walk(event):
        if isinstance(part, events.Aperiodic):
            middles, ends = ({primitive.name for primitive in primitives(side)} for side in (part.middle, part.end))
            if any(_named(term) & middles and _named(term) & ends for term in conditions):
                raise NotSupported(
                    "a condition of APERIODIC cannot compare a middle event with the end",
                    span=detection.span,
                    hint="write APERIODIC*, which reports when its end has come",
                )


def _check_repetitions(event: Event, span: int | None, conditions: Sequence[Expr], detection: Detection) -> None:
    """Refuse repetitions that would keep tuples forever, and conditions between two of them."""
    if isinstance(event, events.Repetition):
        repeated = [{part.name for part in primitives(middle)} for middle in event.middles]
        if span is None:
            shown = " and ".join(sorted(set().union(*repeated)))
            raise UnboundedStateFault(
                f"a repetition without WITHIN would keep every {shown} for as long as no end comes",
                span=detection.span,
                hint="write a SEQUENCE b+ SEQUENCE c WITHIN 10 MINUTES",
            )
        for term in conditions:
            if sum(bool(_named(term) & names) for names in repeated) > 1:
                raise NotSupported(
                    "a condition cannot compare two events that are repeated",
                    span=detection.span,
                    hint="compare each of them with the start or the end",
                )
    for operand, reach in zip(operands(event), events.reaches(event, span), strict=True):
        _check_repetitions(operand, reach, conditions, detection)


def _with_columns(detection: Detection, parts: dict[str, Node]) -> Context:
    """Return the context with the columns of BY as they are kept: those of an alias with their constituent."""
    composite = {alias.name: [part.name for part in constituents(alias)] for alias in aliases(detection.event)}
    columns_ = iter(detection.by)
    kept: list[Retention] = []
    for retention in detection.context.retentions:
        part = retention.part
        by = tuple(_column(next(columns_), part, composite.get(part), parts) for _ in retention.by)
        kept.append(replace(retention, by=by))
    return replace(detection.context, retentions=tuple(kept))


def _column(written: Name, part: str, composed: Sequence[str] | None, parts: dict[str, Node]) -> str:
    """Return a column of a part; of one that is composed of others, qualified with the one that has it."""
    column, span = written.text.partition(".")[2], written.span
    if composed is None:
        schema = parts[part].schema
        if schema.find(column) is None:
            raise NameFault(
                f"column {column!r} does not exist in {part}", span=span, hint=did_you_mean(column, schema.names)
            )
        return column
    qualified = {f"{name}.{field}": field for name in composed for field in parts[name].schema.names}
    found = [known for known, field in qualified.items() if column.lower() in (known.lower(), field.lower())]
    if len(found) == 1:
        return found[0]
    raise NameFault(
        f"column {column!r} is in several parts of {part}" if found else f"column {column!r} does not exist in {part}",
        span=span,
        hint=f"write {' or '.join(found)}" if found else did_you_mean(column, list(qualified)),
    )


def _without_unused(event: Event, context: Context) -> Event:
    """Remove aliases of which the context says nothing: they change nothing."""

    def change(part: Event) -> Event:
        return part.event if isinstance(part, events.Alias) and context.retention(part.name) is None else part

    return rebuild(event, change)


def _outputs(event: Event, parts: Sequence[Node], mode: Mode) -> tuple[Output, ...]:
    """Return all columns of all constituents, the start, and counts for parts that may have several tuples.

    The column of the start always has the name EVENT_START, so that other events find it.
    """
    taken: set[str] = {EVENT_START}
    outputs: list[Output] = []
    for part in constituents(event):
        outputs += [Pick(unique(field.name, taken), part.name, field.name) for field in parts[part.port].schema]
    outputs.append(Started(EVENT_START))
    several = repeated(event, mode)
    return (
        *outputs,
        *(
            Count(unique(f"{part.name}_count", taken), part.name)
            for part in constituents(event)
            if part.name in several
        ),
    )


def repeated(event: Event, mode: Mode) -> set[str]:
    """Return the constituents of which an occurrence may have more than one tuple."""
    names: set[str] = set()
    for part in _walk(event):
        if isinstance(part, events.Times):
            names |= {primitive.name for primitive in primitives(part.event)}
        if isinstance(part, events.AperiodicStar):
            names |= {primitive.name for primitive in primitives(part.middle)}
        if isinstance(part, events.Repetition):
            names |= {primitive.name for middle in part.middles for primitive in primitives(middle)}
        if mode is Mode.CUMULATIVE and not isinstance(part, events.Primitive | events.Or | events.Alias):
            collected = operands(part) if isinstance(part, events.And | events.AnyOf) else operands(part)[:1]
            names |= {primitive.name for operand in collected for primitive in primitives(operand)}
    return names & {part.name for part in constituents(event)}


def _walk(event: Event) -> Iterator[Event]:
    yield event
    for operand in operands(event):
        yield from _walk(operand)
