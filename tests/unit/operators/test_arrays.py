"""Orders of numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.arrays import stable_order

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
