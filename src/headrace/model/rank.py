"""Ranks: the place of a tuple among others, and the order that decides it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr

#: row_number counts all tuples, rank those that come before, dense_rank the different values that come before.
Ranking: TypeAlias = Literal["row_number", "rank", "dense_rank"]


class RankOrder(Struct, frozen=True):
    """One term of ORDER BY."""

    expr: Expr
    descending: bool
    nulls_first: bool


def format_order(order: Iterable[RankOrder]) -> str:
    """Write the terms of ORDER BY; NULLS where it is not the default, NULL being the least value."""
    return ", ".join(
        format_expr(term.expr)
        + (" DESC" if term.descending else "")
        + ("" if term.nulls_first != term.descending else " NULLS FIRST" if term.nulls_first else " NULLS LAST")
        for term in order
    )
