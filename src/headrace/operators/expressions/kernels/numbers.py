"""Arithmetic, also of time and spans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel
from headrace.operators.expressions.kernels.rounding import round_half_away


def _arithmetic(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        if args.call.type in (Type.BIGINT, Type.DOUBLE):
            left, right = args.all(args.call.type)
            return operation(left, right)
        # Time: a DATE counts as its midnight.
        left, right = (
            args.get(i, Type.TIMESTAMP if type_ is Type.DATE else type_) for i, type_ in enumerate(args.types)
        )
        return operation(left, right).cast(args.call.type.polars)

    return kernel


def _divide(args: Arguments) -> pl.Expr:
    left, right = args.all(Type.DOUBLE)
    return pl.when(right != 0.0).then(left / right)


def _remainder(args: Arguments) -> pl.Expr:
    left, right = args.all(args.call.type)
    if args.call.type is Type.DOUBLE:
        return pl.struct(x=left, y=right).map_batches(_fmod, return_dtype=pl.Float64(), is_elementwise=True)
    floored = left % right  # NULL for a zero divisor; has the sign of the divisor
    return pl.when((floored != 0) & ((left < 0) != (right < 0))).then(floored - right).otherwise(floored)


def _fmod(pair: pl.Series) -> pl.Series:
    left, right = pair.struct.field("x"), pair.struct.field("y")
    right = right.set(right == 0.0, None)
    with np.errstate(all="ignore"):
        result = pl.Series(np.fmod(left.fill_null(0.0).to_numpy(), right.fill_null(1.0).to_numpy()))
    return result.set(left.is_null() | right.is_null(), None) if left.null_count() or right.null_count() else result


def _div(args: Arguments) -> pl.Expr:
    left, right = args.all(Type.BIGINT)
    floored = left // right
    return pl.when((left % right != 0) & ((left < 0) != (right < 0))).then(floored + 1).otherwise(floored)


def _same(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.get(0, args.call.type))


def _double(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.get(0, Type.DOUBLE))


def _whole(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        if args.types[0].is_integer:
            return args.get(0, Type.BIGINT)
        return operation(args.get(0, Type.DOUBLE)).cast(pl.Int64, strict=False)

    return kernel


def _round(args: Arguments) -> pl.Expr:
    digits = 0 if len(args) == 1 else args.number(1)
    if digits is None:
        return args.null()
    return (
        args.get(0, Type.BIGINT) if args.call.type is Type.BIGINT else round_half_away(args.get(0, Type.DOUBLE), digits)
    )


def _logarithm(function: np.ufunc) -> Kernel:
    # NumPy's are exact at powers of the base, where a quotient of natural logarithms is not.
    def logarithm(values: pl.Series) -> pl.Series:
        result = pl.Series(function(values.fill_null(1.0).to_numpy()))
        return result.set(values.is_null(), None) if values.null_count() else result

    def kernel(args: Arguments) -> pl.Expr:
        x = args.get(0, Type.DOUBLE)
        return pl.when(x > 0.0).then(x).map_batches(logarithm, return_dtype=pl.Float64(), is_elementwise=True)

    return kernel


NUMBERS: dict[str, Kernel] = {
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _divide,
    "%": _remainder,
    "div": _div,
    "neg": _same(lambda x: -x),
    "abs": _same(lambda x: x.abs()),
    "sign": _double(lambda x: x.sign()),
    "round": _round,
    "floor": _whole(lambda x: x.floor()),
    "ceil": _whole(lambda x: x.ceil()),
    "sqrt": _double(lambda x: x.sqrt()),
    "exp": _double(lambda x: x.exp()),
    "ln": _logarithm(np.log),
    "log10": _logarithm(np.log10),
    "log2": _logarithm(np.log2),
    "pow": lambda args: args.get(0, Type.DOUBLE) ** args.get(1, Type.DOUBLE),
    "sin": _double(lambda x: x.sin()),
    "cos": _double(lambda x: x.cos()),
    "tan": _double(lambda x: x.tan()),
}
