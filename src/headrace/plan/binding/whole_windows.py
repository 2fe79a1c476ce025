"""Tuples that come when a window is complete, once for each window that they are in: collected, and then unnested."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from headrace.errors import NotSupported, Span
from headrace.model.expressions.expression import TRUE, Call, Column, Expr, Literal
from headrace.model.types import ArrayType, StructType, Type, has_map, is_nested
from headrace.model.window import AggregateCall, Window
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.scope import unique
from headrace.plan.binding.tumbling import tumbling_columns
from headrace.plan.nodes import Aggregate, Node, Project, Unnest

BOUNDS = ("window_start", "window_end")


def one_by_one(
    source: Node, window: Window, by: Mapping[str, Expr], ends: Mapping[str, str], span: Span | None
) -> Node:
    """Return the tuples of each window at its end, with the columns of the source and the ends of the window.

    They are collected by the keys `by`. `ends` are columns of the source that are an end of this window.
    """
    taken = {*source.schema.names, *BOUNDS}
    other = [field for field in source.schema if field.name not in by and field.name not in ends]
    if held := next((field for field in other if has_map(field.type)), None):
        raise NotSupported(
            f"the tuples of a window cannot be kept to its end with the MAP {held.name!r}",
            span=span,
            hint="read a view that selects the other columns, or to_json(m)",
        )
    type_ = StructType(tuple((field.name, field.type) for field in other))
    parts = [part for name, kind in type_.fields for part in (Literal(name, Type.STRING), Column(name, kind))]
    many, single = unique("tuples", taken), unique("tuple", taken)
    kept: Expr = Call("named_struct", tuple(parts), type_) if parts else TRUE
    collected = AggregateCall(many, "collect_list", kept, ArrayType(kept.type))
    node: Node = Aggregate(source, window, tuple(by.items()), (collected,))
    node = Unnest(node, Column(many, collected.type), (single,), kept=(*by, *BOUNDS))
    columns: dict[str, Expr] = {}
    for field in source.schema:
        if field.name in by or field.name in ends:
            columns[field.name] = Column(ends.get(field.name, field.name), field.type)
        else:
            columns[field.name] = Call("field", (Column(single, type_), Literal(field.name, Type.STRING)), field.type)
    bounds: dict[str, Expr] = {name: Column(name, Type.TIMESTAMP) for name in BOUNDS}
    return Project(node, tuple((columns | ({} if ends else bounds)).items()))


def keys_of(source: Node, names: Collection[str]) -> dict[str, Expr]:
    """Return the columns of these names, in small letters, by which tuples can be collected."""
    usable = (field for field in source.schema if field.name.lower() in names and not is_nested(field.type))
    return {field.name: Column(field.name, field.type) for field in usable}


def wait_for_end(item: exp.Expr, names: Collection[str]) -> None:
    """Let the tuples of an item of FROM come when their tumbling window is complete; `names` divide its tuples."""
    item.meta["whole_window"] = frozenset(names)


def at_end(source: Node, item: exp.Expr, span: Span | None, env: Environment) -> Node:
    """Return the tuples of an item of FROM, at the end of their windows if they shall come then."""
    names: frozenset[str] | None = item.meta.get("whole_window")
    if names is None:
        return source
    known = tumbling_columns(source, env)
    window = next(iter(known.values())).window
    ends = {name: bound.which for name, bound in known.items() if bound.window == window}
    by = {name: expr for name, expr in keys_of(source, names).items() if name not in ends}
    return one_by_one(source, window, by, ends, span)
