"""Reads the condition behind WHERE or WHEN in statements of ours."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import Span, SyntaxFault
from headrace.language.dialect import parse_expressions
from headrace.language.reader import Reader


def read_condition(reader: Reader, *ends: str, hint: str) -> tuple[exp.Expr, Span]:
    """Read one condition up to one of these words; return it and its place."""
    tokens = reader.until(*ends)
    if not tokens:
        reader.fail("expected a condition", hint=hint)
    span = Span(tokens[0].start, tokens[-1].end + 1)
    conditions = parse_expressions(tokens, reader.text)
    if len(conditions) > 1:
        raise SyntaxFault("expected one condition, but found several", span=span, hint="join its parts with AND")
    return conditions[0], span
