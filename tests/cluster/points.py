"""The lines of the protocol by which parcels change bucket, at each of which a process can be made to wait.

`points/NAME` in the common folder lets the first process that comes to this point wait there, whichever it is. It
renames the file to `points/NAME@ADDRESS`, and goes on when that is gone. `hooks` lets all processes of the machines
tell where they are.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

#: In their order, each with who comes there: a worker on some machine, or a process of the driver.
POINTS = {
    "the command is heard": "worker",
    "input is worked off": "worker",
    "rows are given": "worker",
    "the giver has saved": "worker",
    "given rows are delivered": "driver",
    "the next micro-batch is planned": "driver",
    "rows are taken in": "worker",
    "the taker has saved": "worker",
    "files are deleted": "driver",
}


def reach(point: str) -> None:
    """Wait, if somebody is to wait here and nobody does."""
    common, address = Path(os.environ["HEADRACE_TEST_COMMON"]), os.environ["SPARK_LOCAL_IP"]
    waits = common / "points" / f"{point}@{address}"
    try:
        waits.with_name(point).rename(waits)
    except FileNotFoundError:
        return
    while waits.exists():
        time.sleep(0.01)


class Waiting:
    """The test's end: lets processes wait, and go on."""

    def __init__(self, common: Path) -> None:
        self._folder = common / "points"
        self._folder.mkdir(exist_ok=True)

    def arm(self, point: str) -> None:
        """Let the next process that comes to a point wait there."""
        (self._folder / point).touch()

    def address(self, point: str) -> str | None:
        """Return the address of the machine on which a process waits."""
        return next((path.name.partition("@")[2] for path in self._folder.glob(f"{point}@*")), None)

    def release(self, point: str) -> None:
        """Let a process that waits go on, if it has not been lost."""
        for path in self._folder.glob(f"{point}@*"):
            path.unlink()
