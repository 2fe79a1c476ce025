"""`headrace experiment`: repeat published experiments, and print our findings beside the published ones."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import msgspec
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from headrace.cli import java
from headrace.cli.help import examples, flag, program
from headrace.cli.output import RUN_FAILED, err, faults, out
from headrace.errors import HostFault
from headrace.experiments.drawing import check_drawing, draw
from headrace.experiments.experiment import Experiment, Finding, Outcome, Scale, Trial, text_of
from headrace.experiments.experiment import Progress as Report

LIST_EXAMPLES = examples(("all experiments with their questions", "experiment list"))
EXAMPLES = examples(
    ("all experiments with their questions", "experiment list"),
    ("one experiment, in seconds", "experiment run bursts --quick"),
    ("the same question in a running deployment", "experiment run shedding --on spark --quick"),
    ("all of them, with figures and a file of findings", "experiment run all --figures figures --json findings.json"),
)
COLORS = {
    "confirmed": "green",
    "calibrated": "blue",
    "consistent": "cyan",
    "not confirmed": "bold red",
    "not comparable": "dim",
}
ALL = "all"


class Place(StrEnum):
    """Where an experiment runs."""

    simulation = "simulation"
    spark = "spark"


app = typer.Typer(name="experiment", help="Repeat published experiments.", no_args_is_help=True, epilog=EXAMPLES)


def _experiments() -> Sequence[Experiment]:
    from headrace.experiments.table import EXPERIMENTS  # takes long, and other commands need none

    return EXPERIMENTS


@app.command("list", epilog=LIST_EXAMPLES)
def show_list() -> None:
    """List the experiments with their questions, what they need and how long they take."""
    table = Table(Column("name", no_wrap=True), "question", "runs in", "takes", header_style="bold")
    for item in _experiments():
        table.add_row(f"[bold]{item.name}[/]", f"{item.question} [dim]{item.source}[/]", item.hosts, item.takes)
    out.print(table)
    out.print(
        f"[dim]run one: {program()} experiment run NAME (--quick: seconds, rough; --full: the published sizes; "
        "--on spark: in a running deployment, needs Java)[/]"
    )


@app.command("run", epilog=EXAMPLES)
def run(
    name: str = typer.Argument(..., help="A name from the list, or all."),
    quick: bool = flag("--quick", "Small sizes: seconds each, rough figures."),
    full: bool = flag("--full", "The published sizes: minutes to an hour."),
    seed: int = typer.Option(1, "--seed", help="First random seed. The same seed gives the same figures."),
    on: Place = typer.Option(Place.simulation, "--on", help="Where it runs. On Spark, some can, in real time."),
    figures: Path | None = typer.Option(
        None, "--figures", file_okay=False, help="Folder for the figures.", show_default="figures"
    ),
    json_file: Path | None = typer.Option(None, "--json", dir_okay=False, help="Write all findings to this file."),
) -> None:
    """Run an experiment, print its findings with a verdict on each, and draw its figure."""
    if quick and full:
        raise typer.BadParameter("choose --quick or --full, not both")
    scale: Scale = "quick" if quick else "full" if full else "normal"
    outcomes = {}
    with faults():
        items = chosen(name) if on is Place.simulation else [on_spark(item, name) for item in chosen(name)]
        folder = drawing_folder(figures)
        for item in items:
            if item is not None:
                outcomes[item.name] = _run(item, scale, seed, folder)
        if json_file is not None:
            json_file.parent.mkdir(parents=True, exist_ok=True)
            findings = {"scale": scale, "seed": seed, "outcomes": outcomes}
            json_file.write_bytes(msgspec.json.format(msgspec.json.encode(findings), indent=1) + b"\n")


def chosen(name: str) -> Sequence[Experiment]:
    """Return the experiment of that name, or all of them."""
    if name == ALL:
        return _experiments()
    matching = [item for item in _experiments() if item.name == name]
    if not matching:
        names = [item.name for item in _experiments()]
        near = difflib.get_close_matches(name, [*names, ALL], n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
        err.print(f"no experiment {name!r}; {hint}", markup=False)
        raise typer.Exit(RUN_FAILED)
    return matching


def on_spark(item: Experiment, asked: str) -> Experiment | None:
    """Return an experiment as it runs on Spark; of all of them, None for those that cannot."""
    if item.needs == "Java":
        return item
    if item.on_spark is not None:
        return replace(item, name=f"{item.name}-on-spark", run=item.on_spark, needs="Java")
    if asked == ALL:
        return None
    able = ", ".join(other.name for other in _experiments() if other.on_spark is not None)
    err.print(f"{item.name} runs in a simulation only; on Spark there are: {able}", markup=False)
    raise typer.Exit(RUN_FAILED)


def drawing_folder(given: Path | None) -> Path | None:
    """Return the folder for figures; None, with a message, if nothing can be drawn and the user named no folder."""
    try:
        check_drawing()
    except HostFault as error:
        if given is not None:
            raise
        err.print(f"no figures are drawn: {error.message} ({error.hint})", markup=False)
        return None
    return given or Path("figures")


def tables(item: Experiment, outcome: Outcome) -> Iterator[Table]:
    """Return a table of the paper's claims, then one of figures that only the simulator has."""
    claims = [finding for finding in outcome.findings if finding.paper is not None]
    figures = [finding for finding in outcome.findings if finding.paper is None]
    for title, findings in (
        (f"{item.title} ({item.source})", claims),
        ("Figures of the paper's model, by an independent simulator", figures),
    ):
        if findings:
            yield _table(title, findings, with_paper=findings is claims)


def _run(item: Experiment, scale: Scale, seed: int, folder: Path | None) -> Outcome:
    out.rule(f"[bold]{item.name}", align="left")
    out.print(item.question, style="italic")
    if item.needs == "Java":
        java.prepare()
    began = time.monotonic()
    with _progress(item.name) as progress:
        outcome = item.run(Trial(scale, seed, progress))
    for table in tables(item, outcome):
        out.print(table)
    for note in outcome.notes:
        out.print(f"- {note}", markup=False, style="dim")
    counts = {verdict: sum(1 for finding in outcome.findings if finding.verdict == verdict) for verdict in COLORS}
    verdicts = ", ".join(f"[{COLORS[verdict]}]{count} {verdict}[/]" for verdict, count in counts.items() if count)
    out.print(f"{verdicts}; {time.monotonic() - began:.0f} s at scale {scale}, seed {seed}")
    if folder is not None:
        for path in draw(item.name, item.title, outcome.panels, folder):
            out.print(f"figure: {path}", markup=False)
    return outcome


@contextmanager
def _progress(name: str) -> Iterator[Report]:
    columns = (
        TextColumn(name),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        yield show


def _table(title: str, findings: Sequence[Finding], *, with_paper: bool) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("what")
    for heading in (*(("paper",) if with_paper else ()), "simulator", "ours"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for finding in findings:
        paper = (text_of(finding.paper, finding.unit),) if with_paper else ()
        cells = (finding.what, *paper, text_of(finding.simulator, finding.unit), text_of(finding.ours, finding.unit))
        table.add_row(*cells, f"[{COLORS[finding.verdict]}]{finding.verdict}[/]")
    return table
