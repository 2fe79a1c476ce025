"""Counts of what a join of several inputs does between two reports."""

from __future__ import annotations

from typing import Any

from headrace.operators.multijoin.seen import BoxSeen, StepSeen


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

    def report(self, **more: Any) -> BoxSeen:
        """Return the counts, with what else there is to tell, and begin again."""
        seen = BoxSeen(
            steps={name: StepSeen(*counts) for name, counts in self._steps.items()},
            stored=self.stored,
            built=self.built,
            purged=self.purged,
            out=self.out,
            **more,
        )
        self._clear()
        return seen

    def _clear(self) -> None:
        self.taken = [0] * self._ports
        self.stored = self.built = self.purged = self.out = 0
        self._steps: dict[str, list[int]] = {}
