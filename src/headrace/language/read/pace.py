"""Reads WITH PACE after a UNION: the timestamps, the tolerance, and when tuples are dropped early."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import Span, SyntaxFault
from headrace.language.reader import Reader
from headrace.language.syntax.clauses import PaceClause

HINT = "WITH PACE ON MAX(a.at, b.at) 1 MINUTE [CUT 0.5] [SERVICE 1 SECOND], or WITH PACE ON rowtime 1 MINUTE"


def read_pace(
    tokens: Sequence[Token], text: str, parse: Callable[[Sequence[Token], str], list[exp.Expr]]
) -> tuple[PaceClause, int]:
    """Read the clause that begins with WITH PACE; return it and the number of its tokens.

    `parse` reads expressions separated by commas.
    """
    reader = Reader(tokens, text)
    first = reader.expect("WITH")
    reader.expect("PACE")
    reader.expect("ON", hint=HINT)
    columns = _columns(reader, text, parse)
    tolerance = reader.duration()
    share = _share(reader) if reader.accept("CUT") else None
    service = reader.duration() if reader.accept("SERVICE") else 0
    return PaceClause(
        columns, tolerance, share, service, Span(first.start, tokens[reader.position - 1].end + 1)
    ), reader.position


def _columns(
    reader: Reader, text: str, parse: Callable[[Sequence[Token], str], list[exp.Expr]]
) -> tuple[exp.Column, ...]:
    if reader.accept("ROWTIME"):
        return ()
    reader.expect("MAX", hint=HINT)
    reader.expect("(")
    inner = reader.until(")")
    reader.expect(")")
    columns: list[exp.Column] = []
    for expression in parse(inner, text) if inner else ():
        if not isinstance(expression, exp.Column):
            raise SyntaxFault(
                "MAX in WITH PACE takes only columns", span=Span(inner[0].start, inner[-1].end + 1), hint=HINT
            )
        columns.append(expression)
    if not columns:
        reader.fail("expected the time columns of the UNION's parts", hint=HINT)
    return tuple(columns)


def _share(reader: Reader) -> float:
    span = reader.here()
    number = reader.option() if reader.token is not None and reader.token.token_type == TokenType.NUMBER else None
    if not isinstance(number, int | float) or not 0 <= number <= 1:
        raise SyntaxFault(
            "CUT needs a number from 0 to 1",
            span=span,
            hint="write for example CUT 0.5: tuples older than half the tolerance may be dropped early",
        )
    return float(number)
