"""The work of a page and of a tuple, told apart from the counters of micro-batches."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from headrace.control.service_line import ServiceLine

PAGE, TUPLE = 2e-3, 1e-6


def line(*batches: tuple[int, int]) -> ServiceLine:
    """The line through micro-batches of so many pages and tuples."""
    known = [ServiceLine.of(pages, tuples, PAGE * pages + TUPLE * tuples) for pages, tuples in batches]
    return reduce(ServiceLine.plus, known)


def test_the_work_of_pages_and_tuples_is_told_apart() -> None:
    chance = random.Random(7)
    batches = [(chance.randint(1, 20), chance.randint(100, 20_000)) for _ in range(20)]
    assert line(*batches).parts() == pytest.approx((PAGE, TUPLE), rel=1e-6)


def test_small_pages_do_not_make_tuples_expensive() -> None:
    small = [(10, 10 * size) for size in (100, 20, 5, 2)]
    per_page, per_tuple = line((4, 20_000), (5, 20_000), *small * 5).parts()
    assert (per_page, per_tuple) == pytest.approx((PAGE, TUPLE), rel=0.01)


@pytest.mark.parametrize("batches", [[(1, 1000)], [(2, 2000)] * 5, [(1, 1)]])
def test_pages_that_are_all_alike_tell_the_sum_only(batches: list[tuple[int, int]]) -> None:
    per_page, per_tuple = line(*batches).parts()
    pages, tuples = batches[0]
    assert per_page * pages + per_tuple * tuples == pytest.approx(PAGE * pages + TUPLE * tuples)
    assert per_page > 0 < per_tuple


def test_nothing_is_known_of_nothing() -> None:
    assert ServiceLine().parts() == (0.0, 0.0)
    assert ServiceLine.of(0, 0, 0.1).parts() == (0.0, 0.0)


def test_no_part_is_negative_whatever_is_measured() -> None:
    chance = random.Random(11)
    for _ in range(200):
        noisy = [
            ServiceLine.of(chance.randint(1, 50), chance.randint(1, 5000), chance.expovariate(100)) for _ in range(10)
        ]
        per_page, per_tuple = reduce(ServiceLine.plus, noisy).parts()
        assert per_page >= 0 < per_tuple
