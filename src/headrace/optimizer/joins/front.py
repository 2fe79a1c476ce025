"""The Pareto front: plans that no other plan beats in both processor time and memory."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from headrace.optimizer.joins.cost import Plan
from headrace.optimizer.joins.orders import SAME


class Limits(Struct, frozen=True):
    """What a join may use: seconds of work per second, and bytes."""

    cpu: float = math.inf
    memory: float = math.inf

    def keeps(self, plan: Plan) -> bool:
        """Return whether a plan is qualified: it stays within both limits."""
        return plan.cpu <= self.cpu and plan.memory <= self.memory

    def excess(self, plan: Plan) -> float:
        """Return how many times the tighter limit a plan takes; at most 1 if it is qualified."""
        return max(_ratio(plan.cpu, self.cpu), _ratio(plan.memory, self.memory))


def dominates(one: Plan, other: Plan) -> bool:
    """Return whether a plan is better in one respect and not worse in the other."""
    no_worse = one.cpu <= other.cpu and one.memory <= other.memory
    return no_worse and (one.cpu < other.cpu or one.memory < other.memory)


def front(plans: Iterable[Plan]) -> tuple[Plan, ...]:
    """Return the plans that no other dominates, from least work to least memory; of equal plans the first."""
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: (plan.cpu, plan.memory)):
        if not kept or plan.memory < kept[-1].memory * (1.0 - SAME):
            kept.append(plan)
    return tuple(kept)


def qualified(plans: Iterable[Plan], limits: Limits) -> tuple[Plan, ...]:
    """Return the plans that stay within the limits."""
    return tuple(plan for plan in plans if limits.keeps(plan))


def _ratio(value: float, limit: float) -> float:
    return value / limit if limit > 0 else math.inf if value > 0 else 0.0
