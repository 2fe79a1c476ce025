"""`headrace explain`: how queries would run, without running them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import typer

from headrace.cli.report import faults, out
from headrace.errors import HeadraceError, Span
from headrace.language.parser import parse
from headrace.language.syntax import CreateAggregate, CreateQuery, CreateStream, CreateTable, Describe, Drop, Explain, Select, Show, Statement
from headrace.session import Session

Form: TypeAlias = Literal["text", "json"]

EXAMPLES = (
    "Examples:\n\n"
    "headrace explain examples/first.sql   (every query of the file)\n\n"
    "headrace explain examples/speed_map.sql -e 'SELECT count(*) AS n FROM probes \\[RANGE 1 MINUTE]'   (a query over the file's streams)\n\n"
    "headrace explain traffic.sql --json   (for programs)"
)


def explain(
    file: Path | None = typer.Argument(None, exists=True, dir_okay=False, readable=True, help="SQL statements, separated by semicolons."),
    sql: str | None = typer.Option(None, "-e", "--sql", help="A SELECT to explain; FILE then only says what streams there are."),
    as_json: bool = typer.Option(False, "--json", help="As JSON: an object with a plan for each query."),
) -> None:
    """Show how the queries of a file, or one given here, would run. Needs no Java."""
    if file is None and sql is None:
        raise typer.BadParameter("give a file of statements, or a query with -e")
    form: Form = "json" if as_json else "text"
    plans: dict[str, str] = {}
    text = "" if file is None else file.read_text()
    with faults(text):
        statements = parse(text)
        session = Session(host="local")
        plans |= _plans(session, statements, form, wanted=sql is None)
    if sql is not None:
        with faults(sql):
            plans["query"] = session.explain(sql.rstrip().rstrip(";"), form=form)
    if as_json:
        out.print(json.dumps({name: json.loads(plan) for name, plan in plans.items()}, indent=1), markup=False)
    else:
        for name, plan in plans.items():
            out.print(f"[bold]{name}[/]")
            out.print(plan.rstrip() + "\n", markup=False)


def _plans(session: Session, statements: list[Statement], form: Form, *, wanted: bool) -> Iterator[tuple[str, str]]:
    """Define what the file defines, and explain its queries; on the local host nothing runs until it is waited for."""
    unnamed = 0
    for statement in statements:
        try:
            match statement:
                case CreateQuery():
                    session.execute(statement.text)
                    if wanted:
                        yield statement.name.text, session.explain(statement.name.text, form=form)
                case Select():
                    unnamed += 1
                    if wanted:
                        yield f"query {unnamed}", session.explain(statement.select_text, form=form)
                case Show() | Describe() | Explain():
                    pass
                case CreateStream() | CreateTable() | CreateAggregate() | Drop():
                    session.execute(statement.text)
        except HeadraceError as error:
            if error.span is not None:
                start = statement.offset + (statement.select_span.start if isinstance(statement, Select) else 0)
                error.span = Span(error.span.start + start, error.span.end + start)
            raise
