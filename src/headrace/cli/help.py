"""Help texts: the name that the user typed, examples, and options without a value."""

from __future__ import annotations

import os
from typing import Any

import typer
from rich.markup import escape

#: Set by the launcher of a checkout to the name by which it was called.
PROGRAM = "HEADRACE_PROGRAM"


def program() -> str:
    """Return the command as the user types it: `headrace`, or `./headrace` in a checkout."""
    return os.environ.get(PROGRAM) or "headrace"


def examples(*pairs: tuple[str, str], note: str = "") -> str:
    """Return the end of a command's help: arguments of `headrace`, each with what they do."""
    lines = [f"[dim]# {escape(does)}[/]\n{program()} {escape(arguments)}" for does, arguments in pairs]
    return "\n\n".join(["[bold]Examples:[/]", *lines, *([note] if note else [])])


def flag(name: str, text: str, **more: Any) -> Any:
    """Return an option that is given without a value."""
    return typer.Option(False, name, metavar="", help=text, **more)
