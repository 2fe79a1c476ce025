"""Reads the window between brackets after a FROM item."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from headrace.errors import Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.names import did_you_mean
from headrace.language.reader import Reader, span_of
from headrace.language.syntax.clauses import (
    CumulateClause,
    LandmarkClause,
    NowClause,
    RangeClause,
    RowsClause,
    SessionClause,
    UnboundedClause,
    WhileClause,
    WindowClause,
)
from headrace.model.time import parse_instant

#: Parses tokens as expressions separated by commas.
Expressions = Callable[[Sequence[Token], str], list[exp.Expr]]

_WINDOWS = ("RANGE", "ROWS", "SESSION", "LANDMARK", "NOW", "UNBOUNDED", "WHILE", "PARTITION")
_HINT = (
    "write [RANGE 5 MINUTES], [ROWS 100], [SESSION 30 SECONDS], [LANDMARK FROM '2026-01-01' SLIDE 1 MINUTE], [NOW], "
    "[UNBOUNDED] or [WHILE x > 0]"
)


def read_window(tokens: Sequence[Token], text: str, expressions: Expressions) -> WindowClause:
    """Read `[...]`; the tokens include both brackets."""
    span = Span(tokens[0].start, tokens[-1].end + 1)
    reader = Reader(tokens[1:-1], text, end=tokens[-1].start, whole="window")
    clause = _clause(reader, span, expressions)
    if not reader.done:
        hint = (
            "only aligned windows have an OFFSET: [RANGE 1 DAY OFFSET 8 HOURS]" if reader.word() == "OFFSET" else None
        )
        reader.fail("the window should end here", hint=hint)
    return clause


def _clause(reader: Reader, span: Span, expressions: Expressions) -> WindowClause:
    by: tuple[exp.Expr, ...] = ()
    if reader.word().split() == ["PARTITION", "BY"]:  # one token in sqlglot
        reader.position += 1
        by = tuple(expressions(reader.until("ROWS", "WHILE", "RANGE", "SESSION"), reader.text))
        if reader.word() not in ("ROWS", "WHILE"):
            reader.fail("expected ROWS or WHILE after PARTITION BY")
    if reader.accept("RANGE"):
        size = _positive(reader)
        if reader.accept("STEP"):
            return cumulating(size, _positive(reader), span, _offset(reader))
        if reader.accept("SLIDE", "TUPLE"):
            return RangeClause(size, None, True, span)
        slide = _slide(reader)
        return RangeClause(size, slide, False, span, _offset(reader) % (slide or size))
    if reader.accept("ROWS"):
        return _rows(reader, by, span)
    if reader.accept("WHILE"):
        rest = reader.tokens[reader.position :]
        reader.position = len(reader.tokens)
        predicates = expressions(rest, reader.text)
        if len(predicates) != 1:
            raise SyntaxFault("WHILE needs one condition", span=span)
        return WhileClause(predicates[0], by, span)
    if reader.accept("SESSION"):
        gap = _positive(reader)
        return SessionClause(gap, span, reader.accept("INCLUSIVE"))
    if reader.accept("LANDMARK"):
        return _landmark(reader, span)
    if reader.accept("NOW"):
        return NowClause(span)
    if reader.accept("UNBOUNDED"):
        return UnboundedClause(_slide(reader), span)
    reader.fail(
        "expected a window",
        hint=did_you_mean(reader.word(), _WINDOWS, elsewhere=other_systems.WINDOWS, otherwise=_HINT),
    )


def cumulating(size: int, step: int, span: Span, offset: int = 0) -> CumulateClause:
    """Return the window that grows by `step` up to `size`."""
    if size % step != 0:
        raise SyntaxFault(
            "the size of a cumulative window must be a multiple of its step",
            span=span,
            hint="write for example [RANGE 1 DAY STEP 1 HOUR]",
        )
    return CumulateClause(size, step, span, offset % size)


def _positive(reader: Reader) -> int:
    start = reader.here()
    value = reader.duration()
    if value <= 0:
        raise SyntaxFault("the duration of a window must be longer than zero", span=start)
    return value


def _slide(reader: Reader) -> int | None:
    return _positive(reader) if reader.accept("SLIDE") else None


def _offset(reader: Reader) -> int:
    return reader.offset() if reader.accept("OFFSET") else 0


def _rows(reader: Reader, by: tuple[exp.Expr, ...], span: Span) -> RowsClause:
    size = reader.integer("a number of rows")
    slide: int | None = None
    if reader.accept("SLIDE", "TUPLE"):
        slide = 1
    elif reader.accept("SLIDE"):
        slide = reader.integer("a number of rows")
    if size < 1 or slide == 0:
        raise SyntaxFault("a ROWS window needs at least one row and slides by at least one", span=span)
    return RowsClause(size, slide, by, span)


def _landmark(reader: Reader, span: Span) -> LandmarkClause:
    reader.expect("FROM")
    token = reader.token
    written = reader.string("a date or timestamp such as '2026-01-01'")
    try:
        start = parse_instant(written)
    except ValueError as error:
        raise SyntaxFault(
            f"{written!r} is not a date or timestamp",
            span=span_of(token) if token else span,
            hint="write '2026-01-31' or '2026-01-31 12:00:00'",
        ) from error
    return LandmarkClause(start, _slide(reader), span)
