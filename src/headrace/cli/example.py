"""`headrace example`: a whole application over generated data, in one command, with what was planted beside what was found."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from headrace.applications.application import Application, Check, run
from headrace.applications.table import APPLICATIONS
from headrace.cli.live_session import Host, open_session
from headrace.cli.output import RUN_FAILED, err, faults, out
from headrace.connectors.options import near

EXAMPLES = (
    "Examples:\n\n"
    "headrace example   (which there are)\n\n"
    "headrace example car-adn\n\n"
    "headrace example nfmi --folder here   (keep data, script and results; then: cd here; headrace run nfmi.sql --once)\n\n"
    "headrace example rfid --host local --seed 7   (without Spark, other data)"
)
MOST_ROWS = 20


def example(
    name: str | None = typer.Argument(None, help="An application; without it they are listed."),
    folder: Path | None = typer.Option(
        None, "--folder", file_okay=False, help="Write data, script and results here and keep them."
    ),
    seed: int = typer.Option(1, "--seed", help="The same seed gives the same data."),
    host: Host = typer.Option(Host.spark, help="Where queries run; local needs no Java."),
) -> None:
    """Run an application: events, rules and queries over generated data, and whether they find what was planted."""
    if name is None:
        table = Table("name", "what it does", "its page", header_style="bold")
        for item in APPLICATIONS:
            table.add_row(f"[bold]{item.name}[/]", item.title, f"docs/applications/{item.name}.md")
        out.print(table)
        return
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} is not empty; choose a new one", param_hint="--folder")
    with faults():
        item = chosen(name)
        with tempfile.TemporaryDirectory(prefix="headrace-example-") as temporary:
            checks = _run(item, Path(temporary) if folder is None else folder, seed, host)
    if folder is not None:
        out.print(f"data, {item.folder}.sql and results are in {folder}", markup=False)
    if not all(check.holds for check in checks):
        raise typer.Exit(RUN_FAILED)


def chosen(name: str) -> Application:
    """The application of that name."""
    found = next((item for item in APPLICATIONS if item.name == name), None)
    if found is None:
        err.print(f"no example {name!r}; {near(name, [item.name for item in APPLICATIONS])}", markup=False)
        raise typer.Exit(RUN_FAILED)
    return found


def rows_table(title: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Results of a query, the first ones if there are many."""
    table = Table(title=f"{title}: {len(rows)}", title_justify="left", header_style="bold")
    for name in rows[0] if rows else ("nothing",):
        table.add_column(name)
    for row in rows[:MOST_ROWS]:
        table.add_row(*map(_cell, row.values()))
    if len(rows) > MOST_ROWS:
        table.add_row(f"... {len(rows) - MOST_ROWS} more")
    return table


def checks_table(checks: Sequence[Check]) -> RenderableType:
    """What was planted beside what was found."""
    table = Table("what", "planted", "found", "", header_style="bold")
    for check in checks:
        verdict = "[green]as planted[/]" if check.holds else "[bold red]not as planted[/]"
        table.add_row(check.what, _size(check.planted), _size(check.found), verdict)
    return table


def _run(item: Application, folder: Path, seed: int, host: Host) -> Sequence[Check]:
    out.print(f"[bold]{item.title}[/]")
    if host is Host.spark:
        err.print("[dim]starting Spark ...[/]")
    with open_session(host=host) as session:
        began = time.monotonic()
        results = run(item, session, folder, seed)
        took = time.monotonic() - began
        read = sum(stream.tuples for stream in session.statistics().streams.values())
        checks = item.checks(seed, folder, results)
    for query in item.shown:
        out.print(rows_table(query, results[query]))
    out.print(checks_table(checks))
    for check in checks:
        if not check.holds:
            err.print(f"{check.what}: planted {check.planted}, found {check.found}", markup=False)
    out.print(
        f"{read:,} tuples in {took:.1f} s on the {host.value} host; all about it: docs/applications/{item.name}.md"
    )
    return checks


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case dt.datetime():
            return f"{value:%H:%M:%S}"
        case _:
            return escape(str(value))


def _size(value: object) -> str:
    return f"{len(value)}" if isinstance(value, list) else str(value)
