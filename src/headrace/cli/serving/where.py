"""Find the server of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.help import program
from headrace.errors import HostFault
from headrace.server.place import Served, served_at


def refuse_served(directory: Path) -> None:
    """Say where a checkpoint is served, if it is."""
    served = served_at(directory)
    if served is not None:
        raise served_fault(directory, served)


def served_fault(directory: Path, served: Served) -> HostFault:
    """Return the fault for a checkpoint that a server owns."""
    return HostFault(
        f"the checkpoint {directory} is served at {served.url} by process {served.pid}",
        hint=f"{program()} sql --checkpoint {directory} connects to it; {program()} stop ends it",
    )
