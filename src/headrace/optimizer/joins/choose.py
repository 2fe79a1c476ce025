"""Which plan of a front runs: the one with least work, or with least memory where memory is scarcer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headrace.optimizer.joins.cost import Plan
from headrace.optimizer.joins.front import Limits, qualified


def choose(plans: Sequence[Plan], limits: Limits, *, scarce: Literal["cpu", "memory"] = "cpu") -> Plan:
    """Return the qualified plan that uses least of what is scarce; if none is qualified, the one that exceeds least.

    All qualified plans give the same results at the same rate, so the rest is reserve.
    """
    candidates = qualified(plans, limits)
    if not candidates:
        return min(plans, key=lambda plan: (limits.excess(plan), plan.cpu))
    if scarce == "cpu":
        return min(candidates, key=lambda plan: (plan.cpu, plan.memory))
    return min(candidates, key=lambda plan: (plan.memory, plan.cpu))
