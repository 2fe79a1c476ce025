"""What a SELECT may refer to from outside itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Environment:
    """The catalog, the plans of named queries, the relations of WITH, the named queries being bound, and how to bind a nested query."""

    catalog: Catalog
    queries: Callable[[str], Node | None]
    ctes: Mapping[str, Node]
    path: tuple[str, ...]
    bind_query: Callable[[exp.Expr, Environment], Node]
