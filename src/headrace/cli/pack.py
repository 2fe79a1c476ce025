"""`headrace pack`: write the archive that executors need where Headrace is not installed."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.cli.help import examples, program
from headrace.cli.live_session import show_progress
from headrace.cli.output import faults, out
from headrace.hosts.spark.starting import packing

EXAMPLES = examples(
    ("write environment.tar.gz", "pack"),
    ("to another file", "pack --to /shared/headrace.tar.gz"),
    note="headrace submit does this by itself.",
)


def pack(
    to: Path = typer.Option(Path("environment.tar.gz"), "--to", dir_okay=False, help="The file to write."),
) -> None:
    """Write an archive of Headrace and the packages that it needs, for executors that have none of them."""
    with faults():
        to.parent.mkdir(parents=True, exist_ok=True)
        with show_progress("packing"):
            size = packing.pack(to)
        out.print(f"{to}: {size / 1e6:.0f} MB", markup=False)
        options = f"--master MASTER --conf spark.archives={to}#{packing.FOLDER}"
        out.print(f"use it with: PYSPARK_PYTHON={packing.PYTHON} {program()} run FILE {options}", markup=False)
