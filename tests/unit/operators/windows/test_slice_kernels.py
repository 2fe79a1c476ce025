from __future__ import annotations

from decimal import Decimal
from typing import Literal

import numpy as np
import polars as pl
import pytest

from headrace.operators.windows.parts import Part
from headrace.operators.windows.slice_kernels import slice_values


@pytest.mark.parametrize("digits", [8, 30])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_of_decimals_in_overlapping_slices(digits: int, kind: Literal["min", "max"]) -> None:
    values = [None, Decimal("3.25"), Decimal("-1.50"), None, Decimal("9.00"), Decimal("-1.50"), None]
    rows = pl.DataFrame({"x": pl.Series(values, dtype=pl.Decimal(digits, 2))})
    pairs = [(low, high) for low in range(len(values)) for high in range(low + 1, len(values) + 1)]
    starts, stops = (np.array(ends) for ends in zip(*pairs, strict=True))
    part = Part("part", pl.col("x"), pl.col("part"), kind=kind, arg="x")
    found = slice_values(part, rows, starts, stops)
    extreme = min if kind == "min" else max
    assert found is not None
    assert found.dtype == rows["x"].dtype
    assert found.to_list() == [
        extreme((value for value in values[low:high] if value is not None), default=None) for low, high in pairs
    ]
