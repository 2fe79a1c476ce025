"""`headrace run` that tells at its end when each part of it was over: seconds since the process began."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

#: The mark before the times, in what is printed.
MARK = "times of the run: "
_times: dict[str, float] = {}
_began = 0.0


def began() -> float:
    """Return when this process began, by the clock that `time.time` reads."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / 100  # ticks since the machine started
    return time.time() - float(Path("/proc/uptime").read_text().split()[0]) + started


def note(what: str) -> None:
    """Note that a part is over; of a part that comes several times the last time counts."""
    _times[what] = time.time() - _began


def noted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes when it has returned."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        finally:
            note(what)

    return call


if __name__ == "__main__":
    _began = began()
    sys.argv[0] = "headrace"
    from headrace.cli.main import main
    from headrace.driver.delivery import Delivery
    from headrace.hosts.spark import host
    from headrace.hosts.spark.starting import context
    from headrace.session import Session

    note("Python has imported")
    for module, name, what in (
        (context, "start_jvm", "the JVM runs"),
        (host, "session_for", "Spark has a session"),
    ):
        setattr(module, name, noted(what, getattr(module, name)))
    Session.execute = noted("the statements are planned", Session.execute)  # type: ignore[method-assign]
    host.SparkDeployment.start = noted("the streaming query runs", host.SparkDeployment.start)  # type: ignore[method-assign]
    first = Delivery.deliver

    def deliver(self: Delivery, batch: int, *args: Any, **options: Any) -> Any:
        note("the first micro-batch is computed" if batch == 0 else "the last micro-batch is computed")
        done = first(self, batch, *args, **options)
        note("results are delivered")
        return done

    Delivery.deliver = deliver  # type: ignore[method-assign]
    host.SparkDeployment.stop = noted("the streaming query has stopped", host.SparkDeployment.stop)  # type: ignore[method-assign]
    try:
        main()
    finally:
        note("the command is over")
        print(MARK + json.dumps(_times), file=sys.stderr, flush=True)
