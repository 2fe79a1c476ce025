"""`headrace explain`: show how queries would run, without running them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import typer
from rich.markup import escape

from headrace.cli.help import examples, flag
from headrace.cli.live_session import allow_python, beside, python_option, statements_in
from headrace.cli.output import faults, out
from headrace.errors import HeadraceError, Span
from headrace.language.parser import parse
from headrace.language.syntax import parcels, rules, statements, stints
from headrace.session import Session

Form: TypeAlias = Literal["text", "json"]

EXAMPLES = examples(
    ("every query of the file", "explain examples/first.sql"),
    ("a query over the streams of the file",
     "explain examples/speed_map.sql -e 'SELECT count(*) AS n FROM probes [RANGE 1 MINUTE]'"),
    ("as JSON, for programs", "explain examples/first.sql --json"),
)  # fmt: skip


def explain(
    file: Path | None = typer.Argument(
        None, exists=True, dir_okay=False, readable=True, help="SQL statements, separated by semicolons."
    ),
    sql: str | None = typer.Option(
        None, "-e", "--sql", help="A SELECT to explain instead of the file's queries; it may use the file's streams."
    ),
    python: list[str] = python_option(),
    as_json: bool = flag("--json", "Print JSON: an object with a plan for each query."),
) -> None:
    """Show how the queries of a file, or a query given here, would run. Needs no Java."""
    if file is None and sql is None:
        raise typer.BadParameter("give a file of statements, or a query with -e")
    form: Form = "json" if as_json else "text"
    text = "" if file is None else statements_in(file)
    if file is not None:
        beside(file)
    allow_python(python)
    with faults(text), Session(host="local") as session:
        plans = dict(_of_file(session, text, form)) if sql is None else {"query": _of_query(session, text, sql, form)}
    if as_json:
        out.print(json.dumps({name: json.loads(plan) for name, plan in plans.items()}, indent=1), markup=False)
    else:
        for name, plan in plans.items():
            out.print(f"[bold]{escape(name)}[/]")
            out.print(plan + "\n", markup=False)


def _of_file(session: Session, text: str, form: Form) -> Iterator[tuple[str, str]]:
    """Return name and plan of each query.

    A query may read earlier ones, so each explanation repeats the plans before it, which are cut off.
    """
    before, unnamed = "", 0
    for statement in parse(text):
        match statement:
            case statements.CreateQuery(name=name) | rules.CreateRule(name=name):
                title = name.text
            case statements.Select() | statements.Insert() | statements.Explain():
                unnamed += 1
                title = f"query {unnamed}"
            case (
                statements.CreateStream()
                | statements.CreateTable()
                | statements.CreateAggregate()
                | statements.CreateFunction()
                | statements.CreateView()
                | statements.CreateEvent()
                | rules.DeclareEvent()
                | rules.CreateSink()
                | rules.EnableRule()
                | rules.RaiseByHand()
                | rules.Decide()
                | statements.Detection()
                | statements.Split()
                | statements.Drop()
                | statements.Show()
                | statements.ShowCreate()
                | statements.Describe()
                | statements.ExplainReplace()
            ):
                continue
            case statements.Alter() | statements.AlterPromises() | statements.Migrate() | statements.ResetFrontier():
                continue
            case statements.SteerStream():
                continue
            case (
                statements.Tell()
                | statements.Ask()
                | parcels.MoveParcels()
                | stints.TurnQuery()
                | statements.RefreshTable()
            ):
                continue
        try:
            shown = session.explain(text[: statement.offset + len(statement.text)], form=form)
        except HeadraceError as error:
            error.text = text  # show the whole line
            raise
        yield title, shown.removeprefix(before).strip()
        before = shown


def _of_query(session: Session, text: str, sql: str, form: Form) -> str:
    """Return the plan of a query over the file's definitions."""
    prefix = text + "\n;" if text else ""
    before = session.explain(prefix, form=form)
    try:
        return session.explain(prefix + sql, form=form).removeprefix(before).strip()
    except HeadraceError as error:
        if error.span is not None and error.span.start >= len(prefix):
            error.span = Span(error.span.start - len(prefix), error.span.end - len(prefix))
            error.text = sql
        raise
