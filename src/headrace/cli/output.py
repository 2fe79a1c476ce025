"""Output of the command line: outcomes of statements, and errors without tracebacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape

from headrace.cli.listing_table import tables
from headrace.errors import HeadraceError, HostFault, QueryError, RunError
from headrace.hosts.spark.starting.settings import DEBUG
from headrace.session import Listing, Message, Outcome, Started

#: Exit codes: the data or environment must change; the text must change; a fault of Headrace; a promise would break;
#: all records of a stream were bad, or more were lost than --fail-on allows.
RUN_FAILED, BAD_QUERY, OUR_FAULT, PROMISE_BROKEN, DATA_LOST = 1, 2, 3, 4, 5
#: The width of a table in a file or a pipe.
_UNBOUNDED = 10_000

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
#: For pictures that are drawn again and again: lines that are too long are wrapped, since a terminal would cut them.
screen = Console(highlight=False)


@contextmanager
def faults(text: str | None = None) -> Iterator[None]:
    """Turn any error into a message and an exit code; the error's span points into `text`."""
    try:
        yield
    except HeadraceError as error:
        if is_debugging():
            raise
        complain(error, text)
        raise typer.Exit(exit_code(error)) from error
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except OSError as error:
        if is_debugging() or (isinstance(error, BrokenPipeError) and error.filename is None):
            raise  # nobody reads the output: click ends the command
        where = "" if error.filename is None else f"{error.filename}: "
        hint = "look at rights and free space; --debug shows where it happened"
        complain(HostFault(f"{where}{error.strerror or error}", hint=hint))
        raise typer.Exit(RUN_FAILED) from error
    except Exception as error:
        if is_debugging():
            raise
        err.print(f"[bold red]unexpected {type(error).__name__}[/]: {escape(str(error))}")
        err.print("  hint: this is a fault of Headrace; run again with --debug to see where it happened")
        raise typer.Exit(OUR_FAULT) from error


def complain(error: HeadraceError, text: str | None = None) -> None:
    """Print an error with the place in `text` that it points at."""
    head, *rest = error.render(text).split("\n")
    err.print(f"[bold red]{escape(head)}[/]")
    for line in rest:
        err.print(escape(line), style="dim" if line.startswith("  hint") else None)


def exit_code(error: HeadraceError) -> int:
    """Return the exit code for an error: it says who must act."""
    if isinstance(error, QueryError):
        return BAD_QUERY
    return RUN_FAILED if isinstance(error, RunError) else OUR_FAULT


def show(outcome: Outcome) -> None:
    """Print the outcome of a statement."""
    match outcome:
        case Message(text=text):
            out.print(escape(text))
        case Started(query=query):
            out.print(f"query [bold]{escape(query)}[/] is running")
        case Listing(columns=columns, rows=rows):
            width = out.width if out.is_terminal else _UNBOUNDED
            for table in tables(columns, rows, width):
                out.print(table, width=width)
            out.print(f"[dim]{len(rows)} row{'' if len(rows) == 1 else 's'}[/]")


def is_debugging() -> bool:
    """Return whether the user asked for tracebacks."""
    return bool(os.environ.get(DEBUG))
