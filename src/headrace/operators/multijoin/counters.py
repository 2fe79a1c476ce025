"""Counts of what a join of several inputs does between two reports."""

from __future__ import annotations

from typing import Any

from headrace.operators.multijoin.seen import BoxSeen, ConditionSeen, StepSeen


class Counters:
    """Counts since the last report."""

    def __init__(self, ports: int) -> None:
        self._ports = ports
        self._clear()

    def searched(self, step: str, rows: int) -> None:
        """Count rows that search."""
        self._steps.setdefault(step, [0, 0])[0] += rows

    def matched(self, step: str, rows: int) -> None:
        """Count rows that come out of a search."""
        self._steps.setdefault(step, [0, 0])[1] += rows

    def tested(self, port: int, rows: int, passed: int, busy_ns: int) -> None:
        """Count rows on which the conditions of an input were tested, and the time that it took."""
        counts = self._conditions.setdefault(port, [0, 0, 0])
        for place, more in enumerate((rows, passed, busy_ns)):
            counts[place] += more

    def report(self, **more: Any) -> BoxSeen:
        """Return the counts, with what else there is to tell, and begin again."""
        seen = BoxSeen(
            steps={name: StepSeen(*counts) for name, counts in self._steps.items()},
            stored=self.stored,
            built=self.built,
            purged=self.purged,
            out=self.out,
            conditions={port: ConditionSeen(*counts) for port, counts in self._conditions.items()},
            **more,
        )
        self._clear()
        return seen

    def _clear(self) -> None:
        self.taken = [0] * self._ports
        self.stored = self.built = self.purged = self.out = 0
        self._steps: dict[str, list[int]] = {}
        self._conditions: dict[int, list[int]] = {}
