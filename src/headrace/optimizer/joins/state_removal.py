"""State-Removal: from a binary tree towards the MJoin (the second half of the published BJTree-Init).

Each round gives up one intermediate state: the branch that fills it becomes a part of the branch that reads it. The
state is the one whose loss costs least work for the memory that it frees.
"""

from __future__ import annotations

from headrace.model.join_tree import Tree, branches, ports
from headrace.optimizer.joins.cost import Model, Plan
from headrace.optimizer.joins.fitting import Fitter, fuse
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.join_graph import port_set
from headrace.optimizer.joins.orders import published_orders


def state_removal(model: Model, tree: Tree, limits: Limits) -> tuple[Plan, ...]:
    """Return the plans on the way from a tree to the first that keeps the limits, the MJoin if none does.

    The last is the answer of the published algorithm.
    """
    fitter = Fitter(model, published_orders)
    path = [fitter.plan(tree)]
    while not limits.keeps(path[-1]):
        ratios = removals(fitter, path[-1])
        if not ratios:
            break
        path.append(min(ratios, key=lambda removal: removal[0])[1])
    return tuple(path)


def removals(fitter: Fitter, plan: Plan) -> list[tuple[float, Plan]]:
    """Return for each intermediate state the plan without it, and the work that this costs per row of the state."""
    tree = plan.tree
    if isinstance(tree, int):
        return []
    found = []
    for branch in branches(tree):
        if branch is not tree:
            without = fitter.plan(fuse(tree, branch))
            rows = fitter.model.estimates.held(port_set(ports(branch)))
            found.append(((without.cpu - plan.cpu) / rows, without))
    return found
