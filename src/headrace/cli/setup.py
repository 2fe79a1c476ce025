"""`headrace setup`: install packages into a checkout's environment."""

from __future__ import annotations

import os
from typing import get_args

import typer

from headrace import extras
from headrace.cli.help import examples
from headrace.cli.output import RUN_FAILED, err

EXAMPLES = examples(
    ("everything for development", "setup"),
    ("the client for FROM KAFKA and INTO KAFKA", "setup kafka"),
)


def setup(
    names: list[str] = typer.Argument(
        None,
        metavar="EXTRA",
        help=f"Extras to install: {', '.join(get_args(extras.Extra))}. Without any: all for development.",
    ),
) -> None:
    """Install packages that commands need, without running anything. Works in a checkout only."""
    if not extras.LAUNCHER.is_file():
        named = ",".join(names or ("kafka",))
        err.print(f"this command works in a checkout only; here use: pip install 'headrace[{named}]'", markup=False)
        raise typer.Exit(RUN_FAILED)
    os.execv(extras.LAUNCHER, [str(extras.LAUNCHER), "setup", *(names or ())])
