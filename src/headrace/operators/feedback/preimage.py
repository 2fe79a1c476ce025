"""Which values of a column make an expression match; only where that is exact, since a guess would lose tuples."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.expressions.expression import Call, Cast, Column, Expr, Literal
from headrace.model.patterns.match import IsNull, Match, contains, shifted, turned
from headrace.model.patterns.pattern import Pattern, Term, pattern
from headrace.model.types import Type


def preimage(expr: Expr, match: Match) -> tuple[tuple[Column, Match], ...] | None:
    """Return terms over the input that hold exactly where the expression's value matches; None if none are known.

    Carried columns, constants, INT made BIGINT, and INT plus, minus or times -1: these cannot overflow and round
    nothing.
    """
    match expr:
        case Column():
            return ((expr, match),)
        case Literal(value=None):
            return () if isinstance(match, IsNull) else None
        case Literal(value=value, type=type_):
            return () if value is not None and contains(match, value, type_) else None
        case Cast(arg=Column(type=Type.INT) as column, type=Type.BIGINT):
            return ((column, match),)
        case Call("neg", (Column(type=Type.INT) as column,)):
            return ((column, turned(match, 0)),)
        case Call("+", (Column(type=Type.INT) as column, Literal(value=int(by)))) | Call(
            "+", (Literal(value=int(by)), Column(type=Type.INT) as column)
        ):
            return ((column, shifted(match, -by)),)
        case Call("-", (Column(type=Type.INT) as column, Literal(value=int(by)))):
            return ((column, shifted(match, by)),)
        case Call("-", (Literal(value=int(by)), Column(type=Type.INT) as column)):
            return ((column, turned(match, by)),)
        case _:
            return None


def through(terms: Iterable[Term], exprs: dict[str, Expr]) -> Pattern | None:
    """Return a pattern over computed columns as one over what they are computed from; None if that is not exact."""
    input_terms: list[tuple[Column, Match]] = []
    for term in terms:
        expr = exprs.get(term.column.name)
        origins = None if expr is None else preimage(expr, term.match)
        if origins is None:
            return None
        input_terms += origins
    return pattern(*input_terms)
