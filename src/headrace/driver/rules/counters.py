"""The counts of rules. The delivery and the thread that makes calls add to them; any thread may read them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from msgspec.structs import replace

from headrace.engine.statistics import RuleStatistics


class RuleCounters:
    """Totals by rule; `totals` is never changed, only replaced."""

    def __init__(self) -> None:
        self.totals: Mapping[str, RuleStatistics] = {}
        self._lock = threading.Lock()

    def add(
        self,
        rule: str,
        *,
        detections: int = 0,
        ignored: int = 0,
        calls: int = 0,
        done: int = 0,
        given_up: int = 0,
        failed: int = 0,
    ) -> None:
        """Add to the totals of a rule."""
        with self._lock:
            before = self.totals.get(rule, RuleStatistics())
            after = replace(
                before,
                detections=before.detections + detections,
                ignored=before.ignored + ignored,
                calls=before.calls + calls,
                done=before.done + done,
                given_up=before.given_up + given_up,
                failed=before.failed + failed,
            )
            self.totals = {**self.totals, rule: after}
