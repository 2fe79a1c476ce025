"""Events rebuilt from their parts, and expressions over one part in the part's own words."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.events.event import Event, Primitive
from headrace.model.expressions.expression import Column, Expr, transform


def rebuild(event: Event, change: Callable[[Event], Event]) -> Event:
    """Rebuild an event bottom-up."""

    def rebuilt(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(rebuilt, value))
        return rebuild(value, change) if isinstance(value, Event) else value

    if isinstance(event, Primitive):
        return change(event)
    fields = (rebuilt(getattr(event, name)) for name in event.__struct_fields__)
    return change(type(event)(*fields))  # type: ignore[arg-type]


def own_names(expr: Expr) -> Expr:
    """Return an expression over the columns of one part, without the part's name."""
    return transform(
        expr, lambda node: Column(node.name.partition(".")[2], node.type) if isinstance(node, Column) else node
    )
