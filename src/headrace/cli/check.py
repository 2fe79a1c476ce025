"""`headrace check`: say what a checkpoint holds, and whether it can be continued."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import typer
from rich.markup import escape

from headrace.cli.help import examples, flag
from headrace.cli.output import RUN_FAILED, faults, out
from headrace.hosts.checkup import Checkup, check_up
from headrace.storage.location import location

EXAMPLES = examples(
    ("look at a checkpoint, also while it is in use", "check --checkpoint state"),
    ("as JSON, for programs", "check --checkpoint state --json"),
)
#: So many left-over files are named.
_NAMED = 5


def check(
    checkpoint: Path = typer.Option(..., help="The folder or URL of the checkpoint, or of a copy of it."),
    as_json: bool = flag("--json", "Print JSON."),
) -> None:
    """Read all files of a checkpoint, and say what runs in it and whether it can be continued. Changes nothing."""
    with faults():
        checkup = check_up(location(str(checkpoint), is_data=False))
    if as_json:
        out.print(msgspec.json.format(msgspec.json.encode(checkup)).decode(), markup=False)
    else:
        for line in lines(checkup):
            out.print(line, markup=False)
        for problem in checkup.problems:
            out.print(f"[bold red]problem: {escape(problem)}[/]")
    if checkup.problems:
        raise typer.Exit(RUN_FAILED)


def lines(checkup: Checkup) -> list[str]:
    """Return what a checkpoint holds, without its problems."""
    total = sum(size.bytes for size in checkup.sizes.values())
    owner = "" if checkup.owner is None else f" by {checkup.owner}"
    changed = datetime.datetime.fromtimestamp(checkup.changed).astimezone().isoformat(" ", "seconds")
    return [
        f"checkpoint {checkup.checkpoint}",
        f"  format {checkup.format if checkup.format is not None else 'unknown'}, host {checkup.host or 'none yet'}, "
        f"last change {changed}",
        f"  in use{owner}" if checkup.in_use else f"  not in use; last used{owner}" if owner else "  not in use",
        f"  {_progress(checkup)}",
        f"  commands: {checkup.commands}" + (f", {checkup.snapshot} of them in a snapshot" if checkup.snapshot else ""),
        f"  definitions: {checkup.definitions}, queries and rules: {len(checkup.queries)}"
        + (", ended" if checkup.ended else ", draining" if checkup.draining else ""),
        *(f"    {query.state:6} {query.kind} {query.name} -> {', '.join(query.sinks)}" for query in checkup.queries),
        f"  {_size(total)} in {sum(size.files for size in checkup.sizes.values())} files",
        *(f"    {_size(size.bytes):>9} {name}, files: {size.files}" for name, size in checkup.sizes.items()),
        *_leftovers(checkup),
        "no problems" if not checkup.problems else f"problems: {len(checkup.problems)}",
    ]


def _progress(checkup: Checkup) -> str:
    if checkup.committed is None and checkup.repeated is None:
        return "no micro-batch yet"
    done = "no micro-batch is done" if checkup.committed is None else f"micro-batch {checkup.committed} is done"
    if checkup.repeated is None:
        return done
    return f"{done}, {checkup.repeated} " + ("is under way" if checkup.in_use else "is repeated at the next start")


def _leftovers(checkup: Checkup) -> list[str]:
    if not checkup.leftovers:
        return []
    named = ", ".join(checkup.leftovers[:_NAMED])
    more = ", ..." if len(checkup.leftovers) > _NAMED else ""
    whose = (
        "being written, or left over from processes that died"
        if checkup.in_use
        else ("left over from processes that died")
    )
    return [f"  {whose}, without harm: {len(checkup.leftovers)} files ({named}{more})"]


def _size(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
