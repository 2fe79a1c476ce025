"""Random joins and limits for the search of plans, as the dissertation draws them, and its two algorithms.

Rates are between 1 and 100 tuples per second, selectivities between 0 and 1, and streams are joined at random. Limits
are not stated; here they lie anywhere between the least and the most that the plans of the two algorithms need.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from headrace.optimizer.joins.cost import UNIT, Model, Plan
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.join_graph import JoinGraph, Stream, Term
from headrace.optimizer.joins.min_state import min_state
from headrace.optimizer.joins.search import heuristic_plans
from headrace.optimizer.joins.state_removal import state_removal
from headrace.optimizer.joins.state_selection import state_selection

WINDOW = 1.0  # seconds


@dataclass(frozen=True, slots=True)
class Setting:
    """A join with limits."""

    model: Model
    limits: Limits


def random_join(count: int, chance: random.Random) -> Model:
    """Return a join of so many streams: a random tree of conditions, and some more between other pairs."""
    rates = [chance.uniform(1, 100) for _ in range(count)]
    pairs = {(chance.randrange(port), port) for port in range(1, count)}
    more = chance.random() * 0.3
    pairs |= {(one, other) for other in range(count) for one in range(other) if chance.random() < more}
    terms = tuple(Term(1 << one | 1 << other, chance.uniform(0.0, 1.0)) for one, other in sorted(pairs))
    return Model(JoinGraph(tuple(Stream(rate, rate * WINDOW) for rate in rates), terms=terms), UNIT)


def random_setting(count: int, chance: random.Random) -> Setting:
    """Return a join with limits between the least and the most that plans need."""
    model = random_join(count, chance)
    plans = heuristic_plans(model)
    cpu = _between([plan.cpu for plan in plans], chance)
    return Setting(model, Limits(cpu, _between([plan.memory for plan in plans], chance)))


def mjoin_init(setting: Setting) -> Plan:
    """Return the plan of MJoin-Init: from the MJoin upward, until a plan is qualified."""
    return state_selection(setting.model, setting.limits)[-1]


def bjtree_init(setting: Setting) -> Plan:
    """Return the plan of BJTree-Init: from a binary tree downward, until a plan is qualified."""
    return state_removal(setting.model, min_state(setting.model.estimates), setting.limits)[-1]


def _between(values: list[float], chance: random.Random) -> float:
    low, high = math.log(min(values)), math.log(max(values))
    return math.exp(chance.uniform(low, high)) * (1 + 1e-9)
