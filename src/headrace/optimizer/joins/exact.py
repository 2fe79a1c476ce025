"""Exact search: the Pareto front of all trees, by dynamic programming over sets of streams.

The cost of a branch depends on the port sets of its children alone. So the front of a set follows from the fronts of
its parts: every division of the set into two blocks or more is a branch, whose children take any plans of their fronts.
Cross products are included.

The number of divisions grows fast: 813 for 6 streams, 4,012 for 7, 20,891 for 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.model.join_tree import Tree
from headrace.optimizer.joins.cost import Blocks, Model, Orders, Plan, branch_of
from headrace.optimizer.joins.orders import SAME, Option, OrderSearch


@dataclass(frozen=True, slots=True)
class _Entry:
    """A plan of a set, by the plans of its blocks; trees are built at the end, for the few that are left."""

    cpu: float
    memory: float
    port: int = -1
    parts: tuple[_Entry, ...] = ()
    blocks: Blocks = ()
    orders: Orders = ()

    def tree(self) -> Tree:
        if not self.parts:
            return self.port
        return branch_of(tuple(part.tree() for part in self.parts), self.blocks, self.orders)


def exact_front(model: Model) -> tuple[Plan, ...]:
    """Return the Pareto front of all trees over the streams of a graph, from least work to least memory."""
    everything = model.graph.everything
    fronts: dict[int, list[_Entry]] = {}
    for ports in range(1, everything + 1):  # parts of a set are smaller numbers
        if not ports & (ports - 1):
            fronts[ports] = [_Entry(0.0, 0.0, port=ports.bit_length() - 1)]
            continue
        search = OrderSearch(model, ports)
        best: list[_Entry] = []
        for cpu, memory, blocks, least in _bounds(search, ports, fronts):
            if not _is_beaten(best, cpu, memory):
                best = _best([*best, *_combined(search.best(least, blocks), blocks, fronts)])
        fronts[ports] = best
    return tuple(Plan(entry.tree(), entry.cpu, entry.memory) for entry in fronts[everything])


def _bounds(
    search: OrderSearch, ports: int, fronts: dict[int, list[_Entry]]
) -> list[tuple[float, float, Blocks, Option]]:
    """Return every division of a set, with work and memory that no plan of it is below; those with least work first.

    So good plans are known early, and most divisions need no closer look.
    """
    found = []
    for blocks in divisions(ports):
        least = search.least(blocks)
        cpu = least.cpu + sum([fronts[block][0].cpu for block in blocks])
        memory = least.memory + sum([fronts[block][-1].memory for block in blocks])
        found.append((cpu, memory, blocks, least))
    return sorted(found, key=lambda bound: bound[:2])


def divisions(ports: int) -> Iterator[Blocks]:
    """Yield every way to divide a set into two blocks or more."""
    for blocks in _partitions(ports):
        if len(blocks) > 1:
            yield blocks


def count_divisions(streams: int) -> int:
    """Return how many divisions the search looks at: all divisions of all subsets."""
    bell = [1]
    for size in range(streams + 1):
        bell.append(sum(math.comb(size, part) * bell[part] for part in range(size + 1)))
    return bell[streams + 1] - (1 << streams)


def _partitions(ports: int) -> Iterator[Blocks]:
    if not ports:
        yield ()
        return
    least = ports & -ports
    others = ports ^ least
    part = others
    while True:  # all subsets of the others, each with the least port as one block
        for blocks in _partitions(others ^ part):
            yield (least | part, *blocks)
        if not part:
            return
        part = (part - 1) & others


def _is_beaten(front: list[_Entry], cpu: float, memory: float) -> bool:
    for entry in front:  # from least work to least memory
        if entry.cpu > cpu:
            return False
        if entry.memory <= memory:
            return True
    return False


def _combined(option: Option, blocks: Blocks, fronts: dict[int, list[_Entry]]) -> list[_Entry]:
    """Return a branch with all choices of plans for its blocks."""
    sums: list[tuple[float, float, tuple[_Entry, ...]]] = [(option.cpu, option.memory, ())]
    for block in blocks:
        sums = [
            (work + part.cpu, size + part.memory, (*parts, part))
            for work, size, parts in sums
            for part in fronts[block]
        ]
    return [_Entry(work, size, -1, parts, blocks, option.orders) for work, size, parts in sums]


def _best(entries: list[_Entry]) -> list[_Entry]:
    kept: list[_Entry] = []
    for entry in sorted(entries, key=lambda entry: (entry.cpu, entry.memory)):
        if not kept or entry.memory < kept[-1].memory * (1.0 - SAME):
            kept.append(entry)
    return kept
