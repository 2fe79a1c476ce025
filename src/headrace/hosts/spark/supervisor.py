"""Whether a micro-batch that Spark gave up is started again by itself, and after how long.

A lost machine, a worker that was killed or a server that does not answer for a while need no person. Spark tries a task
four times and then ends the query, which can be started again on the same checkpoint: the micro-batch is repeated, and
no result is lost or doubled. A micro-batch that fails again and again for the same reason needs a person.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from headrace.control.decisions import GiveUp, RestartQueries
from headrace.errors import HeadraceError, OwnerFault, RunError

#: A micro-batch that has failed so often for the same reason is not started again.
FAILURES = 5
#: The longest pause before a start, in seconds; the first is one second, and each one is twice as long as the last.
LONGEST_PAUSE = 60.0
#: What differs between two failures for the same reason: numbers of tasks, ports, processes and the like.
_NUMBERS = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")


class Again(NamedTuple):
    """Start the queries again after a pause in seconds; `decision` tells it."""

    pause: float
    decision: RestartQueries


class Supervisor:
    """Counts failures of micro-batches. Without `restarts` nothing is started again."""

    def __init__(self, *, restarts: bool = True) -> None:
        self._restarts = restarts
        self._failures: Counter[str] = Counter()  # of the micro-batch that failed last, by reason
        self._batch = -1
        self._has_delivered = False

    def delivered(self) -> None:
        """Take note that a micro-batch is delivered."""
        self._has_delivered = True
        self._failures.clear()

    def failed(self, batch: int, fault: HeadraceError, *, is_ours: bool) -> Again | GiveUp | None:
        """Return what to do about a micro-batch that failed; None: tell the fault, as if there were no supervisor.

        A fault that Headrace itself raised (`is_ours`) before anything was delivered is told at once: it may be due to
        an address or a right that never was as it should be.
        """
        if not self._restarts or fault.culprits or isinstance(fault, OwnerFault) or not isinstance(fault, RunError):
            return None
        if is_ours and not self._has_delivered:
            return None
        if batch != self._batch:
            self._failures.clear()
        self._batch = batch
        reason = _NUMBERS.sub("#", fault.message)
        self._failures[reason] += 1
        failures = self._failures.total()
        if self._failures[reason] >= FAILURES:
            return GiveUp(batch=batch, failures=failures, cause=fault.message)
        pause = pause_after(failures)
        return Again(pause, RestartQueries(batch=batch, failures=failures, pause=pause, cause=fault.message))


def pause_after(failures: int) -> float:
    """Return the seconds to wait before what has failed so often is started again."""
    return min(LONGEST_PAUSE, 2.0 ** (failures - 1))
