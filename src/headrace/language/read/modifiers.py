"""Reads the arguments of modifiers and suppressors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from headrace.errors import Span, SyntaxFault
from headrace.language.reader import Reader
from headrace.language.syntax.modifiers import Kind, ModifierClause, Profile, SuppressClause

Parse: TypeAlias = Callable[[Sequence[Token], str], list[exp.Expr]]
_KINDS: dict[str, Kind] = {
    "DIFF": "diff",
    "RDIFF": "rdiff",
    "SLOPE": "slope",
    "WDIFF": "wdiff",
    "WRDIFF": "wrdiff",
    "WSLOPE": "wslope",
}
MODIFIERS = tuple(_KINDS)
SUPPRESSORS = ("RSUPPRESS", "TSUPPRESS")
_HINTS = {
    "DIFF": "DIFF(speed) OVER (PARTITION BY id)",
    "RDIFF": "RDIFF(speed PSEUDO 0.01 OLD) OVER (PARTITION BY id)",
    "SLOPE": "SLOPE(speed, position PSEUDO 0.01) OVER (PARTITION BY id)",
    "WDIFF": "WDIFF(speed)",
    "WRDIFF": "WRDIFF(speed PSEUDO 0.01 OLD)",
    "WSLOPE": "WSLOPE(speed, position PSEUDO 0.01)",
    "RSUPPRESS": "HAVING RSUPPRESS(10 OLD)",
    "TSUPPRESS": "HAVING TSUPPRESS(5 MINUTES, action OLD)",
}


def read_call(tokens: Sequence[Token], text: str, parse: Parse) -> exp.Expr:
    """Read a call of a modifier or suppressor to its end; `parse` reads expressions separated by commas."""
    name, span = tokens[0].text.upper(), Span(tokens[0].start, tokens[-1].end + 1)
    reader = Reader(tokens[2:-1], text, end=tokens[-1].start, whole="call")
    clause = _modifier(reader, name, span, parse) if name in MODIFIERS else _suppressor(reader, name, span, parse)
    if not reader.done:
        reader.fail("the call should end here", hint=_HINTS[name])
    call = exp.Anonymous(this=tokens[0].text)
    # The arguments hang on the call so that every search for names finds them.
    if isinstance(clause, ModifierClause):
        call.set("expressions", list(clause.args))
        call.meta["modifier"] = clause
    else:
        call.set("expressions", [] if clause.action is None else [clause.action])
        call.meta["suppress"] = clause
    call.meta.update(start=span.start, end=span.end - 1, line=tokens[0].line, col=tokens[0].col)
    return call


def _modifier(reader: Reader, name: str, span: Span, parse: Parse) -> ModifierClause:
    inner = reader.until("PSEUDO", "OLD", "NEW")
    if not inner:
        reader.fail("expected a column", hint=_HINTS[name])
    args = tuple(parse(inner, reader.text))
    expected = 2 if name.endswith("SLOPE") else 1
    if len(args) != expected:
        here = Span(inner[0].start, inner[-1].end + 1)
        raise SyntaxFault(
            f"{name} takes {expected} argument{'s' if expected > 1 else ''}, not {len(args)}",
            span=here,
            hint=_HINTS[name],
        )
    pseudo: int | float | None = None
    if reader.accept("PSEUDO"):
        written = reader.here()
        value = reader.option()
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise SyntaxFault("PSEUDO needs a number", span=written, hint=_HINTS[name])
        if name.endswith("DIFF") and not name.endswith("RDIFF"):
            raise SyntaxFault(f"{name} takes no PSEUDO; only RDIFF and SLOPE divide", span=written, hint=_HINTS[name])
        pseudo = value
    return ModifierClause(_KINDS[name], args, pseudo, _profile(reader), span)


def _suppressor(reader: Reader, name: str, span: Span, parse: Parse) -> SuppressClause:
    written = reader.here()
    limit = reader.integer("how many repetitions to suppress") if name == "RSUPPRESS" else None
    time = reader.duration() if name == "TSUPPRESS" else None
    if limit == 0 or time == 0:
        raise SyntaxFault(
            f"{name} needs a {'number' if time is None else 'time'} above 0", span=written, hint=_HINTS[name]
        )
    action: exp.Expr | None = None
    if name == "TSUPPRESS" and reader.accept(","):
        inner = reader.until("OLD", "NEW")
        if not inner:
            reader.fail("expected the column whose value is new, update or clean", hint=_HINTS[name])
        (action,) = parse(inner, reader.text)[:1]
    return SuppressClause(limit, time, action, _profile(reader), span)


def _profile(reader: Reader) -> Profile | None:
    if reader.accept("OLD"):
        return "old"
    return "new" if reader.accept("NEW") else None
