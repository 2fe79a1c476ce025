"""Queries that are left out of a micro-batch that is repeated, because it failed with them.

A micro-batch that failed is repeated with the commands that it had, so a later DROP comes too late for it. A repair
says that a query does not run in any micro-batch up to a number of commands; to all who read the command log, these
commands never created it. That it failed (`FailQuery`) stays in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.commands.command import Command, DropQuery, StartQuery
from headrace.commands.running import Running
from headrace.errors import HostFault
from headrace.storage import sealed

_FILE = "repairs.json"


class Repair(Struct, frozen=True):
    """A query that does not run as long as at most so many commands are in force."""

    query: str
    commands: int


_decoder = msgspec.json.Decoder(tuple[Repair, ...])


def read_repairs(directory: Path) -> tuple[Repair, ...]:
    """Return the repairs of a command log."""
    path = directory / _FILE
    data = sealed.read_if_exists(path)
    try:
        return () if data is None else _decoder.decode(data)
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error


def add_repairs(directory: Path, repairs: Sequence[Repair]) -> None:
    """Add repairs; from now on, all that read the command log honor them. The longest repair of a query counts."""
    known = {repair.query: repair for repair in sorted((*read_repairs(directory), *repairs), key=lambda r: r.commands)}
    try:
        sealed.replace(directory / _FILE, msgspec.json.encode(tuple(known.values())))
    except OSError as error:
        raise HostFault(
            f"cannot write the command log in {directory}: {error.strerror}", hint="free space on the disk"
        ) from error


def repaired(command: Command, number: int, repairs: Sequence[Repair]) -> Command:
    """Return a command by its number, or one without effect in its place if it is about a query that was removed."""
    name = command.stint.query if isinstance(command, StartQuery) else getattr(command, "query", None)
    removed = any(repair.query == name and number < repair.commands for repair in repairs)
    return DropQuery(str(name)) if removed else command


def repaired_state(running: Running, repairs: Sequence[Repair]) -> Running:
    """Return what is in force without the queries that were removed."""
    for repair in repairs:
        if running.commands <= repair.commands:
            running = without(running, repair.query)
    return running


def without(running: Running, query: str) -> Running:
    """Return what would be in force if a query had never been created."""
    return replace(running.after(DropQuery(query)), commands=running.commands)
