"""The cost of join trees: processor time per second, and memory.

A branch with children X1..Xm costs, for each child Xi whose rows search the others in some order:

    CPU = R(Xi) * (store + bytes)  +  sum over steps of  rows * (search + candidates + matches)
    MEM = N(Xi) * bytes

Each quantity has its price in `Costs`. R and N are those of `Estimates`. Rows grow along the order by the matches of
each step. The state of a child is sorted by one key: the classes that all rows have which search it. Rows that agree in
this key are candidates; the other classes are tested like conditions. Nobody stores the output of the root.

In a grid, a combination that lacks the key of a dimension is stored in all cells along it, and searches in all of them.
What it finds there differs from cell to cell.

A condition on one stream that takes long is tested on its tuples, or late, on results. Late, the join stores and finds
what does not pass as well.

The published model is the special case `UNIT`: it charges every tuple that is stored and every match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from headrace.model.join_tree import Branch, Tree, late_ports, ports
from headrace.optimizer.joins.join_graph import TINY, Estimates, JoinGraph, port_set


class Costs(Struct, frozen=True):
    """The price of each thing that a join does, in seconds, and the size of a stored row beside its columns."""

    store: float  # a row into a state, and out of it again
    search: float = 0.0  # for each row that searches a state
    candidate: float = 0.0  # for each row that has the same keys
    match: float = 0.0  # for each combination that meets all conditions
    step: float = 0.0  # for each search of a page, however small
    stored_byte: float = 0.0  # of a state of a stream that goes to the state store
    derived_byte: float = 0.0  # of an intermediate state
    row: float = 1.0  # bytes


#: The published model: insert, delete and match cost 1, and memory is counted in tuples.
UNIT = Costs(store=2.0, match=1.0)
#: The same for nested loops: every pair that is compared costs 1.
PROBED = Costs(store=2.0, candidate=1.0)

#: Disjoint sets of ports: the children of a branch.
Blocks: TypeAlias = tuple[int, ...]
#: For each child, the others in the order in which its rows search them.
Orders: TypeAlias = tuple[Blocks, ...]


class Plan(Struct, frozen=True):
    """A tree with its cost: seconds of work per second, and bytes of state."""

    tree: Tree
    cpu: float
    memory: float


class Model:
    """The cost of branches and trees over one join graph."""

    def __init__(self, graph: JoinGraph, costs: Costs) -> None:
        self.graph = graph
        self.costs = costs
        self.estimates = Estimates(graph)
        self._steps: dict[tuple[int, int, int], float] = {}
        self._kept: dict[int, tuple[float, float]] = {}
        self._late: dict[tuple[int, ...], Model] = {}
        self._base = self

    def testing_late(self, late: tuple[int, ...]) -> Model:
        """Return the model of trees that test the conditions of these ports on results, without these tests."""
        base = self._base
        if not base.graph.conditions:
            return base
        if late not in base._late:
            base._late[late] = model = Model(base.graph.testing_late(late), base.costs)
            model._base = base
        return base._late[late]

    def testing(self, late: tuple[int, ...]) -> float:
        """Return the work per second of the conditions, if those of these ports are tested on results."""
        conditions = self._base.graph.conditions
        if not conditions:
            return 0.0
        estimates = self.testing_late(late).estimates
        work, results = 0.0, estimates.rate(self.graph.everything)
        for condition in conditions:
            share = max(condition.selectivity, TINY)
            if condition.port in late:
                work += results * condition.price
                results *= share
            else:
                work += self._base.graph.streams[condition.port].rate / share * condition.price
        return work

    def step(self, rows: int, other: int, key: int) -> float:
        """Return the work of all combinations that are held of `rows` if each of them searches `other` by a key."""
        if (value := self._steps.get((rows, other, key))) is None:
            of, costs = self.estimates, self.costs
            found = of.matches(rows, other) * costs.match + of.candidates(rows, other, key) * costs.candidate
            work = of.copies(rows) * costs.search + of.copies(rows | other) * found
            value = self._steps[rows, other, key] = of.held(rows) * work
        return value

    def searching(self, block: int, order: Blocks, keys: Mapping[int, int]) -> float:
        """Return the work per second of the searches that new rows of one child start."""
        rows, work = block, 0.0
        for other in order:
            work += self.step(rows, other, keys[other])
            rows |= other
        return self.starting(block, work, len(order))

    def starting(self, block: int, work: float, steps: int) -> float:
        """Return the work per second of new rows, given that of all rows of the child that are held."""
        new_share = self.estimates.rate(block) / self.estimates.held(block)
        return new_share * work + self.estimates.pages(block) * steps * self.costs.step

    def keeping(self, block: int) -> tuple[float, float]:
        """Return the work per second and the memory of the state of one child."""
        if (value := self._kept.get(block)) is None:
            of, costs = self.estimates, self.costs
            size = costs.row + of.width(block)
            is_stream = not block & (block - 1)
            work = costs.store + size * (costs.stored_byte if is_stream else costs.derived_byte)
            copies = of.copies(block)
            value = self._kept[block] = of.rate(block) * copies * work, of.held(block) * copies * size
        return value

    def keys(self, blocks: Blocks, orders: Orders) -> dict[int, int]:
        """Return the key by which each child is searched: the classes, as bits, that all searching rows have."""
        keys = {block: self.estimates.classes_of(block) for block in blocks}
        for block, order in zip(blocks, orders, strict=True):
            rows = block
            for other in order:
                keys[other] &= self.estimates.classes_of(rows)
                rows |= other
        return keys

    def branch(self, blocks: Blocks, orders: Orders) -> tuple[float, float]:
        """Return the work per second and the memory of one branch, without its children's own."""
        keys = self.keys(blocks, orders)
        cpu = sum(self.searching(block, order, keys) for block, order in zip(blocks, orders, strict=True))
        memory = 0.0
        for block in blocks:
            work, size = self.keeping(block)
            cpu, memory = cpu + work, memory + size
        return cpu, memory

    def plan(self, tree: Tree) -> Plan:
        """Return the tree with its cost; it searches in the orders that it states."""
        late = late_ports(tree)
        cpu, memory = self.testing_late(late)._cost(tree)
        return Plan(tree, cpu + self.testing(late), memory)

    def _cost(self, tree: Tree) -> tuple[float, float]:
        if isinstance(tree, int):
            return 0.0, 0.0
        blocks = blocks_of(tree)
        orders = tuple(tuple(blocks[other] for other in tree.order(place)) for place in range(len(blocks)))
        cpu, memory = self.branch(blocks, orders)
        for child in tree.children:
            work, size = self._cost(child)
            cpu, memory = cpu + work, memory + size
        return cpu, memory


def branch_of(children: tuple[Tree, ...], blocks: Blocks, orders: Orders) -> Branch:
    """Return the branch of these children, whose port sets are the blocks, with search orders by place."""
    place = {block: number for number, block in enumerate(blocks)}
    return Branch(children, tuple(tuple(place[other] for other in order) for order in orders))


def blocks_of(branch: Branch) -> Blocks:
    """Return the port sets of the children of a branch."""
    return tuple(port_set(ports(child)) for child in branch.children)
