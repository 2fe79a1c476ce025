"""`headrace repair`: remove a query or a file that makes every micro-batch fail, or reset the frontier of a stream."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.cli.help import examples
from headrace.cli.output import faults, out
from headrace.model.time import parse_instant
from headrace.session import Session
from headrace.storage.format import check_exists
from headrace.storage.location import located

EXAMPLES = examples(
    ("go on without a query whose Python function raises", "repair --checkpoint state --drop totals"),
    ("go on without a file that was deleted, or cannot be read", "repair --checkpoint state --skip-file in/9.csv"),
    ("go on at the clock after a wrong timestamp", "repair --checkpoint state --reset-frontier bids"),
)


def repair(
    checkpoint: Path = typer.Option(..., help="The folder or URL with the state."),
    drop: list[str] = typer.Option([], metavar="QUERY", help="A query or rule to remove; may be given several times."),
    skip_file: list[str] = typer.Option([], metavar="FILE", help="A file of FILES of which nothing more is read."),
    reset_frontier: str | None = typer.Option(None, metavar="STREAM", help="A stream that goes on from a time."),
    to: str | None = typer.Option(None, metavar="TIMESTAMP", help="That time; without it, the clock less the skew."),
) -> None:
    """Remove queries or rules without running them, leave out files, or reset a frontier. Needs no Java.

    If a query makes a micro-batch fail, a restart repeats the micro-batch and fails again, and DROP QUERY comes too
    late for it. After a repair the other queries go on with the same micro-batch and lose nothing. The state of the
    removed queries is discarded.

    A file that was deleted, or cannot be read, makes a micro-batch fail, too. With --skip-file,
    what was not read of it is left out, and a record in <stream>.bad says so.

    --reset-frontier does what ALTER STREAM ... RESET FRONTIER does, with the next run: the queries that read the stream
    begin anew, and tuples from that time on are not late.
    """
    if not drop and not skip_file and reset_frontier is None:
        raise typer.BadParameter("say what to repair: --drop QUERY, --skip-file FILE or --reset-frontier STREAM")
    if to is not None and reset_frontier is None:
        raise typer.BadParameter("--to needs --reset-frontier STREAM")
    with faults():
        check_exists(located(checkpoint))
    with faults(), Session(checkpoint, host="local") as session:
        for name in session.repair(drop) if drop else ():
            out.print(f"{name} dropped: the next run on {checkpoint} goes on without it", markup=False)
        for path in skip_file:
            streams = ", ".join(session.repair_file(path))
            out.print(f"{path} is left out of {streams}: the next run on {checkpoint} goes on without it", markup=False)
        if reset_frontier is not None:
            out.print(session.repair_frontier(reset_frontier, _instant(to)), markup=False)


def _instant(text: str | None) -> int | None:
    try:
        return None if text is None else parse_instant(text)
    except ValueError as error:
        raise typer.BadParameter(f"--to: {text!r} is not a timestamp such as '2026-01-31 10:00'") from error
