"""The tests' end of a driver on the cluster (`driver_process`)."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cluster.machine import PATIENCE, Machine


class DriverLost(Exception):
    """The driver has ended before it answered."""


class Driver:
    """A driver of Spark on a machine of its own, which does what it is asked."""

    def __init__(self, machine: Machine, process: subprocess.Popen[bytes], log: Path) -> None:
        self.machine, self.process, self.log = machine, process, log
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._started: Future[Any] = Future()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for_start(self, seconds: float = PATIENCE) -> None:
        self._started.result(seconds)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def begin(self, function: str, **arguments: Any) -> Future[Any]:
        """Ask for something that takes long."""
        number, answer = next(self._numbers), Future[Any]()
        self._waiting[number] = answer
        line = json.dumps({"id": number, "call": function, "arguments": arguments})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return answer

    def call(self, function: str, *, seconds: float = 2 * PATIENCE, **arguments: Any) -> Any:
        return self.begin(function, **arguments).result(seconds)

    def _read(self) -> None:
        with suppress(ValueError):  # its machine was switched off, and the pipe closed
            for line in self.process.stdout:
                if not line.startswith(b"{"):
                    continue  # a JVM has something to say
                answer = json.loads(line)
                waiting = self._started if "started" in answer else self._waiting.pop(answer["id"])
                if "error" in answer:
                    waiting.set_exception(RuntimeError(answer["error"]))
                else:
                    waiting.set_result(answer.get("value"))
        for waiting in (self._started, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(DriverLost(self.log.read_text(errors="replace")[-3000:]))
