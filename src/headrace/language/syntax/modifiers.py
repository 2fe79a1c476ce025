"""Stream modifiers and suppressors, as the parser reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

from headrace.errors import Span

Kind: TypeAlias = Literal["diff", "rdiff", "slope", "wdiff", "wrdiff", "wslope"]
#: Which of two tuples other columns are taken from.
Profile: TypeAlias = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class ModifierClause:
    """DIFF(x [PSEUDO p] [OLD | NEW]) and the other modifiers.

    Kinds that begin with w compare the first and last tuple of a window, the others consecutive tuples.
    """

    kind: Kind
    args: tuple[exp.Expr, ...]
    pseudo: int | float | None
    profile: Profile | None
    span: Span

    @property
    def is_of_window(self) -> bool:
        return self.kind.startswith("w")


@dataclass(frozen=True, slots=True)
class SuppressClause:
    """RSUPPRESS(limit [OLD | NEW]), or TSUPPRESS(time [, action] [OLD | NEW]) with a time in microseconds."""

    limit: int | None
    time: int | None
    action: exp.Expr | None
    profile: Profile | None
    span: Span

    @property
    def name(self) -> str:
        return "TSUPPRESS" if self.limit is None else "RSUPPRESS"


def modifier_of(node: exp.Expr) -> ModifierClause | None:
    """Return the clause of a call of a modifier."""
    clause: ModifierClause | None = node.meta.get("modifier")
    return clause


def suppress_of(node: exp.Expr) -> SuppressClause | None:
    """Return the clause of a call of a suppressor."""
    clause: SuppressClause | None = node.meta.get("suppress")
    return clause
