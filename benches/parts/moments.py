"""When the parts of a start are over, in seconds since this process began."""

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


class Moments:
    """Notes when parts are over; of a part that comes several times the last time counts."""

    def __init__(self) -> None:
        self._began, self._times = _began(), dict[str, float]()

    def note(self, what: str) -> None:
        """Note that a part is over."""
        self._times[what] = time.time() - self._began

    def noted(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that notes when it has returned."""

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            try:
                return function(*args, **options)
            finally:
                self.note(what)

        return call

    def watch(self) -> None:
        """Note the parts of a session on any host: statements and micro-batches."""
        from headrace.driver.delivery import Delivery
        from headrace.session import Session

        self.note("Python has imported")
        Session.execute = self.noted("the statements are planned", Session.execute)  # type: ignore[method-assign]
        first = Delivery.deliver

        def deliver(delivery: Delivery, batch: int, *args: Any, **options: Any) -> Any:
            self.note("the first micro-batch is computed" if batch == 0 else "the last micro-batch is computed")
            done = first(delivery, batch, *args, **options)
            self.note("results are delivered")
            return done

        setattr(Delivery, "deliver", deliver)  # noqa: B010  its type is wider

    def watch_spark(self) -> None:
        """Note also what Spark starts and stops."""
        from headrace.hosts.spark import host
        from headrace.hosts.spark.starting import context

        self.watch()
        for module, name, what in (
            (context, "start_jvm", "the JVM runs"),
            (host, "session_for", "Spark has a session"),
            (host.SparkDeployment, "start", "the streaming query runs"),
            (host.SparkDeployment, "stop", "the streaming query has stopped"),
        ):
            setattr(module, name, self.noted(what, getattr(module, name)))

    def tell(self) -> None:
        """Print the times."""
        print(MARK + json.dumps(self._times), file=sys.stderr, flush=True)


def _began() -> float:
    """Return when this process began, by the clock that `time.time` reads."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / 100  # ticks since the machine started
    return time.time() - float(Path("/proc/uptime").read_text().split()[0]) + started
