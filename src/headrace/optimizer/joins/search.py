"""The search for join plans: exact for few streams, by the published heuristics for many."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from headrace.model.join_tree import flat, left_deep, with_late
from headrace.optimizer.joins.cost import Model, Plan
from headrace.optimizer.joins.exact import exact_front
from headrace.optimizer.joins.fitting import Fitter
from headrace.optimizer.joins.front import Limits, front
from headrace.optimizer.joins.min_state import min_state
from headrace.optimizer.joins.state_removal import state_removal
from headrace.optimizer.joins.state_selection import state_selection

#: The largest joins whose plans are all looked at: while queries run, and if somebody asks (about half a second).
EXACT_RUNNING, EXACT_ASKED = 6, 8
#: Up to so many streams with conditions that take long, all choices of where to test them are looked at.
_CONDITIONS = 2
#: Limits that no plan keeps: the heuristics go on to their end.
_NONE = Limits(cpu=0.0)


def search(model: Model, *, exact_up_to: int = EXACT_RUNNING) -> tuple[Plan, ...]:
    """Return the front of the plans that were found, from least work to least memory."""
    if not model.graph.conditions:
        return _trees(model, exact_up_to)
    plans: list[Plan] = []
    for late in _late_sets([condition.port for condition in model.graph.conditions]):
        more = model.testing(late)
        plans += [
            Plan(with_late(plan.tree, late), plan.cpu + more, plan.memory)
            for plan in _trees(model.testing_late(late), exact_up_to)
        ]
    return front(plans)


def _late_sets(ports: Sequence[int]) -> list[tuple[int, ...]]:
    """Return whose conditions may be tested late together: any, of few; else none, one, or all."""
    sizes = range(len(ports) + 1) if len(ports) <= _CONDITIONS else (0, 1, len(ports))
    return [late for size in sizes for late in itertools.combinations(sorted(ports), size)]


def _trees(model: Model, exact_up_to: int) -> tuple[Plan, ...]:
    if len(model.graph.streams) <= exact_up_to:
        return exact_front(model)
    return front(heuristic_plans(model))


def heuristic_plans(model: Model) -> list[Plan]:
    """Return all plans that the published algorithms pass on their way, and the trees that are always there."""
    count = len(model.graph.streams)
    fitter = Fitter(model)
    plans = [fitter.plan(flat(count)), fitter.plan(left_deep(range(count))), *state_selection(model, _NONE)]
    for cross in (False, True):
        plans += state_removal(model, min_state(model.estimates, cross=cross), _NONE)
    return plans
