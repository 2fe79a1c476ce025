"""`headrace backup` and `headrace restore`: copies of a checkpoint that are complete and unchanged."""

from __future__ import annotations

import datetime
from pathlib import Path

import typer

from headrace import __version__
from headrace.cli.help import examples
from headrace.cli.output import err, faults, out
from headrace.hosts.checkup import Checkup, check_up
from headrace.storage.backup import back_up, restore

BACKUP_EXAMPLES = examples(
    ("stop the process, then copy its checkpoint", "backup --checkpoint state --to copies/monday")
)
RESTORE_EXAMPLES = examples(("make a checkpoint from a copy", "restore --from copies/monday --checkpoint state"))


def backup(
    checkpoint: Path = typer.Option(..., help="The folder of the checkpoint. No process may use it."),
    to: Path = typer.Option(..., help="The folder of the copy; new, or empty."),
) -> None:
    """Copy a checkpoint, with a digest of every file."""
    with faults():
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        manifest = back_up(checkpoint, to, version=__version__, time=time)
        out.print(f"copied {len(manifest.files)} files, {manifest.size:,} bytes, to {to}", markup=False)
        for line in beside(check_up(to)):
            err.print(line, markup=False)


def restore_copy(
    copy: Path = typer.Option(..., "--from", help="The folder of the copy."),
    checkpoint: Path = typer.Option(..., help="The folder of the checkpoint; new, or empty."),
) -> None:
    """Make a checkpoint from a copy, if every file is as it was."""
    with faults():
        manifest = restore(copy, checkpoint)
        out.print(
            f"restored {len(manifest.files)} files, {manifest.size:,} bytes, of {manifest.time} to {checkpoint}",
            markup=False,
        )
        for line in ahead(check_up(checkpoint)):
            err.print(line, markup=False)


def beside(checkup: Checkup) -> list[str]:
    """Return what belongs to a copy and is not in it: the results in files."""
    places = _places(checkup, "FILES")
    return [f"results of FILES sinks are not in the copy; copy them with it: {', '.join(places)}"] if places else []


def ahead(checkup: Checkup) -> list[str]:
    """Return what to do with sinks that hold results from after the copy was taken."""
    following = 0 if checkup.committed is None else checkup.committed + 1
    lines = []
    if places := _places(checkup, "FILES"):
        lines.append(
            f"the copy ends before micro-batch {following}. FILES sinks may hold later results, which are delivered "
            f"again: restore their copies, or delete the part files from part-{following:012d} on: {', '.join(places)}"
        )
    if topics := _places(checkup, "KAFKA"):
        lines.append(
            f"Kafka remembers the last micro-batch that was sent. Results of micro-batches from {following} up to it "
            f"are not sent again, although they may differ now; to get all, write to a new topic: {', '.join(topics)}"
        )
    if tables := _places(checkup, "POSTGRES"):
        lines.append(
            f"the database remembers the last micro-batch that was written. Results of micro-batches from {following} "
            f"up to it are not written again, although they may differ now; to get all, write to a new table: "
            f"{', '.join(tables)}"
        )
    if others := _places(checkup, "SPARK"):
        lines.append(f"SPARK sinks may hold results that are delivered again: {', '.join(others)}")
    return lines


def _places(checkup: Checkup, kind: str) -> list[str]:
    sinks = (sink for query in checkup.queries for sink in query.sinks if sink.split()[0] == kind)
    return list(dict.fromkeys(sink.removeprefix(kind).strip() or sink for sink in sinks))
