"""Refuses a text that is too large before anything walks it recursively (model/limits.py has the limits)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from headrace.errors import NotSupported, Span
from headrace.model import limits
from headrace.model.expressions.expression import LONG_CHAIN

#: Operators whose chains are made balanced, or one call.
_CHAINED = (exp.And, exp.Or, exp.DPipe)
_PARTS = 2 * limits.EXPRESSION_PARTS


def check_written(tree: exp.Expr) -> None:
    """Refuse a SELECT or expression that is too large as it is written, with the place."""
    pending: list[tuple[exp.Expr, int, int]] = [(tree, 0, 0)]
    parts = 0
    while pending:
        node, levels, nested = pending.pop()
        parts += 1
        _check_lists(node)
        if parts > _PARTS:
            raise NotSupported(
                f"the statement has more than {_PARTS:,} parts",
                span=_first(tree),
                hint="put long lists of values into a table and join it",
            )
        if isinstance(node, exp.Query):
            is_chained = isinstance(node, exp.Union) and isinstance(node.parent, exp.Union)
            levels, nested = 0, nested + (not is_chained)
        elif _is_level(node):
            levels += 1
        if levels > limits.EXPRESSION_DEPTH or nested > limits.PLAN_DEPTH:
            is_expression = levels > limits.EXPRESSION_DEPTH
            what, most = ("expression", limits.EXPRESSION_DEPTH) if is_expression else ("sub-query", limits.PLAN_DEPTH)
            raise NotSupported(
                f"the {what} is nested more than {most} levels deep",
                span=_first(node),
                hint="compute parts of it in a view or another query",
            )
        children: Sequence[exp.Expr] = list(node.iter_expressions())
        if isinstance(node, _CHAINED):
            children = terms_of(node)
            levels += _chain_levels(len(children)) - 1
        pending += [(child, levels, nested) for child in children]


def terms_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the terms of a chain of AND, OR or ||, without recursion: programs write chains of hundreds."""
    terms: list[exp.Expr] = []
    while isinstance(node, _CHAINED):
        terms.append(node.expression)
        left = node.this
        if type(left) is not type(node):
            terms.append(left)
            break
        node = left
    return terms[::-1]


def _check_lists(node: exp.Expr) -> None:
    if isinstance(node, exp.In) and len(node.expressions) > limits.IN_VALUES:
        raise NotSupported(
            f"IN has {len(node.expressions):,} values; at most {limits.IN_VALUES:,} are allowed",
            span=_first(node),
            hint="put the values into a table and join it",
        )
    if isinstance(node, exp.Select):
        joins = node.args.get("joins") or []
        if len(joins) > limits.JOINS:
            raise NotSupported(
                f"FROM has {len(joins)} joins; at most {limits.JOINS} are allowed",
                span=_first(joins[limits.JOINS]),
                hint="join some of the streams in another query",
            )
        if len(node.expressions) > limits.COLUMNS:
            raise NotSupported(
                f"SELECT has {len(node.expressions):,} columns; at most {limits.COLUMNS:,} are allowed",
                span=_first(node.expressions[limits.COLUMNS]),
                hint="select the columns that are needed",
            )


def _is_level(node: exp.Expr) -> bool:
    return isinstance(node, exp.Condition) and not isinstance(node, exp.Column | exp.Literal | exp.Null | exp.Boolean)


def _chain_levels(terms: int) -> int:
    return terms - 1 if terms <= LONG_CHAIN else LONG_CHAIN + math.ceil(math.log2(terms / LONG_CHAIN))


def _first(node: exp.Expr) -> Span | None:
    """Return the place of the first name or value of a part; its whole place could be the whole statement."""
    places = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
    return Span(*min(places)) if places else None
