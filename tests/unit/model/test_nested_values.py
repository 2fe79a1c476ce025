"""Values of JSON are shaped as the columns of a type hold them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from headrace.model.nested_values import shaped
from headrace.model.types import Type


@pytest.mark.parametrize(("type_", "bits"), [(Type.INT, 32), (Type.BIGINT, 64)])
def test_the_smallest_and_greatest_integers_fit(type_: Type, bits: int) -> None:
    for value in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
        assert shaped(value, type_) == value
    for value in (-(2 ** (bits - 1)) - 1, 2 ** (bits - 1)):
        with pytest.raises(ValueError, match=f"{value} is not an {type_.value}|{value} is not a {type_.value}"):
            shaped(value, type_)


@pytest.mark.parametrize("value", [2**63, -(2**63), "300000000 days"])
def test_an_interval_beyond_64_bits_does_not_fit(value: Any) -> None:
    assert shaped(2**63 - 1, Type.INTERVAL) == dt.timedelta(microseconds=2**63 - 1)
    with pytest.raises(ValueError, match="an INTERVAL has no"):
        shaped(value, Type.INTERVAL)
