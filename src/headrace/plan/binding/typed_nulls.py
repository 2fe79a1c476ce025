"""NULL as a column of a part of a UNION: it has the type that the column has in the other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from headrace.language.dialect import Headrace
from headrace.model.schema import Schema
from headrace.model.types import DataType


def with_typed_nulls(parts: Sequence[exp.Expr], schema_of: Callable[[exp.Expr], Schema]) -> list[exp.Expr]:
    """Return the parts of a UNION with a CAST of each NULL that is a column, if another part says its type."""
    places = [_places(part) for part in parts]
    if not any(places):
        return list(parts)
    schemas = [
        schema_of(_with_casts(part, dict.fromkeys(at, "STRING"))) for part, at in zip(parts, places, strict=True)
    ]
    untyped = [
        {_column(at, part, schema) for at in found} for part, found, schema in zip(parts, places, schemas, strict=True)
    ]
    typed = []
    for part, found, own in zip(parts, places, schemas, strict=True):
        casts = {}
        for at in found:
            column = _column(at, part, own)
            known = _type_in(column, ((schema, nulls) for schema, nulls in zip(schemas, untyped, strict=True)))
            if known is not None:
                casts[at] = known.value
        typed.append(_with_casts(part, casts))
    return typed


def _places(part: exp.Expr) -> list[int]:
    """Return which columns of SELECT are NULL, if their places in the result can be told."""
    if not isinstance(part, exp.Select):
        return []
    items = part.expressions
    stars = [at for at, item in enumerate(items) if item.is_star]
    return [
        at
        for at, item in enumerate(items)
        if isinstance(item.unalias(), exp.Null) and (not stars or at < stars[0] or at > stars[-1])
    ]


def _column(at: int, part: exp.Expr, schema: Schema) -> int:
    """Return the place of a column in the result: before a star it is that in SELECT, else it counts from the end."""
    items = part.expressions
    return at if not any(item.is_star for item in items[:at]) else len(schema) - (len(items) - at)


def _type_in(column: int, parts: Iterable[tuple[Schema, set[int]]]) -> DataType | None:
    """Return the type of a column in the first part in which it is not NULL alone."""
    for schema, nulls in parts:
        if column not in nulls and column < len(schema):
            return list(schema)[column].type
    return None


def _with_casts(part: exp.Expr, types: dict[int, str]) -> exp.Expr:
    """Return a SELECT in which the columns at these places, which are NULL, have types."""
    if not types:
        return part
    typed = part.copy()
    for at, written in types.items():
        null = typed.expressions[at].unalias()
        null.replace(exp.cast(exp.Null(), written, dialect=Headrace))
    return typed
