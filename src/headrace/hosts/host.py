"""The interface between the session and what runs its queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from headrace.commands.command import Command
from headrace.control.loop import ControlLoop
from headrace.driver.delivery import Delivery
from headrace.driver.turn import Turn
from headrace.errors import HeadraceError, HostFault


def file_fault(error: OSError, directory: Path) -> HostFault:
    """Return the fault for a file that cannot be read or written while a micro-batch runs, such as on a full disk."""
    return HostFault(
        f"{error.filename or directory} cannot be read or written: {error.strerror or error}",
        hint="free space on the disk, or give this user the right to read and write; then start again",
    )


class Deployment(Protocol):
    """A running set of queries on one checkpoint directory."""

    directory: Path
    delivery: Delivery
    control: ControlLoop
    turn: Turn
    buckets: list[int]  # their numbers, known once it has started
    cores: int  # how many tasks run at the same time
    overhead: float  # the fixed cost of a micro-batch to assume until it is measured, seconds

    def start(self) -> None:
        """Begin, or continue from the checkpoint."""
        ...

    def choose_buckets(self, count: int) -> list[int]:
        """Return the numbers of so many buckets, those in use first; none if it has not started, and will choose."""
        ...

    def expected_buckets(self) -> int:
        """Return how many buckets there are, or will be when it has started."""
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

    def failure(self) -> HeadraceError | None:
        """Return why no query runs any more; None if nothing has failed."""
        ...

    def exclude(self, fault: HeadraceError) -> bool:
        """Go on without the queries that a fault is due to; return False if there are none, or no others."""
        ...

    def stop(self) -> None:
        """Finish the running micro-batch and end."""
        ...


@runtime_checkable
class Preparable(Protocol):
    """A deployment that can find out whether queries can run, before statements take effect."""

    def takes_long(self) -> bool:
        """Return whether preparing takes long, because it starts Spark."""
        ...

    def prepare(self) -> None:
        """Raise a fault if queries cannot run here; on a cluster, start Spark and look at the executors."""
        ...


@runtime_checkable
class SourceReader(Protocol):
    """A deployment that reads foreign sources, which may refuse."""

    def begin_sources(self, *commands: Command) -> None:
        """Begin to read the sources of the queries that commands add; raise the fault of one that cannot be read.

        Nothing else of the commands takes effect.
        """
        ...


@runtime_checkable
class FrameReader(Protocol):
    """A deployment whose streams can read streaming DataFrames of the program."""

    def read_frame(self, name: str, frame: Any, timestamp: str | None, skew: str | None) -> str:
        """Let the stream of this name read a DataFrame; return the CREATE STREAM statement for it."""
        ...


class Rescaled(NamedTuple):
    """How the state of a checkpoint was divided: the number of buckets, and that of their parts before and after."""

    buckets: int
    before: int
    after: int


@runtime_checkable
class Rescalable(Protocol):
    """A deployment whose state can be divided for another number of cores while it does not run."""

    def rescale(self, cores: int) -> Rescaled:
        """Divide the buckets into as many equal parts as so many cores can run at the same time."""
        ...
