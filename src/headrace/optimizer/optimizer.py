"""From a plan to a cheaper one with the same answer, by rules that are tried until none changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.optimizer.rules.fold_constants import fold_constants
from headrace.optimizer.rules.merge_filters import merge_filters
from headrace.optimizer.rules.merge_projects import merge_projects
from headrace.optimizer.rules.push_down_filters import push_down_filters
from headrace.optimizer.rules.push_down_memberships import push_down_memberships
from headrace.optimizer.rules.push_down_projections import push_down_projections
from headrace.plan.nodes import Node


class Rule(Protocol):
    """A function that returns an equivalent plan; the same plan if it finds nothing to do."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, plan: Node, /) -> Node: ...


@dataclass(frozen=True, slots=True)
class Step:
    """A plan and the name of the rule that made it; the first one is named 'input'."""

    rule: str
    plan: Node


#: In the order in which they are tried.
RULES: tuple[Rule, ...] = (
    fold_constants,
    merge_filters,
    merge_projects,
    push_down_memberships,
    push_down_filters,
    push_down_projections,
)

#: Every plan on the way is correct, so stopping early is harmless; rules that undo each other must not loop forever.
MAX_ROUNDS = 10


def optimize(plan: Node) -> tuple[Step, ...]:
    """Apply all rules until the plan stays as it is; the last step has the answer."""
    steps = [Step("input", plan)]
    for _ in range(MAX_ROUNDS):
        before = len(steps)
        for rule in RULES:
            changed = rule(steps[-1].plan)
            if changed != steps[-1].plan:
                steps.append(Step(rule.__name__, changed))
        if len(steps) == before:
            break
    return tuple(steps)


def best(plan: Node) -> Node:
    """Return the plan to run."""
    return optimize(plan)[-1].plan
