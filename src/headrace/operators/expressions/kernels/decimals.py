"""Exact arithmetic of DECIMALs, on columns of 128-bit integers: the digits of a value without its point.

A product or a shifted dividend may need more than 128 bits. The largest values of a page say whether that can happen;
only then the page is computed with Python's integers. Results round half away from zero; what needs more digits than
the type has becomes NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl

from headrace.model.digits import (
    SAFE,
    WIDE,
    from_integers,
    largest,
    opposite,
    quotient,
    rescaled,
    shifted,
    ten,
    to_column,
    to_digits,
)
from headrace.model.types import DecimalType
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel

#: Computes digits from digits: exactly, or NULL.
Exact: TypeAlias = Callable[[int, int], int | None]


def _divided(x: int, y: int) -> int | None:
    if y == 0:
        return None
    whole, rest = divmod(abs(x), abs(y))
    rounded = whole + (2 * rest >= abs(y))
    return -rounded if (x < 0) != (y < 0) else rounded


def _remainder(x: int, y: int) -> int | None:
    return None if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)


def _pmod(x: int, y: int) -> int | None:
    rest = _remainder(x, y)
    return rest if rest is None or rest >= 0 or y < 0 else rest + y


def _moved(value: int, power: int) -> int:
    if power >= 0:
        return int(value * 10**power)
    moved = _divided(value, 10**-power)
    assert moved is not None
    return moved


def _binary(args: Arguments, compute: Callable[[DecimalType, DecimalType], _Plan]) -> pl.Expr:
    """Compute a result of two DECIMALs, with columns if its digits are sure to fit into 128 bits."""
    left, right = (args.decimal(i) for i in (0, 1))
    result = args.call.type
    assert isinstance(result, DecimalType)
    plan = compute(left, right)

    def apply(rows: pl.Series) -> pl.Series:
        x, y = (to_digits(rows.struct.field(name)).rename(name) for name in ("x", "y"))
        if plan.reach(largest(x), largest(y)) < SAFE:
            return to_column(pl.DataFrame([x, y]).select(plan.columns(pl.col("x"), pl.col("y"))).to_series(), result)
        pairs = zip(x.to_list(), y.to_list(), strict=True)
        return from_integers([None if a is None or b is None else plan.exact(a, b) for a, b in pairs], result)

    columns = [args.get(0, left).alias("x"), args.get(1, right).alias("y")]
    return pl.struct(columns).map_batches(apply, return_dtype=result.polars, is_elementwise=True)


class _Plan:
    """How one operation computes digits: on columns, on Python's integers, and how large its steps may become."""

    def __init__(
        self,
        columns: Callable[[pl.Expr, pl.Expr], pl.Expr],
        exact: Exact,
        reach: Callable[[int, int], int],
    ) -> None:
        self.columns = columns
        self.exact = exact
        self.reach = reach


def _added(x: pl.Expr, y: pl.Expr, sign: int) -> pl.Expr:
    return x + y if sign > 0 else x - y


def _sum(sign: int) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        def plan(left: DecimalType, right: DecimalType) -> _Plan:
            scale = max(left.scale, right.scale)
            up_left, up_right, down = scale - left.scale, scale - right.scale, _scale(args) - scale
            return _Plan(
                lambda x, y: shifted(_added(shifted(x, up_left), shifted(y, up_right), sign), down),
                lambda x, y: _moved(x * 10**up_left + sign * y * 10**up_right, down),
                lambda x, y: x * 10**up_left + y * 10**up_right,
            )

        return _binary(args, plan)

    return kernel


def _product(args: Arguments) -> pl.Expr:
    def plan(left: DecimalType, right: DecimalType) -> _Plan:
        power = _scale(args) - left.scale - right.scale
        return _Plan(
            lambda x, y: shifted(x * y, power), lambda x, y: _moved(x * y, power), lambda x, y: (x + 1) * (y + 1)
        )

    return _binary(args, plan)


def _ratio(args: Arguments) -> pl.Expr:
    def plan(left: DecimalType, right: DecimalType) -> _Plan:
        power = _scale(args) - left.scale + right.scale
        up, down = max(power, 0), max(-power, 0)
        return _Plan(
            lambda x, y: quotient(shifted(x, up), shifted(y, down)),
            lambda x, y: _divided(x * 10**up, y * 10**down),
            lambda x, y: max(x * 10**up, y * 10**down),
        )

    return _binary(args, plan)


