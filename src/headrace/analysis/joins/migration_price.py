"""What a change of plan costs: work, the longest pause, and memory, for each way to make it.

States that both plans have are kept as they are. A state that is there but sorted by another key is sorted again. All
others are joined from the states of their parts.

    at once        work `build`, which is also the pause
    stepwise       work `build`, and the upkeep of states that are not used yet; the pause is a portion
    two tracks     at least `build`, and both plans for the longest window; no pause
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headrace.model.join_tree import Tree, branches, late_ports, ports
from headrace.operators.multijoin.seen import How
from headrace.optimizer.joins.cost import Model, blocks_of
from headrace.optimizer.joins.join_graph import members, port_set

#: How long a micro-batch may last longer because of a portion, if nothing is promised and nobody says otherwise.
PORTION = 0.05  # seconds
#: A portion builds at least so many rows, so that a change ends.
LEAST_ROWS = 1000


class Price(Struct, frozen=True):
    """The price of a change: rows and bytes to build, seconds of work in all, and the pause in the slowest bucket."""

    rows: float = 0.0
    bytes: float = 0.0
    build: float = 0.0
    pause: float = 0.0


class Way(Struct, frozen=True):
    """One way to make a change: seconds of work, the pause in a micro-batch, and the rows of a portion if stepwise."""

    how: How
    work: float
    pause: float
    portion: int = 0


def price_of(model: Model, old: Tree, new: Tree, *, buckets: int = 1) -> Price:
    """Return what it takes to fill the states of a new tree from those of the old one."""
    have, wanted = states(model, old), states(model, new)
    estimates, costs = model.testing_late(late_ports(new)).estimates, model.costs
    rows = size = work = 0.0
    for state, key in wanted.items():
        if have.get(state) == key:
            continue
        count = estimates.held(state) * estimates.copies(state)
        width = costs.row + estimates.width(state)
        is_stream = not state & (state - 1)
        work += count * (costs.store + width * (costs.stored_byte if is_stream else costs.derived_byte))
        if state not in have:
            parts = _parts(new, state)
            searching = min(estimates.held(part) * estimates.copies(part) for part in parts)
            work += searching * costs.search + count * (costs.match + costs.candidate)
            rows, size = rows + count, size + count * width
    return Price(rows, size, work, work / max(1, buckets))


def ways(
    model: Model, old: Tree, new: Tree, price: Price, *, buckets: int, window: float | None, portion: float = PORTION
) -> tuple[Way, ...]:
    """Return the ways to change a plan; `window` is the longest one in seconds, None if one has no end.

    `portion` is how much longer a micro-batch may take for a stepwise change.
    """
    estimates, costs = model.testing_late(late_ports(new)).estimates, model.costs
    have, wanted = states(model, old), states(model, new)
    missing = [state for state in wanted if state not in have]
    upkeep = sum(estimates.rate(state) * estimates.copies(state) for state in missing) * costs.store
    portions = max(1.0, price.pause / portion) if portion > 0 else 1.0
    per_row = price.pause * max(1, buckets) / price.rows if price.rows else 0.0
    rows = max(LEAST_ROWS, round(portion / per_row)) if per_row else 0
    found = [
        Way("moving", price.build, price.pause),
        Way("stepwise", price.build + upkeep * portions * (1.0 + portion), min(price.pause, portion), rows),
    ]
    if window is not None:
        before, after = model.plan(old).cpu, model.plan(new).cpu
        found.append(Way("parallel", price.build + max(0.0, window * (before - after)), 0.0))
    return tuple(found)


def states(model: Model, tree: Tree) -> Mapping[int, int]:
    """Return the states of a tree, as port sets, with the key classes by which each is searched, as bits."""
    found: dict[int, int] = {}
    for branch in branches(tree):
        blocks = blocks_of(branch)
        orders = tuple(tuple(blocks[other] for other in branch.order(place)) for place in range(len(blocks)))
        found |= model.keys(blocks, orders)
    return found


def _parts(tree: Tree, state: int) -> tuple[int, ...]:
    """Return the states from which a state of a tree is joined."""
    for branch in branches(tree):
        if port_set(ports(branch)) == state:
            return blocks_of(branch)
    return tuple(1 << port for port in members(state))
