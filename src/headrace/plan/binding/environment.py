"""What a SELECT may refer to from outside itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Environment:
    """What the binder needs: catalog, plans of named queries, relations of WITH, and how to bind a nested query.

    `path` has the named queries that are being bound.
    """

    catalog: Catalog
    queries: Callable[[str], Node | None]
    ctes: Mapping[str, Node]
    path: tuple[str, ...]
    bind_query: Callable[[exp.Expr, Environment], Node]
