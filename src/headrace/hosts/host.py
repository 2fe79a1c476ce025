"""The interface between the session and what runs its queries."""

from __future__ import annotations

from typing import Protocol

from headrace.commands.command import Command
from headrace.control.loop import ControlLoop
from headrace.driver.delivery import Delivery


class Deployment(Protocol):
    """A running set of queries on one checkpoint directory."""

    delivery: Delivery
    control: ControlLoop
    cores: int  # how many tasks run at the same time

    def start(self) -> None:
        """Begin, or continue from the checkpoint."""
        ...

    def send(self, *commands: Command) -> None:
        """Append commands; they take effect together, at the next micro-batch."""
        ...

    def now(self) -> int:
        """Return the time by its clock."""
        ...

    def settle(self, commands: int, timeout: float) -> bool:
        """Wait until a micro-batch with so many commands in force is delivered; return False if the time is up."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the deployment has ended; return False if the time is up; raise the fault that ended it."""
        ...

    def stop(self) -> None:
        """Finish the running micro-batch and end."""
        ...
