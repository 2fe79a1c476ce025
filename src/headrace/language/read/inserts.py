"""Reads INSERT INTO sink SELECT, and the statement sets of Flink, which hold several of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot.tokenizer_core import Token

from headrace.errors import Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.dialect import parse_select
from headrace.language.reader import Reader, span_of
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import Insert

_HINT = "INSERT INTO sink [(columns)] SELECT ..., with CREATE SINK sink INTO KIND (options) before it"
_BEGINNINGS = (("EXECUTE", "STATEMENT", "SET", "BEGIN"), ("BEGIN", "STATEMENT", "SET"))


def read_insert(reader: Reader, offset: int) -> Insert:
    """Read INSERT INTO sink [(columns)] SELECT ...."""
    reader.expect("INSERT")
    reader.expect("INTO", hint=other_systems.INSERTED.get(reader.word(), _HINT))
    reader.accept("TABLE")
    sink = reader.name("the name of a sink")
    while reader.accept("."):  # of a catalog and a database, of which there is one
        sink = reader.name("the name of a sink")
    columns = _columns(reader) if reader.word() == "(" and reader.word(1) not in ("SELECT", "WITH", "(") else ()
    if reader.word() not in ("SELECT", "WITH", "("):
        reader.fail("expected SELECT", hint=other_systems.INSERTED.get(reader.word(), _HINT))
    tokens = reader.until("INTO")
    if not reader.done:
        raise SyntaxFault(
            "the results go into the sink after INSERT",
            span=reader.here(),
            hint="leave INTO out, or write CREATE QUERY name AS SELECT ... INTO both sinks",
        )
    select = parse_select(tokens, reader.text)
    return Insert(reader.text, offset, sink, columns, select, Span(tokens[0].start, tokens[-1].end + 1))


def without_sets(statements: Iterable[Sequence[Token]]) -> Iterator[Sequence[Token]]:
    """Give the statements of a text without the words around a set: all statements of a text take effect together."""
    opened: Token | None = None
    for tokens in statements:
        words = tuple(token.text.upper() for token in tokens[:4])
        beginning = next((begun for begun in _BEGINNINGS if words[: len(begun)] == begun), None)
        if beginning is not None:
            if opened is not None:
                raise SyntaxFault(
                    "a statement set cannot hold another", span=span_of(tokens[0]), hint="write END first"
                )
            opened, tokens = tokens[0], tokens[len(beginning) :]
        elif opened is not None and words == ("END",):
            opened, tokens = None, ()
        if tokens:
            yield tokens
    if opened is not None:
        raise SyntaxFault(
            "the statement set has no END",
            span=span_of(opened),
            hint="write EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END; or the INSERTs alone, in one text",
        )


def _columns(reader: Reader) -> tuple[Name, ...]:
    reader.expect("(")
    columns = [reader.name("a column of the sink", hint=_HINT)]
    while reader.accept(","):
        columns.append(reader.name("a column of the sink", hint=_HINT))
    reader.expect(")", hint="write SELECT ... INTO KIND (options), or " + _HINT)
    return tuple(columns)
