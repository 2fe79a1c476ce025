"""Grids: how streams that share no key are divided among buckets so that all that can be joined meets in one of them.

Each key class of a join is a dimension, and buckets are cells. A stream has a coordinate in each dimension whose key it
has: the hash of that key. It is copied to all cells along the other dimensions. The parts of a combination agree in
every key that they share, so exactly one cell has all of them (the Shares algorithm, Afrati and Ullman 2010).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product

from msgspec import Struct

#: A grid has so many cells at most, however many buckets there are: with more of them almost all tuples are copies.
MOST_CELLS = 256


class Grid(Struct, frozen=True):
    """The inputs of a join by their weight (how many tuples come, relative to others), and those of each dimension."""

    weights: tuple[int, ...]
    dimensions: tuple[tuple[int, ...], ...]  # ports that have the key

    def sizes(self, buckets: int) -> tuple[int, ...]:
        """Return the number of cells along each dimension, for so many buckets.

        The busiest bucket decides how fast a join is. So that of all sizes is chosen with which a cell gets the fewest
        tuples; of several, the one with the fewest copies. Some buckets may have no cell.
        """
        return _sizes(self, min(buckets, MOST_CELLS))

    def copies(self, ports: Sequence[int], buckets: int) -> int:
        """Return in how many cells a combination of tuples of these ports is."""
        sizes = zip(self.sizes(buckets), self.dimensions, strict=True)
        return math.prod(size for size, having in sizes if not set(having) & set(ports))

    def once(self, counts: Sequence[int], buckets: int) -> int:
        """Return how many tuples came, given how many were taken of each port in all cells."""
        return sum(count // self.copies((port,), buckets) for port, count in enumerate(counts))

    def offsets(self, port: int, buckets: int) -> list[int]:
        """Return the cells of a tuple of a port, from the first of them on."""
        sizes = self.sizes(buckets)
        ways = [range(1) if port in having else range(s) for s, having in zip(sizes, self.dimensions, strict=True)]
        return [
            sum(place * stride for place, stride in zip(way, strides(sizes), strict=True)) for way in product(*ways)
        ]


def strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return by how much the number of a cell grows along each dimension."""
    return tuple(math.prod(sizes[place + 1 :]) for place in range(len(sizes)))


@lru_cache(maxsize=256)
def _sizes(grid: Grid, most: int) -> tuple[int, ...]:
    def load(sizes: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        sent = 0
        for port, weight in enumerate(grid.weights):
            along = zip(sizes, grid.dimensions, strict=True)
            sent += weight * math.prod(size for size, having in along if port not in having)
        return round(sent / math.prod(sizes), 9), sent, tuple(-size for size in sizes)

    return min(_divisions(most, len(grid.dimensions)), key=load)


def _divisions(most: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """Yield all sizes of a grid with at most so many cells."""
    if not dimensions:
        yield ()
        return
    for size in range(1, most + 1):
        for rest in _divisions(most // size, dimensions - 1):
            yield (size, *rest)
