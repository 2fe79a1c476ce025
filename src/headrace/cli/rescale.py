"""`headrace rescale`: divide the state of a stopped checkpoint for another number of cores."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.cli.help import examples
from headrace.cli.live_session import (
    Host,
    chosen_launch,
    conf_option,
    master_option,
    open_session,
    show_progress,
    take_over_option,
)
from headrace.cli.output import faults, out
from headrace.storage.format import check_exists
from headrace.storage.location import located

EXAMPLES = examples(
    ("stop the process, then let it use eight cores", "rescale --checkpoint state --cores 8"),
)


def rescale(
    checkpoint: Path = typer.Option(..., help="The folder of the checkpoint. No process may use it."),
    cores: int = typer.Option(..., min=1, help="How many cores are to run its buckets at the same time."),
    master: str | None = master_option(),
    conf: list[str] = conf_option(),
    take_over: bool = take_over_option(),
) -> None:
    """Divide the state of a checkpoint for another number of cores.

    The number of buckets stays. They are divided into as many equal parts as the cores allow,
    and each part runs on one core. Results do not depend on it. Without this command a checkpoint runs with any number
    of cores, but its buckets use as many at most as the first run had.
    """
    launch = chosen_launch(Host.spark, master, conf, None)
    with faults():
        check_exists(located(checkpoint))
        with (
            open_session(checkpoint, launch=launch, take_over=take_over) as session,
            show_progress("dividing the state"),
        ):
            done = session.rescale(cores)
        parts = f"{done.buckets} buckets in {done.after} equal part{'' if done.after == 1 else 's'}"
        out.print(f"{parts}, {'as before' if done.after == done.before else f'before in {done.before}'}")
        if done.after < cores:
            out.print(f"for {cores} parts, run it with --buckets {cores} or a multiple, stop it, and rescale again")
