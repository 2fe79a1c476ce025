"""The surroundings of a SELECT while it is bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Environment:
    """The catalog, plans of named queries, relations of WITH, and the function that binds a nested query.

    `path` has the named queries that are being bound. `on_tables`: stored tables are read as streams of one instant.
    """

    catalog: Catalog
    queries: Callable[[str], Node | None]
    ctes: Mapping[str, Node]
    path: tuple[str, ...]
    bind_query: Callable[[exp.Expr, Environment], Node]
    on_tables: bool = False
