"""A session on the command line: start it with Spark's noise kept away, wait for it, and stop it with Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType

from headrace.cli import java
from headrace.cli.output import err, is_debugging, out
from headrace.cli.spark_log import divert
from headrace.session import Listing, Session

FORCED = 130


class Host(StrEnum):
    """Where queries run."""

    spark = "spark"
    local = "local"


def open_session(checkpoint: Path | None = None, *, host: Host = Host.spark, buckets: int | None = None) -> Session:
    """Make a session; on Spark, Java is found first so that its absence is a clear message."""
    if host is Host.spark:
        java.prepare()
        if not is_debugging():
            divert(checkpoint)
    return Session(checkpoint, host=host.value, buckets=buckets)


def beside(file: Path) -> None:
    """Let Python aggregates be imported from the folder of a script, here and in Spark's workers."""
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))


def is_running(session: Session) -> bool:
    """Whether there is any query, from these statements or from earlier ones on the same checkpoint."""
    return any(isinstance(outcome, Listing) and outcome.rows for outcome in session.execute("SHOW QUERIES"))


@contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[threading.Event]:
    """Within the block the first Ctrl-C sets the event, so that the micro-batch can finish; a second one ends the process.

    PySpark's own handler would cancel the running micro-batch, so this must be entered after Spark has started.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            err.print("forced to stop; the checkpoint is safe, the unfinished micro-batch will be run again")
            out.show_cursor(True)  # a live picture hides it
            os._exit(FORCED)
        stop.set()
        on_first()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watch(session: Session, stop: threading.Event, *, every: float, look: Callable[[], None]) -> bool:
    """Call `look` every so often until the deployment ends (True) or `stop` is set (False)."""
    began = time.monotonic()
    due = 0.0
    while not stop.is_set():
        passed = time.monotonic() - began
        if passed >= due:
            look()
            due = passed + every
        if session.wait(min(every, 0.25)):  # short, so that Ctrl-C is answered at once
            return True
    return False
