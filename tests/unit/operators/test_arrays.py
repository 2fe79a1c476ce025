"""Orders of numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.arrays import matches, stable_order, starts_of

NEAR, FAR = st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)


@given(st.lists(NEAR | st.integers(2**40, 2**40 + 2**17) | FAR))
def test_equal_numbers_stay_in_their_order(numbers: list[int]) -> None:
    expected = sorted(range(len(numbers)), key=lambda place: numbers[place])
    assert stable_order(np.array(numbers, np.int64)).tolist() == expected


@pytest.mark.parametrize("span", [2**16 - 1, 2**16, 2**32 - 1, 2**32])
@pytest.mark.parametrize("low", [0, -7, -(2**63), 2**63 - 1 - 2**32])
def test_numbers_at_the_limits_of_what_is_sorted_by_digits(span: int, low: int) -> None:
    numbers = np.array([low + span, low, low + span, low + span // 2, low], np.int64)
    assert stable_order(numbers).tolist() == [1, 4, 3, 0, 2]


def test_numbers_without_a_sign_are_ordered_too() -> None:
    assert stable_order(np.array([2**64 - 1, 2**64 - 2], np.uint64)).tolist() == [1, 0]


@given(st.lists(NEAR | FAR), st.lists(NEAR) | st.lists(FAR), st.integers(-(2**62), 2**62))
def test_numbers_are_found_among_keys_whether_or_not_it_is_known_where_each_begins(
    needles: list[int], keys: list[int], shift: int
) -> None:
    keys = sorted(key + shift if abs(key) < 10 else key for key in keys)
    needles = [number + shift if abs(number) < 10 else number for number in needles]
    expected = [(i, j) for i, number in enumerate(needles) for j, key in enumerate(keys) if key == number]
    ours, theirs = np.array(needles, np.int64), np.array(keys, np.int64)
    for starts in (None, starts_of(theirs)):
        pairs = [pair for first, second in matches(ours, theirs, starts) for pair in zip(first, second, strict=True)]
        assert pairs == expected


def test_where_numbers_begin_is_known_only_of_keys_that_lie_close_together() -> None:
    assert starts_of(np.array([], np.int64)) is None
    assert starts_of(np.array([-(2**63), 2**63 - 1], np.int64)) is None
    assert starts_of(np.array([2**63 - 2, 2**63 - 1], np.int64)) is not None
    assert starts_of(np.array([0, 16], np.int64)) is None
