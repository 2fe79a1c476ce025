"""`headrace example`: run a whole application over generated data, and compare its results with the planted ones."""

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
from headrace.cli.help import examples
from headrace.cli.live_session import Host, open_session
from headrace.cli.output import RUN_FAILED, err, faults, out
from headrace.connectors.options import near

EXAMPLES = examples(
    ("which applications there are", "example"),
    ("accidents on a motorway", "example car-adn"),
    ("keep data, script and results in a folder", "example nfmi --folder here"),
    ("without Spark, with other data", "example rfid --host local --seed 7"),
)
#: Rows of a result that are printed.
ROW_LIMIT = 20


def example(
    name: str | None = typer.Argument(None, help="An application. Without it, all are listed."),
    folder: Path | None = typer.Option(
        None, "--folder", file_okay=False, help="Keep data, script and results in this folder."
    ),
    seed: int = typer.Option(1, "--seed", help="Random seed. The same seed gives the same data."),
    host: Host = typer.Option(Host.spark, help="Where queries run. The local host needs no Java."),
) -> None:
    """Run an application (events, rules, queries) over generated data, and check that it finds what was planted."""
    if name is None:
        table = Table("name", "what it does", "documentation", header_style="bold")
        for item in _applications():
            table.add_row(f"[bold]{item.name}[/]", item.title, f"docs/applications/{item.name}.md")
        out.print(table)
        return
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} is not empty; choose a new folder", param_hint="--folder")
    with faults():
        item = chosen(name)
        with tempfile.TemporaryDirectory(prefix="headrace-example-") as temporary:
            checks = _run(item, Path(temporary) if folder is None else folder, seed, host)
    if folder is not None:
        out.print(f"data, {item.folder}.sql and results are in {folder}", markup=False)
    if not all(check.holds for check in checks):
        raise typer.Exit(RUN_FAILED)


def _applications() -> Sequence[Application]:
    from headrace.applications.table import APPLICATIONS  # takes long, and other commands need none

    return APPLICATIONS


def chosen(name: str) -> Application:
    """Return the application of that name."""
    application = next((item for item in _applications() if item.name == name), None)
    if application is None:
        err.print(f"no example {name!r}; {near(name, [item.name for item in _applications()])}", markup=False)
        raise typer.Exit(RUN_FAILED)
    return application


def rows_table(title: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a table of a query's results; the first ones if there are many."""
    table = Table(title=f"{title}: {len(rows)}", title_justify="left", header_style="bold")
    for name in rows[0] if rows else ("no rows",):
        table.add_column(name)
    for row in rows[:ROW_LIMIT]:
        table.add_row(*map(_cell, row.values()))
    if len(rows) > ROW_LIMIT:
        table.add_row(f"... {len(rows) - ROW_LIMIT} more")
    return table


def checks_table(checks: Sequence[Check]) -> RenderableType:
    """Return a table of planted and found values."""
    table = Table("what", "planted", "found", "", header_style="bold")
    for check in checks:
        verdict = "[green]as planted[/]" if check.holds else "[bold red]not as planted[/]"
        table.add_row(check.what, _size(check.planted), _size(check.found), verdict)
    return table


def _run(item: Application, folder: Path, seed: int, host: Host) -> Sequence[Check]:
    out.print(f"[bold]{item.title}[/]")
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
        f"{read:,} tuples in {took:.1f} s on the {host.value} host; documentation: docs/applications/{item.name}.md"
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
