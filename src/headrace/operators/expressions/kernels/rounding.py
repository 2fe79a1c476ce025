"""Rounding half away from zero, of the number as it is written.

2.675 is stored as a little less, yet rounds to 2.68: the shortest decimal text of the number counts, as in Spark.

"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import polars as pl

_EXACT = Context(prec=1100)


def round_half_away(x: pl.Expr, digits: int) -> pl.Expr:
    """Return a DOUBLE column rounded to `digits` decimals."""
    if digits <= 0:
        return x.round(0, mode="half_away_from_zero")
    return x.map_batches(lambda values: _rounded(values, digits), return_dtype=pl.Float64(), is_elementwise=True)


def _rounded(values: pl.Series, digits: int) -> pl.Series:
    numbers = values.fill_null(0.0).to_numpy()
    if digits > 22:
        result, doubtful = numbers.copy(), np.isfinite(numbers)
    else:
        power = 10.0**digits
        with np.errstate(all="ignore"):
            scaled = numbers * power
            whole = np.trunc(scaled)
            fraction = np.abs(scaled - whole)
            result = (whole + np.where(fraction >= 0.5, np.sign(scaled), 0.0)) / power
            # Near a tie the product may lie on the wrong side, and beyond 2**50 it has no room for a fraction.
            doubtful = (np.abs(fraction - 0.5) <= np.abs(scaled) * 1e-15 + 1e-300) | (np.abs(scaled) > 2.0**50)
        result = np.where(np.isfinite(numbers), result, numbers)
        doubtful &= np.isfinite(numbers)
    unit = Decimal(1).scaleb(-digits)
    for i in np.flatnonzero(doubtful):
        exact = Decimal(repr(float(numbers[i]))).quantize(unit, rounding=ROUND_HALF_UP, context=_EXACT)
        result[i] = float(exact)
    rounded = pl.Series(result)
    return rounded.set(values.is_null(), None) if values.null_count() else rounded
