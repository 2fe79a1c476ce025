"""Search orders: in which order new rows of each child of a branch search the others.

Up to `EXACT` children the order of each child is a shortest path over sets of children: the work of a step depends on
which children were searched before, not on their order. For more children the order comes
from the Ibaraki-Kameda algorithm, which is optimal if the join graph is a tree and one tuple costs what it matches.
A graph with cycles is first reduced to a spanning tree of least pair sizes; cross products, as edges of selectivity 1,
may help or harm, so both are tried, and the cheaper is taken for each child.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from headrace.optimizer.joins.cost import Blocks, Model, Orders

#: The largest number of children whose orders are found exactly.
EXACT = 8
#: The largest number of children whose keys are all tried together.
TOGETHER = 3
#: Costs that differ by less are equal: sums in another order are rounded differently.
SAME = 1e-12


@dataclass(frozen=True, slots=True)
class Option:
    """Orders of the children of a branch, and what the branch costs with them."""

    orders: Orders
    cpu: float
    memory: float


class OrderSearch:
    """The best orders of all branches over one set of ports; they have their last steps in common."""

    def __init__(self, model: Model, whole: int) -> None:
        self._model = model
        self._whole = whole
        self._last_steps: dict[Blocks, tuple[float, Blocks]] = {(): (0.0, ())}

    def least(self, blocks: Blocks) -> Option:
        """Return the orders with least work if every search could use all classes that it has in common with a child.

        No orders cost less. They cost just that if every child is searched by one key.
        """
        model, cpu, memory, orders = self._model, 0.0, 0.0, []
        for place, block in enumerate(blocks):
            work, order = self._remaining(blocks[:place] + blocks[place + 1 :])
            orders.append(order)
            store, size = model.keeping(block)
            cpu += model.starting(block, work, len(order)) + store
            memory += size
        return Option(tuple(orders), cpu, memory)

    def best(self, least: Option, blocks: Blocks) -> Option:
        """Return orders of little work, given those of `least`.

        The state of a child is sorted by one key, so orders of different children affect each other. From the orders
        that would be best without that, or the published ones, the keys of one child are changed as long as that saves
        work; of few children, then those of two and three at once.
        """
        model = self._model
        if not model.graph.classes:
            return least
        best = Option(least.orders, *model.branch(blocks, least.orders))
        if best.cpu <= least.cpu * (1 + SAME):
            return best
        most = len(blocks) if len(blocks) <= TOGETHER else 1
        if len(blocks) > TOGETHER:
            published = published_orders(model, blocks)
            best = min(best, Option(published, *model.branch(blocks, published)), key=lambda option: option.cpu)
        within, at_once = _Within(model, blocks), 1
        while at_once <= most and best.cpu > least.cpu * (1 + SAME):
            better = within.changed(best, at_once)
            if better is not None and better.cpu < best.cpu * (1 - SAME):
                best, at_once = better, 1
            else:
                at_once += 1
        return best

    def _remaining(self, others: Blocks) -> tuple[float, Blocks]:
        """Return work and order of the last steps; the rows that search have all other children already."""
        last = self._last_steps.get(others)
        if last is None:
            rows = self._whole
            for other in others:
                rows ^= other
            step, shared, least = self._model.step, self._model.estimates.shared, math.inf
            for place, other in enumerate(others):
                rest = self._remaining(others[:place] + others[place + 1 :])
                work = step(rows, other, shared(rows, other)) + rest[0]
                if work < least:
                    least, last = work, (work, (other, *rest[1]))
            assert last is not None  # work is finite
            self._last_steps[others] = last
        return last


def best_orders(model: Model, blocks: Blocks) -> Orders:
    """Return for each child the order with least work: exactly for few children, else by Ibaraki and Kameda."""
    if len(blocks) > EXACT:
        return published_orders(model, blocks)
    search = OrderSearch(model, sum(blocks))
    return search.best(search.least(blocks), blocks).orders


def published_orders(model: Model, blocks: Blocks) -> Orders:
    """Return for each child the cheapest order of the published algorithms, as if its rows could use all keys."""
    candidates = (ibaraki_kameda(model, blocks), ibaraki_kameda(model, blocks, cross=True), greedy(model, blocks))
    orders = tuple(
        min((orders[place] for orders in candidates), key=lambda order: _searching(model, block, order))
        for place, block in enumerate(blocks)
    )
    return min((orders, *candidates), key=lambda orders: model.branch(blocks, orders)[0])


def greedy(model: Model, blocks: Blocks) -> Orders:
    """Return for each child the order that takes the linked child with the fewest matches next."""
    of, orders = model.estimates, []
    for block in blocks:
        rows, order, others = block, list[int](), [other for other in blocks if other != block]
        while others:
            following = min(others, key=lambda other: (not of.related(rows, other), of.matches(rows, other)))
            others.remove(following)
            order.append(following)
            rows |= following
        orders.append(tuple(order))
    return tuple(orders)


def ibaraki_kameda(model: Model, blocks: Blocks, *, cross: bool = False) -> Orders:
    """Return for each child the order of least matches along a spanning tree of the join graph."""
    neighbors = _spanning_tree(model, blocks, cross=cross)
    orders = []
    for root in blocks:
        chains = [_chain(model, neighbors, child, root) for child in neighbors[root]]
        orders.append(tuple(block for module in _merge(chains) for block in module.blocks))
    return tuple(orders)


def _searching(model: Model, block: int, order: Blocks) -> float:
    """Return the work of an order whose every step uses all classes that it can."""
    keys, rows = {}, block
    for other in order:
        keys[other] = model.estimates.shared(rows, other)
        rows |= other
    return model.searching(block, order, keys)


class _Within:
    """Orders of one branch whose searches use given keys; sets of its children are ints with a bit for each place."""

    def __init__(self, model: Model, blocks: Blocks) -> None:
        self._model, self._blocks = model, blocks
        self._everything = everything = (1 << len(blocks)) - 1
        whole, of = sum(blocks), model.estimates
        #: For each set of children that are still to be searched: the rows that search, the classes that they lack, and
        #: for each child its place, the set without it, and the work of searching it, by key.
        self._searching: list[tuple[int, int, list[tuple[int, int, dict[int, float]]]]] = []
        for rest in range(everything):
            places = [place for place in range(len(blocks)) if rest >> place & 1]
            rows = whole - sum([blocks[place] for place in places])
            self._searching.append((rows, ~of.classes_of(rows), [(place, rest ^ 1 << place, {}) for place in places]))
        self._common = [of.shared(block, whole ^ block) for block in blocks]
        self._work: dict[tuple[int, ...], float] = {}  # of keys that were tried

    def changed(self, option: Option, at_once: int) -> Option | None:
        """Return the best orders with other keys for so many children; None if there are none."""
        known = self._model.keys(self._blocks, option.orders)
        keys = tuple(known[block] for block in self._blocks)
        best, least = keys, self._least(keys)
        for places in combinations(range(len(keys)), at_once):
            for others in product(*(_subsets(self._common[place]) for place in places)):
                trial = list(keys)
                for place, key in zip(places, others, strict=True):
                    trial[place] = key
                if (work := self._least(tuple(trial))) < least:
                    best, least = tuple(trial), work
        if math.isinf(least):
            return None
        following = self._steps(best)[1]
        orders = tuple(self._order(place, following) for place in range(len(keys)))
        return Option(orders, *self._model.branch(self._blocks, orders))

    def _least(self, keys: tuple[int, ...]) -> float:
        """Return the least work of searches by these keys, infinite if there are no orders that allow them."""
        if (total := self._work.get(keys)) is None:
            work, steps, starting = self._steps(keys)[0], len(keys) - 1, self._model.starting
            total = 0.0
            for place, block in enumerate(self._blocks):
                rest = work[self._everything ^ 1 << place]
                total += math.inf if math.isinf(rest) else starting(block, rest, steps)
            self._work[keys] = total
        return total

    def _steps(self, keys: tuple[int, ...]) -> tuple[list[float], list[int]]:
        """Return for each set of children that are still to be searched the least work, and which comes first."""
        work, following = [0.0], [0]
        for rows, lacking, children in self._searching[1:]:
            least, first = math.inf, 0
            for place, rest, costs in children:
                key, total = keys[place], work[rest]
                if total < least and not key & lacking:
                    cost = costs.get(key)
                    if cost is None:
                        cost = costs[key] = self._model.step(rows, self._blocks[place], key)
                    total += cost
                    if total < least:
                        least, first = total, place
            work.append(least)
            following.append(first)
        return work, following

    def _order(self, place: int, following: list[int]) -> Blocks:
        order, rest = [], self._everything ^ 1 << place
        while rest:
            order.append(self._blocks[following[rest]])
            rest ^= 1 << following[rest]
        return tuple(order)


def _subsets(bits: int) -> Iterator[int]:
    part = bits
    while True:
        yield part
        if not part:
            return
        part = (part - 1) & bits


@dataclass(frozen=True, slots=True)
class _Module:
    """Children that follow each other, with T (growth of the rows) and C (cost) of the sequence."""

    blocks: Blocks
    growth: float
    cost: float

    @property
    def rank(self) -> float:
        return (self.growth - 1.0) / self.cost

    def fused(self, following: _Module) -> _Module:
        cost = self.cost + self.growth * following.cost
        return _Module(self.blocks + following.blocks, self.growth * following.growth, cost)


def _chain(model: Model, neighbors: Mapping[int, list[int]], block: int, parent: int) -> list[_Module]:
    """Return the modules of a subtree by increasing rank; a child whose rank is too high is fused with what follows."""
    below = _merge(_chain(model, neighbors, child, block) for child in neighbors[block] if child != parent)
    growth = model.estimates.matches(parent, block)
    chain = [_Module((block,), growth, growth), *below]
    while len(chain) > 1 and chain[0].rank > chain[1].rank:
        chain[:2] = [chain[0].fused(chain[1])]
    return chain


def _merge(chains: Iterable[list[_Module]]) -> list[_Module]:
    return sorted((module for chain in chains for module in chain), key=lambda module: module.rank)


def _spanning_tree(model: Model, blocks: Blocks, *, cross: bool) -> dict[int, list[int]]:
    """Return the neighbors of each child in the spanning tree of least pair sizes (Prim).

    Edges without a condition are used only if cross products are asked for, or if nothing else links the parts.
    """
    neighbors: dict[int, list[int]] = {block: [] for block in blocks}
    inside, outside = [blocks[0]], list(blocks[1:])

    def edges() -> Iterator[tuple[bool, float, int, int]]:
        for near in inside:
            for far in outside:
                linked = cross or model.estimates.related(near, far)
                yield not linked, model.estimates.held(near | far), near, far

    while outside:
        _, _, near, far = min(edges())
        neighbors[near].append(far)
        neighbors[far].append(near)
        inside.append(far)
        outside.remove(far)
    return neighbors
