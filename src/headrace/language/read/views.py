"""Reads SPLIT, which makes a view for each branch of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from headrace.errors import NameFault, Span, SyntaxFault
from headrace.language.dialect import parse_expressions
from headrace.language.reader import Reader
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import CreateView, Split

_SPLIT = "SPLIT stream INTO dear WHEN price > 100, cheap WHEN price < 10, rest ELSE"


def read_split(reader: Reader, offset: int) -> Split:
    """Read `SPLIT stream INTO a WHEN condition, b WHEN condition, rest ELSE`."""
    reader.expect("SPLIT")
    start = reader.position
    reader.name("the stream to split")
    while reader.accept("."):
        reader.name("the stream to split")
    source = reader.tokens[start : reader.position]
    reader.expect("INTO", hint=_SPLIT)
    conditions: dict[str, tuple[Name, exp.Expr, str]] = {}
    otherwise: Name | None = None
    while True:
        name = reader.name("the name of a branch")
        if name.text.lower() in conditions or (otherwise is not None and name.text.lower() == otherwise.text.lower()):
            raise NameFault(f"branch {name.text!r} is named twice", span=name.span)
        if reader.accept("ELSE"):
            if otherwise is not None:
                raise SyntaxFault(f"branch {name.text!r}: only one branch can have ELSE", span=name.span, hint=_SPLIT)
            otherwise = name
        else:
            reader.expect("WHEN", hint=_SPLIT)
            conditions[name.text.lower()] = (name, *_condition(reader))
        if not reader.accept(","):
            break
    if not conditions:
        raise SyntaxFault("SPLIT needs at least one branch with WHEN", span=reader.here(), hint=_SPLIT)
    views = [_branch(reader, offset, name, source, tree, text) for name, tree, text in conditions.values()]
    if otherwise is not None:
        # A condition that is NULL did not hold, and neither would its NOT.
        missed = [
            exp.Not(this=exp.Anonymous(this="coalesce", expressions=[tree.copy(), exp.false()]))
            for _, tree, _ in conditions.values()
        ]
        texts = [f"NOT coalesce({text}, FALSE)" for _, _, text in conditions.values()]
        views.append(_branch(reader, offset, otherwise, source, exp.and_(*missed, copy=False), " AND ".join(texts)))
    return Split(reader.text, offset, tuple(views))


def _condition(reader: Reader) -> tuple[exp.Expr, str]:
    tokens = reader.until(",")
    if not tokens:
        reader.fail("expected a condition", hint=_SPLIT)
    trees = parse_expressions(tokens, reader.text)
    return trees[0], reader.text[tokens[0].start : tokens[-1].end + 1]


def _branch(
    reader: Reader, offset: int, name: Name, source: Sequence[Token], condition: exp.Expr, text: str
) -> CreateView:
    """Make the view of one branch; its tree has positions in the whole statement, its text is complete by itself."""
    stream = reader.text[source[0].start : source[-1].end + 1]
    head = f"CREATE VIEW {reader.text[name.span.start : name.span.end]} AS "
    whole = f"{head}SELECT * FROM {stream} WHERE {text}"
    parts = [_identifier(token) for token in source[::2]]
    table = exp.Table(this=parts[-1], db=parts[-2] if len(parts) > 1 else None)
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table), where=exp.Where(this=condition.copy()))
    return CreateView(whole, offset, name, select, Span(len(head), len(whole)), or_replace=False, if_not_exists=False)


def _identifier(token: Token) -> exp.Identifier:
    made = exp.Identifier(this=token.text, quoted=False)
    made.update_positions(token)
    return made
