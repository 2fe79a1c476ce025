"""`headrace bench`: run a benchmark of a checkout and print Headrace beside its peers.

A benchmark is a file `benches/<name>.py` with `main(quick: bool) -> dict`; options of some benchmarks (`medium`,
`large`, `minutes`, `queries`, `peers`, `input`, `only`) are further parameters. One with a parameter `keep` calls it
after each case with its figures so far: their last note, or `newest` if they have it, is printed, and the file of
--json is written. One with a parameter `earlier` gets the figures that this file has from an earlier run.
The dict has `title`, `rows`, optional `notes` and optional `panels` to draw. A row has `case`, `ours`, `peers` (numbers
by name), `unit`, and optionally `ratio` (ours to the best peer), `target` and `verdict` ('met', 'missed', ...).
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from headrace.cli import java
from headrace.cli.bench_table import tables
from headrace.cli.experiment import drawing_folder
from headrace.cli.help import examples, flag
from headrace.cli.live_session import show_progress
from headrace.cli.output import RUN_FAILED, err, faults, out
from headrace.cli.test import checkout
from headrace.errors import HostFault
from headrace.experiments.drawing import check_drawing, draw

EXAMPLES = examples(
    ("which benchmarks there are", "bench"),
    ("throughput and latency beside plain Spark, with small inputs (a few minutes)", "bench core --quick"),
    ("with full inputs; write the figures to a file as well", "bench core --json figures.json"),
    ("faults under load for an hour, compared with DuckDB's answers", "bench chaos --minutes 60"),
    ("two queries of Nexmark beside plain Spark", "bench nexmark --quick --queries q5,q20"),
)
#: The width of a table that is written to a file.
_WIDTH = 160


def bench(
    name: str | None = typer.Argument(None, help="A benchmark, such as core. Without it, all are listed."),
    quick: bool = flag("--quick", "Use smaller inputs and fewer runs. The figures are rough."),
    medium: bool = flag("--medium", "Use inputs between the small and the full ones, for nexmark and ysb."),
    large: bool = flag("--large", "Use few large micro-batches, for nexmark."),
    minutes: float | None = typer.Option(None, min=0.1, help="How long to run, for chaos and soak."),
    queries: str | None = typer.Option(None, help="Only these queries, such as q0,q5, for nexmark."),
    peers: str | None = typer.Option(None, help="Only beside these peers, such as flink, for nexmark."),
    only: str | None = typer.Option(None, help="Only this part, for skew: move."),
    input: str | None = typer.Option(
        None, help="files or kafka: where nexmark and ysb read their events.", show_default="files"
    ),
    json_file: Path | None = typer.Option(None, "--json", dir_okay=False, help="Write all figures to this file."),
    pictures: Path | None = typer.Option(
        None,
        "--figures",
        file_okay=False,
        help="Folder for figures, if the benchmark draws any.",
        show_default="figures",
    ),
) -> None:
    """Measure Headrace and the peers that are installed. Works in a checkout only."""
    folder = checkout("bench") / "benches"
    if name is None:
        out.print(_benchmarks(folder))
        return
    file = folder / f"{name.replace('-', '_')}.py"
    if not file.is_file():
        names = ", ".join(path.stem for path in _files(folder))
        err.print(f"no benchmark {name!r}; there are: {names}", markup=False)
        raise typer.Exit(RUN_FAILED)
    with faults():
        if pictures is not None:
            check_drawing()  # before the benchmark runs for minutes
        main = load(file).main
        known = inspect.signature(main).parameters.keys()
        sizes = {"medium": medium or None, "large": large or None}
        given = {**sizes, "minutes": minutes, "queries": queries, "peers": peers, "input": input, "only": only}
        options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
        for option in options.keys() - known:
            raise typer.BadParameter(f"{name} has no such option", param_hint=f"--{option}")
        if "earlier" in known:
            options["earlier"] = _earlier(json_file)
        if "keep" in known:
            options["keep"] = lambda figures: _keep(figures, json_file)
        java.prepare()
        with show_progress(f"measuring {name}"):
            figures = main(quick=quick, **options)
    panels = figures.pop("panels", ())
    _show(figures)
    for note in figures.get("notes", ()):
        out.print(note, markup=False, style="dim")
    if panels and (pictures := drawing_folder(pictures)) is not None:
        out.print(f"figure: {draw(name, figures['title'], panels, pictures)[0]}", markup=False)
    _write(figures, json_file)


def load(file: Path) -> Any:
    """Import a benchmark by its path; it can import other files of its folder as `benches.<name>`."""
    sys.path.insert(0, str(file.parent.parent))
    spec = importlib.util.spec_from_file_location(f"benches.{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # before it runs, so that its classes can be pickled
    spec.loader.exec_module(module)
    return module


def _earlier(json_file: Path | None) -> dict[str, Any] | None:
    """Return the figures of a run before, which a benchmark that keeps them continues."""
    if json_file is None or not json_file.exists():
        return None
    try:
        figures = json.loads(json_file.read_text())
    except ValueError:
        figures = None
    if not isinstance(figures, dict):
        raise HostFault(f"{json_file} holds no figures", hint="name another file, or remove it")
    return figures


def _keep(figures: dict[str, Any], json_file: Path | None) -> None:
    """Write the figures so far, and say what is new."""
    _write({name: part for name, part in figures.items() if name != "panels"}, json_file)
    err.print(figures.get("newest") or figures["notes"][-1], markup=False, highlight=False)


def _write(figures: dict[str, Any], json_file: Path | None) -> None:
    """Write figures, so that a run that is cut leaves whole ones."""
    if json_file is None:
        return
    json_file.parent.mkdir(parents=True, exist_ok=True)
    part = json_file.with_name(json_file.name + ".part")
    part.write_text(json.dumps(figures, indent=1) + "\n")
    part.replace(json_file)


def _show(figures: dict[str, Any]) -> None:
    """Print the figures as tables that fit the terminal."""
    width = out.width if out.is_terminal else _WIDTH
    out.print(figures.get("title", ""), markup=False, style="bold")
    for part in tables(figures, out, width):
        out.print(part, width=width)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if not path.stem.startswith("_"))


def _benchmarks(folder: Path) -> Table:
    """Return a table of all benchmarks, with the first line of each one's docstring."""
    listing = Table("name", "what it measures", header_style="bold")
    for path in _files(folder):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        listing.add_row(f"[bold]{path.stem}[/]", escape(text.split("\n")[0]))
    return listing