def _rest(exact: Exact, columns: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        def plan(left: DecimalType, right: DecimalType) -> _Plan:
            scale = max(left.scale, right.scale)
            up_left, up_right, down = scale - left.scale, scale - right.scale, _scale(args) - scale

            def on_integers(x: int, y: int) -> int | None:
                rest = exact(x * 10**up_left, y * 10**up_right)
                return None if rest is None else _moved(rest, down)

            return _Plan(
                lambda x, y: shifted(columns(shifted(x, up_left), shifted(y, up_right)), down),
                on_integers,
                lambda x, y: max(x * 10**up_left, y * 10**up_right) * 2,
            )

        return _binary(args, plan)

    return kernel


def _signed_rest(x: pl.Expr, y: pl.Expr) -> pl.Expr:
    rest = x.abs() - x.abs() // y.abs() * y.abs()
    return pl.when(x < 0).then(opposite(rest)).otherwise(rest)


def _positive_rest(x: pl.Expr, y: pl.Expr) -> pl.Expr:
    rest = _signed_rest(x, y)
    return pl.when((rest < 0) & (y > 0)).then(rest + y).otherwise(rest)


def _scale(args: Arguments) -> int:
    assert isinstance(args.call.type, DecimalType)
    return args.call.type.scale


def _unary(args: Arguments, compute: Callable[[pl.Series, DecimalType, DecimalType], pl.Series]) -> pl.Expr:
    source, result = args.decimal(0), args.call.type
    assert isinstance(result, DecimalType)

    def apply(column: pl.Series) -> pl.Series:
        return compute(to_digits(column).rename("x"), source, result)

    return args.get(0, source).map_batches(apply, return_dtype=result.polars, is_elementwise=True)


def _direct(columns: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    """Make a kernel of what works on digits as they are."""
    return lambda args: _unary(
        args, lambda x, _, result: to_column(x.to_frame().select(columns(pl.col("x"))).to_series(), result)
    )


def _whole(up: bool) -> Kernel:
    """Make floor (or ceil if `up`): the rest is taken away from digits, so nothing rounds."""

    def compute(x: pl.Series, source: DecimalType, result: DecimalType) -> pl.Series:
        unit = ten(source.scale)
        floored = pl.col("x") // unit
        whole = floored + (floored * unit != pl.col("x")).cast(WIDE) if up else floored
        return to_column(x.to_frame().select(whole).to_series(), result)

    return lambda args: _unary(args, compute)


def _rounded(args: Arguments) -> pl.Expr:
    digits = 0 if len(args) == 1 else args.number(1)
    if digits is None:
        return args.null()

    def compute(x: pl.Series, source: DecimalType, result: DecimalType) -> pl.Series:
        # with fewer digits than the point needs, the value gets zeros before it
        power = min(digits, source.scale) - source.scale
        rounded = x.to_frame().select(shifted(pl.col("x"), power)).to_series()
        return rescaled(rounded, min(digits, source.scale), result)

    return _unary(args, compute)


def _bankers(args: Arguments) -> pl.Expr:
    digits = 0 if len(args) == 1 else args.number(1)
    if digits is None:
        return args.null()

    def compute(x: pl.Series, source: DecimalType, result: DecimalType) -> pl.Series:
        unit = int(10 ** (source.scale - min(digits, source.scale)))

        def even(value: int) -> int:
            whole, rest = divmod(value, unit)
            return whole + (2 * rest > unit or (2 * rest == unit and whole % 2 == 1))

        values = [None if value is None else even(value) for value in x.to_list()]
        up = result.scale - min(digits, source.scale)
        return from_integers([None if value is None else value * 10**up for value in values], result)

    return _unary(args, compute)


#: Kernels of the functions whose result is a DECIMAL of their own.
DECIMALS: dict[str, Kernel] = {
    "+": _sum(1),
    "-": _sum(-1),
    "*": _product,
    "/": _ratio,
    "%": _rest(_remainder, _signed_rest),
    "pmod": _rest(_pmod, _positive_rest),
    "neg": _direct(opposite),
    "abs": _direct(lambda x: x.abs()),
    "floor": _whole(up=False),
    "ceil": _whole(up=True),
    "round": _rounded,
    "bround": _bankers,
}
