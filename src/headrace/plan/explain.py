"""Plans as text for people (an indented tree) and for programs (JSON)."""

from __future__ import annotations

import msgspec

from headrace.model.events.text import format_context, format_event
from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_columns, format_expr, format_name
from headrace.model.schema import Schema
from headrace.model.suppression import format_suppression
from headrace.model.time import format_duration, format_instant
from headrace.model.window import AggregateCall, Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import outline


def explain(node: Node) -> str:
    """Draw the plan as a tree, one line a node, inputs indented below it."""
    return "\n".join("  " * depth + describe(part) for depth, part in outline(node))


def as_json(node: Node) -> str:
    """Write the plan as indented JSON, from which msgspec can read it back as a `Node`."""
    return msgspec.json.format(msgspec.json.encode(node), indent=2).decode()


def describe(node: Node) -> str:
    """Say in one line what a node does, without its inputs."""
    match node:
        case nodes.Scan(name=name, schema=schema):
            return f"Scan {name} ({_names(schema)})"
        case nodes.Filter(predicate=predicate):
            return f"Filter {format_expr(predicate)}"
        case nodes.Project(columns=columns):
            return f"Project {format_columns(columns)}"
        case nodes.Union():
            return "Union"
        case nodes.Pace(tolerance=tolerance, share=share, service=service, late=late):
            work = f" SERVICE {format_duration(service)}" if service else ""
            return f"{'Late of pace' if late else 'Pace'} {format_duration(tolerance)} CUT {share:g}{work}"
        case nodes.Join():
            return _describe_join(node)
        case nodes.SequenceJoin():
            return _describe_sequence(node)
        case nodes.Impute(name=name, value=value, keys=imputed_by, archive=archive):
            by = ", ".join(map(format_expr, imputed_by))
            source = (
                f"python:{archive.target}"
                if isinstance(archive, nodes.FunctionArchive)
                else f"{archive.table}.{format_name(archive.column)}"
            )
            return f"Impute {format_expr(value)} AS {format_name(name)} USING {source} BY {by}"
        case nodes.TableJoin(table=table, kind=kind, keys=keys, residual=residual, table_names=names):
            on = ", ".join(f"{format_expr(expr)} = {format_name(column)}" for expr, column in keys)
            return f"TableJoin {kind} {table}{_clause(' ON ', on)}{_residual(residual)} AS ({', '.join(map(format_name, names))})"
        case nodes.Aggregate(window=window, keys=groups, calls=calls):
            return f"Aggregate {format_window(window)}{_clause(' BY ', format_columns(groups))}{_clause(' COMPUTE ', ', '.join(map(_call, calls)))}"
        case nodes.Distinct(span=span):
            return f"Distinct within {format_duration(span)}"
        case nodes.Suppress(by=by, rule=rule):
            return f"Suppress {format_suppression(rule)}{_clause(' BY ', ', '.join(map(format_expr, by)))}"
        case nodes.Order():
            return "Order"
        case nodes.Detect(event=event, context=context, keys=keys, conditions=conditions):
            by = ", ".join(" = ".join(map(format_expr, each)) for each in zip(*keys, strict=True))
            tested = " AND ".join(map(format_expr, conditions))
            return f"Detect {format_event(event)}{_clause(' BY ', by)}{_clause(' IF ', tested)} CONTEXT {format_context(context)}"


def format_window(window: Window) -> str:
    """Write a window as in the text of a query."""
    match window:
        case Range(size=size, slide=slide):
            return f"[RANGE {format_duration(size)}{'' if size == slide else ' SLIDE ' + format_duration(slide)}]"
        case Sliding(size=span):
            return f"[{'UNBOUNDED' if span is None else 'RANGE ' + format_duration(span)} SLIDE TUPLE]"
        case Rows(size=size, slide=slide, by=by):
            return f"[{_partition(by)}ROWS {size}{'' if size == slide else f' SLIDE {slide}'}]"
        case Session(gap=gap):
            return f"[SESSION {format_duration(gap)}]"
        case Landmark(start=start, slide=slide):
            since = "UNBOUNDED" if start is None else f"LANDMARK FROM '{format_instant(start)}'"
            return f"[{since} SLIDE {format_duration(slide)}]"
        case While(predicate=predicate, by=by):
            return f"[{_partition(by)}WHILE {format_expr(predicate)}]"


def _describe_sequence(join: nodes.SequenceJoin) -> str:
    what = f"SequenceJoin {join.mode}{' inclusive' if join.inclusive else ''} {_extent(Extent(span=join.span))}"
    return f"{what}{_clause(' ON ', _equalities(join))}{_residual(join.residual)} AS ({', '.join(map(format_name, join.right_names))})"


def _describe_join(join: nodes.Join) -> str:
    on = _equalities(join)
    extents = f" {_extent(join.left_extent)} {_extent(join.right_extent)}"
    manner = "" if join.manner == "plain" else f" {join.manner}"
    return f"Join{manner} {join.kind}{extents}{_clause(' ON ', on)}{_residual(join.residual)} AS ({', '.join(map(format_name, join.right_names))})"


def _equalities(join: nodes.Join | nodes.SequenceJoin) -> str:
    return ", ".join(f"{format_expr(mine)} = {format_expr(theirs)}" for mine, theirs in join.keys)


def _extent(extent: Extent | None) -> str:
    if extent is None:
        return "[inherited]"
    if extent.rows is not None:
        return f"[{_partition(extent.by)}ROWS {extent.rows}]"
    return "[UNBOUNDED]" if extent.span is None else f"[RANGE {format_duration(extent.span)}]"


def _partition(by: tuple[Expr, ...]) -> str:
    return f"PARTITION BY {', '.join(map(format_expr, by))} " if by else ""


def _residual(residual: Expr | None) -> str:
    return "" if residual is None else f" IF {format_expr(residual)}"


def _call(call: AggregateCall) -> str:
    return f"{call.function}({'*' if call.arg is None else format_expr(call.arg)}) AS {format_name(call.name)}"


def _names(schema: Schema) -> str:
    return ", ".join(map(format_name, schema.names))


def _clause(word: str, text: str) -> str:
    return word + text if text else ""
