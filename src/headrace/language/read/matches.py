"""Reads MATCH_RECOGNIZE (...) behind an item of FROM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.language.reader import Reader, span_of
from headrace.language.syntax.matches import MatchClause, PatternPart
from headrace.language.syntax.names import Name

#: Parses tokens as expressions separated by commas.
Expressions = Callable[[Sequence[Token], str], list[exp.Expr]]

FORM = (
    "MATCH_RECOGNIZE (PARTITION BY id ORDER BY at MEASURES A.x AS first_x, LAST(B.x) AS last_x ONE ROW PER MATCH "
    "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) WITHIN INTERVAL '10' MINUTE DEFINE B AS B.x > A.x, C AS C.x < A.x)"
)
_EVENT = "CREATE EVENT e AS a SEQUENCE (b OR d)+ SEQUENCE c WITHIN 10 MINUTES WHERE a.id = b.id AND b.id = c.id"
_SKIPS = "AFTER MATCH SKIP PAST LAST ROW or AFTER MATCH SKIP TO NEXT ROW"
_CLAUSES = ("PARTITION BY", "ORDER BY", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE")
_SIGNS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
#: What a pattern cannot have: its name, and what to write.
_REFUSED = {
    "|": ("an alternative", f"write one variable whose condition has OR; or an event: {_EVENT}"),
    "(": ("a group", "repeat single variables; or write an event with a composite event in parentheses"),
    "{-": ("an exclusion", "leave the variable out of MEASURES: it gives no row of its own anyway"),
    "^": ("an anchor", "a stream has no first row; leave it out"),
    "$": ("an anchor", "a stream has no last row; leave it out"),
    "PERMUTE": ("PERMUTE", "write an event: CREATE EVENT e AS a AND b WITHIN 10 MINUTES"),
}
#: More rows of a variable than this are taken for a mistake.
_MOST = 10_000
#: Each optional variable may double the ways that are followed from a row on.
_OPTIONAL = 8


def read_match(tokens: Sequence[Token], text: str, parse: Expressions) -> MatchClause:
    """Read from the word MATCH_RECOGNIZE to the closing parenthesis."""
    span = Span(tokens[0].start, tokens[-1].end + 1)
    reader = Reader(tokens[2:-1], text, end=tokens[-1].start, whole="MATCH_RECOGNIZE clause")
    by = _list(reader, text, parse) if reader.accept("PARTITION BY") else []
    if not reader.accept("ORDER BY"):
        reader.fail("expected ORDER BY and the time of the stream", hint=FORM)
    order = _list(reader, text, parse)
    measures = _measures(reader, text, parse) if reader.accept("MEASURES") else ()
    _read_rows(reader)
    overlapping = _skip(reader, span)
    reader.expect("PATTERN", "(", hint=FORM)
    pattern = _pattern(reader)
    within = reader.duration() if reader.accept("WITHIN") else None
    if reader.word() == "SUBSET":
        raise NotSupported(
            "SUBSET is not supported in MATCH_RECOGNIZE",
            span=reader.here(),
            hint="write FIRST(x), LAST(x) and aggregates of x without a variable: they are over all rows of the match",
        )
    reader.expect("DEFINE", hint=FORM)
    define = _definitions(reader, text, parse)
    return MatchClause(tuple(by), tuple(order), measures, overlapping, pattern, within, define, span)


def _list(reader: Reader, text: str, parse: Expressions) -> list[exp.Expr]:
    tokens = list(reader.until(*_CLAUSES))
    if not tokens:
        reader.fail("expected a column", hint=FORM)
    ending = tokens[-1].text.upper() if tokens[-1].token_type is not TokenType.IDENTIFIER else ""
    if ending == "DESC":
        raise NotSupported(
            "MATCH_RECOGNIZE cannot go backwards in time", span=span_of(tokens[-1]), hint="leave DESC out"
        )
    return parse(tokens[:-1] if ending == "ASC" else tokens, text)


def _measures(reader: Reader, text: str, parse: Expressions) -> tuple[tuple[Name, exp.Expr], ...]:
    measures: list[tuple[Name, exp.Expr]] = []
    while True:
        tokens = list(reader.until(",", *_CLAUSES))
        if tokens and tokens[0].text.upper() in ("FINAL", "RUNNING") and len(tokens) > 1:
            tokens = tokens[1:]  # with one row for each match, all of it is known
        if len(tokens) < 3 or tokens[-2].text.upper() != "AS":
            reader.fail("a measure needs a name", hint="write MEASURES LAST(B.price) AS last_price")
        name = Reader(tokens[-1:], text).name("the name of a measure")
        measures.append((name, _single(tokens[:-2], text, parse)))
        if not reader.accept(","):
            return tuple(measures)


def _read_rows(reader: Reader) -> None:
    if reader.accept("ONE"):
        if not (reader.accept("ROW") or reader.accept("ROWS")):
            reader.fail("expected ONE ROW PER MATCH")
        reader.expect("PER", "MATCH")
    elif reader.word() == "ALL":
        raise NotSupported(
            "ALL ROWS PER MATCH is not supported",
            span=reader.here(),
            hint="write ONE ROW PER MATCH; or an event, which shows all tuples of a part: "
            "CREATE EVENT e AS SELECT ARRAY_AGG(b) AS bs FROM a SEQUENCE b+ SEQUENCE c WITHIN 10 MINUTES",
        )


def _skip(reader: Reader, span: Span) -> bool:
    """Return whether matches may overlap. Flink and the standard differ if nothing is said."""
    if not reader.accept("AFTER", "MATCH"):
        raise NotSupported(
            "MATCH_RECOGNIZE must say where the next match may begin: Flink takes the next row if it does not, "
            "other systems the row after the match",
            span=span if reader.word() != "PATTERN" else reader.here(),
            hint=f"write {_SKIPS} before PATTERN",
        )
    start = reader.here()
    if reader.accept("SKIP", "PAST", "LAST", "ROW"):
        return False
    if reader.accept("SKIP", "TO", "NEXT", "ROW"):
        return True
    raise NotSupported(
        "AFTER MATCH can SKIP PAST LAST ROW or SKIP TO NEXT ROW only", span=start, hint=f"write {_SKIPS}"
    )


def _pattern(reader: Reader) -> tuple[PatternPart, ...]:
    parts: list[PatternPart] = []
    while not reader.accept(")"):
        if reader.done:
            reader.fail("expected a closing parenthesis", hint=FORM)
        sign = "{-" if (reader.word(), reader.word(1)) == ("{", "-") else reader.word()
        if sign in _REFUSED and not (sign == "PERMUTE" and reader.word(1) != "("):
            what, hint = _REFUSED[sign]
            raise NotSupported(f"a pattern cannot have {what}", span=reader.here(), hint=hint)
        variable = reader.name("a pattern variable")
        least, most = _quantifier(reader)
        if any(part.variable.text.lower() == variable.text.lower() for part in parts):
            raise NotSupported(
                f"the variable {variable.text} is in the pattern twice",
                span=variable.span,
                hint="give each place a name of its own, with the same condition in DEFINE",
            )
        parts.append(PatternPart(variable, least, most))
    if not parts:
        raise SyntaxFault("the pattern is empty", span=reader.here(), hint=FORM)
    optional = [part.variable for part in parts if (part.least, part.most) == (0, 1)]
    if len(optional) > _OPTIONAL:
        raise NotSupported(
            f"a pattern can have {_OPTIONAL} optional variables at most; this one has {len(optional)}",
            span=optional[_OPTIONAL].span,
            hint="write B* where further rows do no harm: it takes every row that it can, so there is one way",
        )
    last = parts[-1]
    if last.least != last.most:
        raise NotSupported(
            f"a pattern cannot end with a variable that may go on, such as {last.variable.text} here",
            span=last.variable.span,
            hint="add a variable for the row that ends it, such as PATTERN (A B+ C) with C AS NOT (the condition of B)",
        )
    return tuple(parts)


def _quantifier(reader: Reader) -> tuple[int, int | None]:
    start = reader.here()
    if reader.word() in _SIGNS:
        counts: tuple[int, int | None] = _SIGNS[reader.word()]
        reader.position += 1
    elif reader.accept("{"):
        if reader.word() == "-":
            what, hint = _REFUSED["{-"]
            raise NotSupported(f"a pattern cannot have {what}", span=start, hint=hint)
        least = 0 if reader.word() == "," else reader.integer("how many rows")
        most: int | None = least
        if reader.accept(","):
            most = None if reader.word() == "}" else reader.integer("how many rows at most")
        reader.expect("}")
        counts = least, most
        if most is not None and (most < least or most < 1 or most > _MOST):
            raise SyntaxFault(
                f"a variable cannot have {least} to {most} rows",
                span=start,
                hint=f"write {{2,4}}, the smaller first, at most {_MOST:,}",
            )
    else:
        return 1, 1
    if reader.word() == "?":
        raise NotSupported(
            "reluctant quantifiers are not supported",
            span=reader.here(),
            hint="say in the condition which rows do not count: PATTERN (A B* C) with B AS NOT (the condition of C)",
        )
    return counts


def _definitions(reader: Reader, text: str, parse: Expressions) -> tuple[tuple[Name, exp.Expr], ...]:
    definitions: list[tuple[Name, exp.Expr]] = []
    while True:
        variable = reader.name("a pattern variable")
        reader.expect("AS", hint="write DEFINE B AS B.price > A.price")
        tokens = reader.until(",")
        if not tokens:
            reader.fail(f"expected the condition of {variable.text}")
        definitions.append((variable, _single(tokens, text, parse)))
        if not reader.accept(","):
            break
    if not reader.done:
        reader.fail("expected the end of MATCH_RECOGNIZE", hint=FORM)
    return tuple(definitions)


def _single(tokens: Sequence[Token], text: str, parse: Expressions) -> exp.Expr:
    found = parse(tokens, text)
    if len(found) != 1:
        raise SyntaxFault("expected one expression", span=span_of(tokens[0]))
    return found[0]
