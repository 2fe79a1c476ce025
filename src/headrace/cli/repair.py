"""`headrace repair`: remove a query that makes every micro-batch fail."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.cli.help import examples
from headrace.cli.output import faults, out
from headrace.session import Session

EXAMPLES = examples(("go on without a query whose Python function raises", "repair --checkpoint state --drop totals"))


def repair(
    checkpoint: Path = typer.Option(..., exists=True, file_okay=False, help="The folder with the state."),
    drop: list[str] = typer.Option(..., metavar="QUERY", help="A query or rule to remove; may be given several times."),
) -> None:
    """Remove queries or rules without running them. Needs no Java.

    If a query makes a micro-batch fail, a restart repeats the micro-batch and fails again, and DROP QUERY comes too
    late for it. After a repair the other queries go on with the same micro-batch and lose nothing. The state of the
    removed queries is discarded.
    """
    with faults(), Session(checkpoint, host="local") as session:
        for name in session.repair(drop):
            out.print(f"{name} dropped: the next run on {checkpoint} goes on without it", markup=False)
