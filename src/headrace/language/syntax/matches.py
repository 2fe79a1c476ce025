"""MATCH_RECOGNIZE behind a FROM item, as the parser reads it; it hangs on the item, in `meta`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import Span
from headrace.language.syntax.names import Name


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A pattern variable and how many rows it has; `most` None means any number."""

    variable: Name
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class MatchClause:
    """MATCH_RECOGNIZE (PARTITION BY ... ORDER BY ... MEASURES ... AFTER MATCH SKIP ... PATTERN ... DEFINE ...)."""

    by: tuple[exp.Expr, ...]
    order: tuple[exp.Expr, ...]
    measures: tuple[tuple[Name, exp.Expr], ...]
    overlapping: bool
    pattern: tuple[PatternPart, ...]
    within: int | None
    define: tuple[tuple[Name, exp.Expr], ...]
    span: Span


def match_of(item: exp.Expr) -> MatchClause | None:
    """Return MATCH_RECOGNIZE after a table or sub-query of FROM."""
    clause: MatchClause | None = item.meta.get("match")
    return clause
