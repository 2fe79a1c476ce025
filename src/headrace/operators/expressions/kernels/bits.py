"""The bits of integers, 64 of them, in two's complement."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each


def _bitwise(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.get(0, Type.BIGINT), args.get(1, Type.BIGINT))


def _shifted(shift: Callable[[int, int], int]) -> Kernel:
    return lambda args: each(lambda x, n: _signed(shift(x, n % 64)), args, [Type.BIGINT])


def _signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _hex(args: Arguments) -> pl.Expr:
    if args.types[0] in (Type.STRING, Type.BINARY):
        return args.get(0, Type.BINARY).bin.encode("hex").str.to_uppercase()
    return each(lambda x: f"{x % 2**64:X}", args, [Type.BIGINT])


BITS: dict[str, Kernel] = {
    "&": _bitwise(lambda x, y: x & y),
    "|": _bitwise(lambda x, y: x | y),
    "^": _bitwise(lambda x, y: x ^ y),
    "~": lambda args: ~args.get(0, Type.BIGINT),
    "shiftleft": _shifted(lambda x, n: x << n),
    "shiftright": _shifted(lambda x, n: x >> n),
    "shiftrightunsigned": _shifted(lambda x, n: x % 2**64 >> n),
    "bit_count": lambda args: args.get(0, Type.BIGINT).bitwise_count_ones().cast(pl.Int64),
    "hex": _hex,
    "bin": lambda args: each(lambda x: f"{x % 2**64:b}", args, [Type.BIGINT]),
}
