"""Values of JSON are shaped as the columns of a type hold them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from headrace.model.nested_values import shaped
from headrace.model.types import DataType, DecimalType, MapType, Type


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


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        (Type.BOOLEAN, {"true": True, "false": False}),
        (Type.DOUBLE, {"1.5": 1.5, "-1e-07": -1e-7, "5e-324": 5e-324, "3": 3.0, "1e308": 1e308}),
        (Type.FLOAT, {"0.5": 0.5, "-2": -2.0}),
        (Type.BIGINT, {"-3": -3}),
        (DecimalType(5, 2), {"1.50": Decimal("1.50")}),
        (Type.DATE, {"2026-01-31": dt.date(2026, 1, 31)}),
    ],
    ids=lambda part: part.value if isinstance(part, Type | DecimalType) else "",
)
def test_keys_of_a_map_are_texts_in_json(type_: DataType, keys: dict[str, Any]) -> None:
    assert shaped(dict.fromkeys(keys, 1), MapType(type_, Type.INT)) == dict.fromkeys(keys.values(), 1)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *[(Type.BOOLEAN, text) for text in ("True", "1", "yes", "")],
        *[(Type.DOUBLE, text) for text in ("nan", "Infinity", "1e999", "1_0", " 1", "1.", "x", "\u0661", "1\n")],
        (Type.FLOAT, "3.5e38"),
    ],
)
def test_other_texts_are_no_keys(type_: DataType, text: str) -> None:
    with pytest.raises(ValueError, match=f"is not a {type_.value}"):
        shaped({text: 1}, MapType(type_, Type.INT))
