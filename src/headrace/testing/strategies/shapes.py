"""Queries by their shape, the catalog in which they are bound, and the rows of its stored tables."""

from __future__ import annotations

import polars as pl
from hypothesis.strategies import SearchStrategy

from headrace.catalog.catalog import Catalog
from headrace.model.page import Page
from headrace.testing.strategies import modifier_queries, queries

SHAPES: dict[str, SearchStrategy[str]] = {
    "projections": queries.projections(),
    "aggregates": queries.aggregates(),
    "joins": queries.joins(),
    "speaking_joins": queries.speaking_joins(),
    "three_way_joins": queries.three_way_joins(),
    "multi_way_joins": queries.multi_way_joins(),
    "sequences": queries.sequences(),
    "unions": queries.unions(),
    "distincts": queries.distincts(),
    "aggregates_of_joins": queries.aggregates_of_joins(),
    "nested": queries.nested(),
    "limits": queries.limits(),
    "ranks": queries.ranks(),
    "tops": queries.tops(),
    "deduplications": queries.deduplications(),
    "overs": queries.overs(),
    "window_overs": queries.window_overs(),
    "matches": queries.matches(),
    "table_joins": queries.table_joins(),
    "memberships": queries.memberships(),
    "temporal_joins": queries.temporal_joins(),
    "changelogs": queries.changelogs(),
    "join_changelogs": queries.join_changelogs(),
    "imputations": queries.imputations(),
    "modifiers": modifier_queries.modifiers(),
    "window_modifiers": modifier_queries.window_modifiers(),
    "suppressions": modifier_queries.suppressions(),
}
#: Stored tables, as a plan holds them.
STORED: dict[str, bytes] = {
    table.name: Page(pl.DataFrame(queries.TABLE_ROWS[table.name], schema=table.schema.polars())).encode()
    for table in queries.TABLES
}


def catalog() -> Catalog:
    """Return a catalog of the streams and tables that the queries read."""
    made = Catalog()
    for stream in queries.STREAMS:
        made.add(stream)
    for table in (*queries.TABLES, *queries.FED_TABLES):
        made.add(table)
    return made
