"""Rows by key: what the changes of a changelog, or newer results, make of a table.

A text column `change` says what happened to a row, as EMIT CHANGES writes it. Without one, every row is the new row of
its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.connectors.options import near
from headrace.errors import NameFault, QueryError
from headrace.model.changelog import AFTER, BEFORE, CHANGE, DELETE, INSERT, REMOVALS
from headrace.model.page import Page
from headrace.model.schema import TS, Schema
from headrace.model.types import Type

_CHANGES = (INSERT, BEFORE, AFTER, DELETE)
#: The column of `latest` that says whether the key has no row any more.
GONE = "__gone"


def key_columns(option: object, kind: str, schema: Schema) -> tuple[str, ...]:
    """Read the names of the columns that are the key of a table."""
    names = tuple(name.strip() for name in str(option).split(","))
    shown = [name for name in schema.names if name != change_column(schema)]
    for name in names:
        if name not in shown:
            raise NameFault(f"{kind}: key: the query has no column {name!r}", hint=near(name, shown))
    if len(set(names)) < len(names):
        raise QueryError(f"{kind}: the key names a column twice", hint="write each column once")
    return names


def change_column(schema: Schema) -> str | None:
    """Return the name of the column that says what happened to a row; None if every row is a new one."""
    return CHANGE if any(field.name == CHANGE and field.type is Type.STRING for field in schema) else None


def without_change(schema: Schema) -> Schema:
    """Return the columns of the table."""
    change = change_column(schema)
    return Schema(tuple(field for field in schema if field.name != change))


def in_order(pages: Sequence[Page], schema: Schema) -> pl.DataFrame:
    """Return the results of a micro-batch in the order of time; those of an instant in the order in which they came."""
    rows = pl.concat([page.rows.select(*schema.names, TS) for page in pages])
    return rows.sort(TS, maintain_order=True).drop(TS)


def latest(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Return for each key its last row, without `change`; GONE says that the key has no row any more.

    The row of a key before a change is gone: the row after it follows, unless a condition holds it back, or it has
    another key.
    """
    is_gone = pl.lit(False)
    if rows.schema.get(CHANGE) == pl.String:
        is_gone = pl.col(CHANGE).is_in(REMOVALS).fill_null(value=False)
    last = rows.with_columns(is_gone.alias(GONE)).unique(subset=list(key), keep="last", maintain_order=True)
    return last.drop(CHANGE) if rows.schema.get(CHANGE) == pl.String else last


def empty_table(schema: Schema) -> pl.DataFrame:
    """Return a table without rows, and with GONE."""
    return pl.DataFrame(schema={**schema.polars(), GONE: pl.Boolean()})


def merged(table: pl.DataFrame, changes: Sequence[pl.DataFrame], key: Sequence[str]) -> pl.DataFrame:
    """Return a table after changes, the last of each key."""
    if not changes:
        return table
    rows = pl.concat([table, *changes]).unique(subset=list(key), keep="last", maintain_order=True)
    return rows.filter(~pl.col(GONE))


def unknown_change(rows: pl.DataFrame) -> pl.Expr:
    """Return why a row cannot be applied to a table: its `change` is something else; NULL if it can."""
    if rows.schema.get(CHANGE) != pl.String:
        return pl.lit(None, pl.String)
    known = pl.col(CHANGE).is_in(_CHANGES).fill_null(value=False)
    what = pl.concat_str(pl.lit("'"), pl.col(CHANGE), pl.lit("'")).fill_null("NULL")
    reason = pl.concat_str(pl.lit(f"column '{CHANGE}' is "), what, pl.lit(f", none of {', '.join(_CHANGES)}"))
    return pl.when(~known).then(reason)
