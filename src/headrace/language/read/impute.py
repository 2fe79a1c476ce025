"""Reads the arguments of IMPUTE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import Span, SyntaxFault
from headrace.language.reader import Reader, span_of
from headrace.language.syntax.clauses import ImputeClause
from headrace.language.syntax.names import Name

HINT = "IMPUTE(speed USING table ON id = table.id DEFAULT 0), or IMPUTE(speed USING 'python:module:function' ON id)"


def read_impute(
    tokens: Sequence[Token], text: str, parse: Callable[[Sequence[Token], str], list[exp.Expr]]
) -> exp.Expr:
    """Read a call of IMPUTE up to its closing parenthesis; `parse` reads expressions separated by commas."""
    span = Span(tokens[0].start, tokens[-1].end + 1)
    reader = Reader(tokens[2:-1], text, whole="call")
    value = _single_expression(reader, text, parse, "USING", what="the column to impute")
    reader.expect("USING", hint=HINT)
    archive = reader.here()
    table: exp.Table | None = None
    target: str | None = None
    column: Name | None = None
    if reader.token is not None and reader.token.token_type == TokenType.STRING:
        target = reader.string("an archive")
    else:
        first = reader.tokens[reader.position] if not reader.done else tokens[-1]
        name = reader.name("a table, or 'python:module:function'")
        table = exp.Table(this=exp.to_identifier(name.text).update_positions(first))
        column = reader.name("a column of the table") if reader.accept(".") else None
        archive = Span(archive.start, (column or name).span.end)
    on: tuple[exp.Expr, ...] = ()
    if reader.accept("ON"):
        inner = reader.until("DEFAULT")
        if not inner:
            reader.fail("expected the columns to look up by", hint=HINT)
        on = tuple(parse(inner, text))
    default = _single_expression(reader, text, parse, what="the default") if reader.accept("DEFAULT") else None
    if not reader.done:
        reader.fail("the call should end here", hint=HINT)
    clause = ImputeClause(value, table, None if column is None else column.text, target, on, default, span, archive)
    parts = [part for part in (value, table, *on, default) if part is not None]
    call = exp.Anonymous(this="IMPUTE", expressions=parts)  # with the parts, so that every search for names finds them
    call.meta.update(impute=clause, start=span.start, end=span.end - 1, line=tokens[0].line, col=tokens[0].col)
    return call


def _single_expression(
    reader: Reader, text: str, parse: Callable[[Sequence[Token], str], list[exp.Expr]], *ends: str, what: str
) -> exp.Expr:
    inner = reader.until(*ends)
    if not inner:
        reader.fail(f"expected {what}", hint=HINT)
    expressions = parse(inner, text)
    if len(expressions) != 1:
        raise SyntaxFault(
            f"expected one expression for {what}", span=Span(span_of(inner[0]).start, span_of(inner[-1]).end), hint=HINT
        )
    return expressions[0]
