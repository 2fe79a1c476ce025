"""Sums and means of DECIMALs, exact however the tuples are cut into partials.

Sums of values with up to 28 digits are columns of 38 digits, which ten thousand million tuples cannot fill. Longer
values are added up in two halves, so that no sum of digits leaves 128 bits.
"""

from __future__ import annotations

import polars as pl

from headrace.model.digits import digits_of, from_integers
from headrace.model.types import MOST_DIGITS, DecimalType
from headrace.model.window import AggregateCall

#: Digits of values whose sums fit into one column.
_SHORT = 28
_HALF = 10**19


def exact_sums(arg: str, type_: DecimalType) -> list[tuple[str, pl.Expr]]:
    """Return the columns in which a sum is kept, with what computes them."""
    x = pl.col(arg)
    if type_.precision <= _SHORT:
        return [(f"{arg}_exact", x.sum())]
    digits, half, whole = x.to_physical(), pl.lit(_HALF, dtype=pl.Int128), pl.Decimal(MOST_DIGITS, 0)
    return [
        (f"{arg}_exact_high", (digits // half).cast(whole).sum()),
        (f"{arg}_exact_low", (digits % half).cast(whole).sum()),
    ]


def exact_result(call: AggregateCall, names: list[str], scale: int) -> pl.Expr:
    """Return sum or mean from the count and the kept columns."""
    result = call.type
    assert isinstance(result, DecimalType)

    def apply(rows: pl.Series) -> pl.Series:
        count, *sums = (rows.struct.field(name).to_physical().to_list() for name in names)
        totals = sums[0] if len(sums) == 1 else [_joined(high, low) for high, low in zip(*sums, strict=True)]
        values = [
            None if total is None else _value(total, number, call, scale, result)
            for total, number in zip(totals, count, strict=True)
        ]
        return from_integers(values, result)

    return pl.struct(names).map_batches(apply, return_dtype=result.polars, is_elementwise=True)


def exact_of_lists(lists: pl.Expr, call: AggregateCall) -> pl.Expr:
    """Return sum or mean of lists of values; NULL of empty ones."""
    result = call.type
    source = None if call.arg is None else call.arg.type
    assert isinstance(result, DecimalType)
    assert isinstance(source, DecimalType)

    def apply(column: pl.Series) -> pl.Series:
        values = [
            _value(sum(digits_of(x, source.scale) for x in held), len(held), call, source.scale, result)
            if held is not None and len(held)
            else None
            for held in column.to_list()
        ]
        return from_integers(values, result)

    return lists.map_batches(apply, return_dtype=result.polars, is_elementwise=True)


def _joined(high: int | None, low: int | None) -> int | None:
    return None if high is None or low is None else high * _HALF + low


def _value(total: int, count: int, call: AggregateCall, scale: int, result: DecimalType) -> int | None:
    divisor = count if call.function.startswith("avg") else 1
    if divisor == 0:
        return None
    power = result.scale - scale
    top, bottom = int(total * 10 ** max(power, 0)), int(divisor * 10 ** max(-power, 0))
    whole, rest = divmod(abs(top), bottom)
    rounded = whole + (2 * rest >= bottom)
    return -rounded if top < 0 else rounded
