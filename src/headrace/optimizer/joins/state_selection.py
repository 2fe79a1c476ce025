"""State-Selection: from the MJoin to trees that keep intermediate states (the published MJoin-Init).

Each round joins two children of the root in a branch of their own, whose output becomes a state: memory is spent to
save work. The pair is the one that stands next to each other in most search orders, for the size of its state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.model.join_tree import Branch, flat
from headrace.optimizer.joins.cost import Model, Orders, Plan, blocks_of
from headrace.optimizer.joins.fitting import Fitter, fuse
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.orders import published_orders


def state_selection(model: Model, limits: Limits) -> tuple[Plan, ...]:
    """Return the plans on the way from the MJoin to the first that keeps the limits, each with less work.

    The last is the answer of the published algorithm. It may exceed the limits: then no pair helped any more, or the
    next plan would have needed too much memory.
    """
    fitter = Fitter(model, published_orders)
    path = [fitter.plan(flat(len(model.graph.streams)))]
    while path[-1].cpu > limits.cpu and path[-1].memory < limits.memory:
        following = next((plan for plan in _selected(fitter, path[-1]) if plan.cpu < path[-1].cpu), None)
        if following is None or following.memory > limits.memory:
            break
        path.append(following)
    return tuple(path)


def adjacent(blocks: tuple[int, ...], orders: Orders) -> Counter[tuple[int, int]]:
    """Return for each pair of children in how many search orders one follows the other."""
    pairs: Counter[tuple[int, int]] = Counter()
    for block, order in zip(blocks, orders, strict=True):
        previous = block
        for other in order:
            pairs[min(previous, other), max(previous, other)] += 1
            previous = other
    return pairs


def _selected(fitter: Fitter, plan: Plan) -> Iterator[Plan]:
    """Yield the plans in which one more pair of the root's children has a state, the most promising first."""
    root, estimates = plan.tree, fitter.model.estimates
    if isinstance(root, int) or len(root.children) < 3:
        return
    blocks = blocks_of(root)
    frequencies = adjacent(blocks, fitter.branch(blocks)[0])
    child_of = dict(zip(blocks, root.children, strict=True))
    linked = [pair for pair in frequencies if estimates.related(*pair)]
    for one, other in sorted(linked, key=lambda pair: (-frequencies[pair] / estimates.held(sum(pair)), pair)):
        pair = Branch((child_of[one], child_of[other]))
        rest = tuple(child for block, child in child_of.items() if block not in (one, other))
        yield _fused(fitter, Branch((pair, *rest)), pair)


def _fused(fitter: Fitter, tree: Branch, pair: Branch) -> Plan:
    """Return the plan, with branches below the new pair as part of it if that saves both work and memory."""
    plan = fitter.plan(tree)
    for child in pair.children:
        if isinstance(child, Branch):
            wider = fuse(pair, child)
            candidate = fitter.plan(Branch((wider, *tree.children[1:])))
            if candidate.cpu < plan.cpu and candidate.memory < plan.memory:
                plan, pair = candidate, wider
    return plan
