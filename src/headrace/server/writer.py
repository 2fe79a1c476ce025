"""The writer: the one thread in which anything is changed, in the order in which it was asked for."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from headrace.server.problems import Fault

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
#: So many changes may wait for their turn.
MOST_WAITING = 64


class Writer:
    """Runs jobs one after another; between them it calls `idle`, which returns how many seconds it can wait then."""

    def __init__(self, idle: Callable[[], float]) -> None:
        self._idle = idle
        self._jobs: queue.Queue[tuple[Callable[[], Any], Future[Any]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._is_closed = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def submit(self, job: Callable[[], _T], *, must: bool = False) -> Future[_T]:
        """Ask for a change; refused if too many wait, unless it `must` be made."""
        if self._is_closed:
            raise Fault(503, "the server is stopping", headers={"Retry-After": "5"})
        if not must and self._jobs.qsize() >= MOST_WAITING:
            raise Fault(429, f"{MOST_WAITING} changes are waiting already", hint="try again in a second")
        future: Future[_T] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Take no more jobs, and return when those that wait are done."""
        if not self._is_closed:
            self._is_closed = True
            self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                entry = self._jobs.get(timeout=self._idle()) if self._jobs.empty() else self._jobs.get()
            except queue.Empty:
                continue
            if entry is None:
                return
            job, future = entry
            if not future.set_running_or_notify_cancel():
                continue  # the client has gone
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
