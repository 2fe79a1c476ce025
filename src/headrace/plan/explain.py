"""Plans as text for people (an indented tree) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.model.events.text import format_context, format_event
from headrace.model.expressions.expression import Call, Column, Expr, substitute
from headrace.model.expressions.own_names import meanings_of, rank_text, readable, window_label
from headrace.model.expressions.text import format_columns, format_expr, format_name
from headrace.model.rank import format_order
from headrace.model.row_pattern import Fold, Lookup
from headrace.model.schema import Schema
from headrace.model.suppression import format_suppression
from headrace.model.time import format_duration, format_instant
from headrace.model.value_order import format_arguments
from headrace.model.window import (
    AggregateCall,
    Cumulative,
    Extent,
    Landmark,
    Range,
    Rows,
    Session,
    Sliding,
    While,
    Window,
)
from headrace.plan import nodes
from headrace.plan.nodes import Node, inputs


def explain(node: Node) -> str:
    """Draw the plan as a tree, one line a node, inputs indented below it."""
    return "\n".join(_lines(node, 0)[0])


def _lines(node: Node, depth: int) -> tuple[list[str], dict[str, str]]:
    """Return the lines of a plan, and what its columns hold that have no name of a user."""
    below = [_lines(child, depth + 1) for child in inputs(node)]
    known = {name: text for _, names in below for name, text in names.items()}
    lines = ["  " * depth + readable(describe(node), known), *(line for part, _ in below for line in part)]
    match node:
        case nodes.Project(columns=columns):
            known |= meanings_of(columns, known)
        case nodes.Over(calls=calls) | nodes.WindowOver(calls=calls) if label := window_label(c.name for c in calls):
            lines[0] += f" ({label})"
            known |= {call.name: f"{readable(_call(call), known)} OVER {label}" for call in calls}
        case nodes.Rank(by=by, order=order, function=function, name=name):
            known[name] = rank_text(function, by, order, known)
        case _:
            pass
    return lines, known


def as_json(node: Node) -> str:
    """Write the plan as indented JSON, from which msgspec can read it back as a `Node`."""
    return msgspec.json.format(msgspec.json.encode(node), indent=2).decode()


def describe(node: Node) -> str:
    """Say in one line what a node does, without its inputs, in the words of a SELECT where there are any."""
    match node:
        case nodes.Scan(name=name, schema=schema):
            return f"Scan {name} ({_names(schema.names)})"
        case nodes.Filter(predicate=predicate):
            return f"Filter {format_expr(predicate)}"
        case nodes.Project(columns=columns):
            return f"Project {format_columns(columns)}"
        case nodes.Condense(keys=alike, calls=calls):
            made = (f"{call.function}({'*' if call.arg is None else format_expr(call.arg)})" for call in calls)
            return f"Condense what agrees in {_names(('time', *alike))}: {', '.join(made)}"
        case nodes.Unnest(of=of, names=names, place=place, outer=outer):
            kind = "Unnest outer" if outer else "Unnest"
            return f"{kind} {format_expr(of)} AS {_names((*names, *([place] if place else [])))}"
        case nodes.Union():
            return "Union"
        case nodes.Pace(late=late):
            return f"Late tuples of {_pace(node)}" if late else _pace(node)
        case nodes.Punctuate(mark=mark, keys=delimited, late=late):
            ends = f"ends of {_names(delimited)} marked by {format_name(mark)}"
            return f"Late tuples by {ends}" if late else f"Punctuate by {ends}"
        case nodes.Join():
            return _describe_join(node)
        case nodes.MultiJoin():
            return _describe_multi_join(node)
        case nodes.SequenceJoin():
            return _describe_sequence(node)
        case nodes.TableJoin():
            return _describe_table_join(node)
        case nodes.Membership():
            return _describe_membership(node)
        case nodes.Impute():
            return _describe_impute(node)
        case nodes.Aggregate(window=window, keys=groups, calls=calls):
            computed = _clause(" ", ", ".join(map(_call, calls)))
            return f"Aggregate{computed} OVER {format_window(window)}{_clause(' GROUP BY ', format_columns(groups))}"
        case nodes.Changes(keys=groups, calls=calls, ttl=ttl, columns=shown, condition=condition):
            computed = _clause(" ", ", ".join(map(_call, calls)))
            grouped = f"{computed}{_clause(' GROUP BY ', format_columns(groups))}"
            having = _clause(" HAVING ", " AND ".join(_residual(condition)))
            return f"Changes of {format_columns(shown)}:{grouped}{having} TTL {format_duration(ttl)}"
        case nodes.Distinct(span=span):
            return f"Distinct within {format_duration(span)}"
        case nodes.Deduplicate(by=by, span=span, last=last):
            return f"{'Last' if last else 'First'} of each {_expressions(by)} within {format_duration(span)}"
        case nodes.Over(by=by, frame=frame, calls=calls):
            return f"Over {', '.join(map(_call, calls))}{_clause(' PARTITION BY ', _expressions(by))} {frame}"
        case nodes.MatchRows():
            return _describe_match(node)
        case nodes.Rank(by=by, order=order, size=size):
            extent = "" if size == 1 else f" in {format_duration(size)}"
            keys = _clause(" PARTITION BY ", _expressions(by))
            return f"Rank {node.function}{extent}{keys} ORDER BY {format_order(order)} AS {format_name(node.name)}"
        case nodes.WindowOver(by=by, order=order, size=size, frame=places, calls=calls):
            extent = "" if size == 1 else f" in {format_duration(size)}"
            keys = f"{_clause(' PARTITION BY ', _expressions(by))}{_clause(' ORDER BY ', format_order(order))}"
            return f"Over {', '.join(map(_call, calls))}{extent}{keys} {places}"
        case nodes.Suppress(by=by, rule=rule):
            return f"Suppress {format_suppression(rule)}{_clause(' GROUP BY ', _expressions(by))}"
        case nodes.Order(by=by):
            return f"Order by time{_clause(' PARTITION BY ', _expressions(by))}"
        case nodes.Limit(count=count):
            return f"Limit {count}"
        case nodes.Detect():
            return _describe_detect(node)


def _describe_match(node: nodes.MatchRows) -> str:
    pattern = node.pattern
    skip = "SKIP TO NEXT ROW" if pattern.overlapping else "SKIP PAST LAST ROW"
    names = {lookup.name: _lookup(lookup) for lookup in (*pattern.lookups, *node.lookups)}
    names |= {fold.call.name: _fold(fold) for fold in (*pattern.folds, *node.folds)}
    conditions = []
    for variable in pattern.variables:
        text = format_expr(variable.condition)
        for name, meaning in names.items():
            text = text.replace(format_name(name), meaning)
        conditions.append(f"{variable.name} AS {text}")
    keys = _clause(" PARTITION BY ", _expressions(node.by))
    return f"Match {pattern} {skip}{keys} DEFINE {', '.join(conditions)}"


def _lookup(lookup: Lookup) -> str:
    of = f"{lookup.variable}.{format_expr(lookup.of)}" if lookup.variable is not None else format_expr(lookup.of)
    further = f", {lookup.offset}" if lookup.offset else ""
    return f"{lookup.place.upper()}({of}{further})"


def _fold(fold: Fold) -> str:
    of = "*" if fold.call.arg is None else format_expr(fold.call.arg)
    return f"{fold.call.function.upper()}({'' if fold.variable is None else f'{fold.variable}.'}{of})"


def format_window(window: Window) -> str:
    """Write a window as in the text of a query."""
    match window:
        case Range(size=size, slide=slide, offset=offset):
            every = "" if size == slide else f" SLIDE {format_duration(slide)}"
            return f"[RANGE {format_duration(size)}{every}{_offset(offset)}]"
        case Cumulative(size=size, step=step, offset=offset):
            return f"[RANGE {format_duration(size)} STEP {format_duration(step)}{_offset(offset)}]"
        case Sliding(size=span):
            return f"[{'UNBOUNDED' if span is None else 'RANGE ' + format_duration(span)} SLIDE TUPLE]"
        case Rows(size=size, slide=slide, by=by):
            return f"[{_partition(by)}ROWS {size}{'' if size == slide else f' SLIDE {slide}'}]"
        case Session(gap=gap, inclusive=inclusive):
            return f"[SESSION {format_duration(gap)}{' INCLUSIVE' if inclusive else ''}]"
        case Landmark(start=start, slide=slide):
            since = "UNBOUNDED" if start is None else f"LANDMARK FROM '{format_instant(start)}'"
            return f"[{since} SLIDE {format_duration(slide)}]"
        case While(predicate=predicate, by=by):
            return f"[{_partition(by)}WHILE {format_expr(predicate)}]"


def _offset(offset: int) -> str:
    return f" OFFSET {format_duration(offset)}" if offset else ""


def _pace(node: nodes.Pace) -> str:
    service = f" SERVICE {format_duration(node.service)}" if node.service else ""
    return f"Pace {format_duration(node.tolerance)} CUT {node.share:g}{service}"


def _describe_impute(node: nodes.Impute) -> str:
    match node.archive:
        case nodes.FunctionArchive(target=target):
            source = f"python:{target}"
        case nodes.StoredArchive(table=table, column=column):
            source = f"{table}.{format_name(column)}"
    by = _expressions(node.keys)
    return f"Impute {format_expr(node.value)} AS {format_name(node.name)} USING {source} BY {by}"


def _describe_detect(node: nodes.Detect) -> str:
    by = ", ".join(" = ".join(map(format_expr, equal)) for equal in zip(*node.keys, strict=True))
    tested = " AND ".join(map(format_expr, node.conditions))
    what = f"{format_event(node.event)}{_clause(' BY ', by)}{_clause(' WHERE ', tested)}"
    return f"Detect {what} CONTEXT {format_context(node.context)}"


def _describe_join(join: nodes.Join) -> str:
    manner = "" if join.manner == "plain" else f"{join.manner.upper()} "
    windows = f"{_extent(join.left_extent)} with {_extent(join.right_extent)}"
    what = "Changes of join" if join.change else "Join"
    return f"{what} {manner}{join.kind.upper()} {windows}{_on(join)} {_right_columns(join)}"


def _describe_multi_join(join: nodes.MultiJoin) -> str:
    windows = " with ".join(
        f"{label} {_extent(extent)}" for label, extent in zip(join.labels, join.extents, strict=True)
    )
    renamed = [
        {field.name: Column(name, field.type) for field, name in zip(part.schema, own, strict=True)}
        for part, own in zip(join.inputs, join.names, strict=True)
    ]
    classes = [
        " = ".join(format_expr(substitute(e, renamed[port])) for port, e in enumerate(members) if e is not None)
        for members in join.classes
    ]
    tested = " AND ".join([*classes, *(text for term in join.terms for text in _residual(term))])
    return f"Join {windows}{_clause(' ON ', tested)}"


def _describe_sequence(join: nodes.SequenceJoin) -> str:
    if join.mode == "consuming":
        windows = f"{_extent(Extent(span=join.span))} with {_extent(Extent(span=join.right_span))}"
        return f"Join CONSUMING {windows}{_on(join)} {_right_columns(join)}"
    kind = "RIGHT FOLLOWING" if join.padded else "FOLLOWING"
    mode = f"{join.mode.upper()}{' INCLUSIVE' if join.inclusive else ''}"
    return f"Join {kind} {mode} {_extent(Extent(span=join.span))}{_on(join)} {_right_columns(join)}"


def _describe_table_join(join: nodes.TableJoin) -> str:
    # A plan that breaks an invariant is described too, so names and columns may not be as many.
    renamed = dict(zip(join.table_schema.names, join.table_names, strict=False))
    terms = [f"{format_expr(expr)} = {format_name(renamed.get(column, column))}" for expr, column in join.keys]
    on = _clause(" ON ", " AND ".join([*terms, *_residual(join.residual)]))
    added = _renamed(join.table_schema, join.table_names)
    return f"Join {join.kind.upper()} table {join.table}{on} (table: {added})"


def _describe_membership(node: nodes.Membership) -> str:
    columns = zip(node.table_schema, node.table_names, strict=False)
    renamed: dict[str, Expr] = {field.name: Column(name, field.type) for field, name in columns}

    def terms(pairs: tuple[tuple[Expr, Expr], ...]) -> list[str]:
        return [f"{format_expr(mine)} = {format_expr(substitute(theirs, renamed))}" for mine, theirs in pairs]

    where = _clause(" WHERE ", " AND ".join([*terms(node.keys), *_residual(node.residual)]))
    compared = _clause(" IN BY ", " AND ".join(terms(node.compared)))
    if node.value is not None:
        of = f"{format_expr(node.value)} of {', '.join(map(_call, node.calls))}"
        return f"Value {format_name(node.name)}: {of} over table {node.table}{where}"
    return f"Membership {format_name(node.name)}: table {node.table}{compared}{where}"


def _on(join: nodes.Join | nodes.SequenceJoin) -> str:
    """Write the condition of a join over the names of its output."""
    columns = zip(join.right.schema, join.right_names, strict=False)
    renamed: dict[str, Expr] = {field.name: Column(name, field.type) for field, name in columns}
    terms = [f"{format_expr(left)} = {format_expr(substitute(right, renamed))}" for left, right in join.keys]
    return _clause(" ON ", " AND ".join([*terms, *_residual(join.residual)]))


def _right_columns(join: nodes.Join | nodes.SequenceJoin) -> str:
    return f"(right: {_renamed(join.right.schema, join.right_names)})"


def _renamed(schema: Schema, names: Sequence[str]) -> str:
    return format_columns(
        tuple((name, Column(field.name, field.type)) for field, name in zip(schema, names, strict=False))
    )


def _extent(extent: Extent | None) -> str:
    if extent is None:
        return "[windows of the joined inputs]"
    if extent.rows is not None:
        return f"[{_partition(extent.by)}ROWS {extent.rows}]"
    return "[UNBOUNDED]" if extent.span is None else f"[RANGE {format_duration(extent.span)}]"


def _partition(by: tuple[Expr, ...]) -> str:
    return f"PARTITION BY {_expressions(by)} " if by else ""


def _residual(residual: Expr | None) -> list[str]:
    if residual is None:
        return []
    text = format_expr(residual)
    return [f"({text})" if isinstance(residual, Call) and residual.function == "or" else text]


def _expressions(exprs: Iterable[Expr]) -> str:
    return ", ".join(map(format_expr, exprs))


def _call(call: AggregateCall) -> str:
    if call.fold is not None:
        return f"{call.fold.name}({_expressions(call.more)}) AS {format_name(call.name)}"
    return f"{call.function}({format_arguments(call) or '*'}) AS {format_name(call.name)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(format_name, names))


def _clause(word: str, text: str) -> str:
    return word + text if text else ""
