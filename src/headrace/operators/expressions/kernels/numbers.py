"""Arithmetic, also of time and spans."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
import polars as pl

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each
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


def _numpy(function: Callable[..., np.ndarray]) -> Kernel:
    """Make a kernel of a NumPy function of one or two DOUBLEs."""

    def apply(rows: pl.Series) -> pl.Series:
        columns = [rows.struct.field(name) for name in rows.struct.fields]
        with np.errstate(all="ignore"):
            result = pl.Series(function(*(column.fill_null(1.0).to_numpy() for column in columns)))
        for column in columns:
            result = result.set(column.is_null(), None) if column.null_count() else result
        return result

    def kernel(args: Arguments) -> pl.Expr:
        columns = [column.alias(str(i)) for i, column in enumerate(args.all(Type.DOUBLE))]
        return pl.struct(columns).map_batches(apply, return_dtype=pl.Float64(), is_elementwise=True)

    return kernel


def _log1p(args: Arguments) -> pl.Expr:
    return pl.when(args.get(0, Type.DOUBLE) > -1.0).then(_numpy(np.log1p)(args))


def _log(args: Arguments) -> pl.Expr:
    if len(args) == 1:
        return NUMBERS["ln"](args)
    base, x = args.all(Type.DOUBLE)
    quotient = _numpy(lambda b, y: np.log(y) / np.log(b))(args)
    return pl.when((base > 0.0) & (x > 0.0)).then(quotient)


def _pmod(args: Arguments) -> pl.Expr:
    remainder = _remainder(args)
    divisor = args.get(1, args.call.type)
    if args.call.type is Type.DOUBLE:
        return pl.when(divisor != 0.0).then(_numpy(_positive_remainder)(args))
    # `remainder` is above -|divisor|, so the sum with a positive divisor is the result, and with a negative one its
    # remainder is `remainder` again
    return pl.when((remainder < 0) & (divisor > 0)).then(remainder + divisor).otherwise(remainder)


def _positive_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    remainder = np.fmod(x, y)
    result: np.ndarray = np.where(remainder < 0, np.fmod(remainder + y, y), remainder)
    return result


def _factorial(args: Arguments) -> pl.Expr:
    return each(lambda n: math.factorial(n) if 0 <= n <= 20 else None, args, [Type.BIGINT])


def _bround(args: Arguments) -> pl.Expr:
    digits = 0 if len(args) == 1 else args.number(1)
    if digits is None:
        return args.null()
    if args.call.type is Type.BIGINT:
        return args.get(0, Type.BIGINT)
    unit = Decimal(1).scaleb(-digits)

    def rounded(x: float, *_: float) -> float:
        if not math.isfinite(x):
            return x
        return float(Decimal(repr(x)).quantize(unit, rounding=ROUND_HALF_EVEN, context=_EXACT))

    return each(rounded, args, [Type.DOUBLE])


def _isnan(args: Arguments) -> pl.Expr:
    return args.get(0, Type.DOUBLE).is_nan().fill_null(False)


def _nanvl(args: Arguments) -> pl.Expr:
    x, other = args.all(Type.DOUBLE)
    return pl.when(x.is_nan()).then(other).otherwise(x)


_EXACT = Context(prec=1100)

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
    "asin": _double(lambda x: x.arcsin()),
    "acos": _double(lambda x: x.arccos()),
    "atan": _double(lambda x: x.arctan()),
    "atan2": _numpy(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),  # -0.0 is 0.0, as in Spark
    "sinh": _double(lambda x: x.sinh()),
    "cosh": _double(lambda x: x.cosh()),
    "tanh": _double(lambda x: x.tanh()),
    "cot": _double(lambda x: 1.0 / x.tan()),
    "sec": _double(lambda x: 1.0 / x.cos()),
    "csc": _double(lambda x: 1.0 / x.sin()),
    "degrees": _double(lambda x: x.degrees()),
    "radians": _double(lambda x: x.radians()),
    "cbrt": _numpy(np.cbrt),
    "hypot": _numpy(np.hypot),
    "expm1": _numpy(np.expm1),
    "log1p": _log1p,
    "log": _log,
    "pmod": _pmod,
    "factorial": _factorial,
    "rint": _double(lambda x: x.round(0, mode="half_to_even")),
    "bround": _bround,
    "isnan": _isnan,
    "nanvl": _nanvl,
}
