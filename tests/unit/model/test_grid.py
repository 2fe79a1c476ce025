"""Grids: sizes, copies, and that each combination meets in one cell."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest

from headrace.model.grid import MOST_CELLS, Grid, strides

CHAIN = Grid((1, 1, 1), ((0, 1), (1, 2)))
TRIANGLE = Grid((1, 1, 1), ((0, 1), (1, 2), (0, 2)))
PAIRS = Grid((1, 1, 1, 1), ((0, 1), (2, 3)))


@pytest.mark.parametrize(
    ("grid", "buckets", "sizes"),
    [
        (CHAIN, 1, (1, 1)),
        (CHAIN, 2, (2, 1)),
        (CHAIN, 3, (3, 1)),
        (CHAIN, 4, (2, 2)),
        (CHAIN, 5, (2, 2)),  # five in a row would copy more
        (CHAIN, 6, (3, 2)),
        (Grid((1, 8, 8), CHAIN.dimensions), 4, (1, 4)),  # tuples of the first are few: all of them go everywhere
        (Grid((8, 8, 1), CHAIN.dimensions), 4, (4, 1)),
        (TRIANGLE, 8, (2, 2, 2)),
    ],
)
def test_sizes_leave_the_fewest_tuples_for_a_cell(grid: Grid, buckets: int, sizes: tuple[int, ...]) -> None:
    assert grid.sizes(buckets) == sizes


def test_a_grid_has_no_more_cells_than_buckets_and_than_the_limit() -> None:
    for grid, buckets in product((CHAIN, TRIANGLE, PAIRS), range(1, 30)):
        assert math.prod(grid.sizes(buckets)) <= buckets
    assert math.prod(CHAIN.sizes(10_000)) <= MOST_CELLS


@pytest.mark.parametrize("grid", [CHAIN, TRIANGLE, PAIRS])
@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 6, 8])
def test_each_combination_meets_in_exactly_one_cell(grid: Grid, buckets: int) -> None:
    sizes, ports = grid.sizes(buckets), range(len(grid.weights))
    for coordinates in product(*map(range, sizes)):
        places = zip(coordinates, strides(sizes), grid.dimensions, strict=True)
        parts = [(place * stride, having) for place, stride, having in places]
        cells = []
        for port in ports:
            first = sum(place for place, having in parts if port in having)
            cells.append({first + offset for offset in grid.offsets(port, buckets)})
            assert len(cells[-1]) == grid.copies((port,), buckets)
        assert len(set.intersection(*cells)) == 1
        for pair in combinations(ports, 2):
            assert len(cells[pair[0]] & cells[pair[1]]) == grid.copies(pair, buckets)


def test_a_copied_tuple_counts_once() -> None:
    assert CHAIN.once((20, 7, 12), 4) == 10 + 7 + 6
