"""Reads CREATE AGGREGATE: a class in Python, or tables of state with the statements that change them."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from headrace.errors import Span, SyntaxFault
from headrace.language.dialect import parse_expressions, tokenize
from headrace.language.reader import Reader
from headrace.language.syntax.aggregates import AggregateBody, StepClause, TableClause
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import CreateAggregate
from headrace.model.types import DataType

_FORM = (
    "CREATE AGGREGATE mean(x DOUBLE) RETURNS DOUBLE { TABLE state(total DOUBLE, n INT); "
    "INITIALIZE: INSERT INTO state VALUES (x, 1); ITERATE: UPDATE state SET total = total + x, n = n + 1; "
    "TERMINATE: INSERT INTO RETURN SELECT total / n FROM state; }"
)
_PYTHON = "CREATE AGGREGATE name(DOUBLE) RETURNS DOUBLE FROM PYTHON 'module:Class'"
_PHASES = ("INITIALIZE", "ITERATE", "TERMINATE")
#: Most rows that KEEP may name.
MOST_KEPT = 10_000


def read_aggregate(reader: Reader, offset: int, name: Name, or_replace: bool, if_not_exists: bool) -> CreateAggregate:
    """Read what comes after the name."""
    reader.expect("(", hint=_PYTHON)
    params = [_parameter(reader)]
    while reader.accept(","):
        params.append(_parameter(reader))
    reader.expect(")", hint=_PYTHON)
    reader.expect("RETURNS", hint=_PYTHON)
    result = reader.type()
    if reader.accept("FROM", "PYTHON"):
        target = reader.python_target("Class", "stats.means:GeoMean")
        if len(params) > 1:
            raise SyntaxFault(
                "an aggregate in Python has one argument", span=name.span, hint="pass a STRUCT, or write it in SQL"
            )
        types = ((params[0][0], params[0][1]),)
        return CreateAggregate(reader.text, offset, name, types, result, target.text, None, or_replace, if_not_exists)
    reader.accept("AS")
    if reader.word() != "{":
        reader.fail("expected FROM PYTHON, or { and the statements of the aggregate", hint=_FORM)
    unnamed = next((type_ for written, type_ in params if written is None), None)
    if unnamed is not None:
        raise SyntaxFault(
            "an argument has no name", span=name.span, hint=f"write for example {name.text}(x {unnamed.value})"
        )
    body = _body(reader)
    return CreateAggregate(reader.text, offset, name, tuple(params), result, "", body, or_replace, if_not_exists)


def read_body(text: str) -> AggregateBody:
    """Read the braces of a definition once more."""
    return _body(Reader(tokenize(text), text))


def _parameter(reader: Reader) -> tuple[Name | None, DataType]:
    """Read `x INT`, or a type alone."""
    if reader.word(1) in (",", ")", "(", "<"):
        return None, reader.type()
    return reader.name("the name of an argument"), reader.type()


def _body(reader: Reader) -> AggregateBody:
    start = reader.expect("{").start
    tables: list[TableClause] = []
    phases: dict[str, list[StepClause]] = {}
    while reader.accept("TABLE"):
        tables.append(_table(reader))
        _ends(reader)
    while reader.word() in _PHASES:
        names = _labels(reader, phases)
        steps = _steps(reader)
        for phase in names:
            phases[phase] = steps
    if reader.word() != "}":
        reader.fail("expected TABLE, INITIALIZE:, ITERATE:, TERMINATE: or }", hint=_FORM)
    end = reader.expect("}").end + 1
    span = Span(start, end)
    if "ITERATE" not in phases:
        raise SyntaxFault("the aggregate has no ITERATE", span=span, hint=_FORM)
    phases.setdefault("INITIALIZE", phases["ITERATE"])  # then the first tuple is like all others
    first, each, last = (tuple(phases.get(phase, ())) for phase in _PHASES)
    if not any(step.kind == "RETURN" for step in (*first, *each, *last)):
        raise SyntaxFault("the aggregate returns nothing", span=span, hint="write INSERT INTO RETURN SELECT ...")
    return AggregateBody(span, tuple(tables), first, each, last)


def _labels(reader: Reader, phases: dict[str, list[StepClause]]) -> list[str]:
    """Read one or more labels, which share the statements behind them."""
    names: list[str] = []
    while reader.word() in _PHASES:
        if reader.word() in phases or reader.word() in names:
            reader.fail(f"{reader.word()} stands there twice")
        names.append(reader.word())
        reader.position += 1
        reader.expect(":", hint=_FORM)
    return names


def _table(reader: Reader) -> TableClause:
    name = reader.name("the table's name")
    reader.expect("(", hint=_FORM)
    columns = [(reader.name("a column"), reader.type())]
    while reader.accept(","):
        columns.append((reader.name("a column"), reader.type()))
    reader.expect(")", hint=_FORM)
    keep = None
    if reader.accept("KEEP"):
        span = reader.here()
        keep = reader.integer("a number of rows")
        if not 1 <= keep <= MOST_KEPT:
            raise SyntaxFault(f"KEEP takes 1 to {MOST_KEPT:,} rows", span=span, hint="write for example KEEP 100 ROWS")
        if not reader.accept("ROWS"):
            reader.expect("ROW", hint="KEEP 100 ROWS")
    return TableClause(name, tuple(columns), keep)


def _steps(reader: Reader) -> list[StepClause]:
    braces = reader.accept("{")
    steps: list[StepClause] = []
    while not reader.done and reader.word() != "}" and reader.word() not in _PHASES:
        steps.append(_step(reader))
        _ends(reader)
    if braces:
        reader.expect("}", hint=_FORM)
        reader.accept(";")
    return steps


def _ends(reader: Reader) -> None:
    if not reader.accept(";") and reader.word() != "}" and reader.word() not in _PHASES:
        reader.fail("expected ; or }", hint=_FORM)


def _step(reader: Reader) -> StepClause:
    start = reader.here().start
    if reader.accept("INSERT"):
        reader.expect("INTO", hint=_FORM)
        kind, table = ("RETURN", None) if reader.accept("RETURN") else ("INSERT", reader.name("a table"))
        return _inserted(reader, start, kind, table)
    if reader.accept("UPDATE"):
        table = reader.name("a table")
        reader.expect("SET", hint=_FORM)
        columns: list[Name] = []
        values: list[exp.Expr] = []
        while not columns or reader.accept(","):
            columns.append(reader.name("a column"))
            reader.expect("=", hint=_FORM)
            values += _expressions(reader, ",", "WHERE")
        where = _where(reader)
        return StepClause(_span(reader, start), "UPDATE", table, tuple(values), tuple(columns), None, where)
    if reader.accept("DELETE"):
        reader.expect("FROM", hint=_FORM)
        table = reader.name("a table")
        where = _where(reader)
        return StepClause(_span(reader, start), "DELETE", table, (), (), None, where)
    _unknown(reader)


def _inserted(reader: Reader, start: int, kind: str, table: Name | None) -> StepClause:
    source = None
    if reader.accept("VALUES"):
        reader.expect("(", hint=_FORM)
        values = _expressions(reader, ")")
        reader.expect(")", hint=_FORM)
    else:
        reader.expect("SELECT", hint=_FORM)
        values = _expressions(reader, "FROM", "WHERE")
        source = reader.name("a table") if reader.accept("FROM") else None
    where = _where(reader)
    return StepClause(_span(reader, start), kind, table, tuple(values), (), source, where)


def _unknown(reader: Reader) -> NoReturn:
    reader.fail(
        "expected INSERT INTO, UPDATE or DELETE FROM",
        hint="an aggregate returns with INSERT INTO RETURN SELECT ... FROM table, or INSERT INTO RETURN VALUES (...)",
    )


def _where(reader: Reader) -> exp.Expr | None:
    return _expressions(reader)[0] if reader.accept("WHERE") else None


def _expressions(reader: Reader, *ends: str) -> list[exp.Expr]:
    tokens = reader.until(*ends, ";", "}")
    if not tokens:
        reader.fail("expected an expression", hint=_FORM)
    return parse_expressions(tokens, reader.text)


def _span(reader: Reader, start: int) -> Span:
    return Span(start, reader.tokens[reader.position - 1].end + 1)
