"""What a SELECT may refer to from outside itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Environment:
    """The catalog, the plans of named queries, the relations of WITH, and how to bind a nested query."""

    catalog: Catalog
    queries: Mapping[str, Node]
    ctes: Mapping[str, Node]
    bind_query: Callable[[exp.Expr, Environment], Node]
