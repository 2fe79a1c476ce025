"""Logic, comparison and choice."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

import polars as pl

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel

#: Compares two columns, or a column with a constant.
Comparison: TypeAlias = Callable[[pl.Expr, pl.Expr], pl.Expr]


def _compare(operation: Comparison, mirrored: Comparison) -> Kernel:
    """Make a kernel of a comparison and of the one that says the same with its sides exchanged."""

    def kernel(args: Arguments) -> pl.Expr:
        left, right = args.common()
        # Polars 2.1 compares a constant with a column that holds one value in one row only, if the constant comes first
        constant_first = args.is_constant(0) and not args.is_constant(1)
        return (mirrored(right, left) if constant_first else operation(left, right)).cast(pl.Boolean)

    return kernel


_equal = _compare(operator.eq, operator.eq)


def _in(args: Arguments) -> pl.Expr:
    x, *others = args.common()
    if args.common_type() is Type.NULL:
        return args.null()
    if not all(args.is_constant(i) for i in range(1, len(args))):
        pairs = [(other, x) if args.is_constant(0) else (x, other) for other in others]
        return _combined([left == right for left, right in pairs], operator.or_)
    values = pl.select([other.alias(str(i)) for i, other in enumerate(others)]).unpivot()["value"]
    contained = x.is_in(values.drop_nulls().implode())
    return contained if values.null_count() == 0 else pl.when(contained).then(True)


def _first_known(args: Arguments) -> pl.Expr:
    """Return the first argument that is not NULL, as a column even where a constant decides for all rows."""
    parts = args.common()
    candidates = [parts[-1]]
    for position in range(len(args) - 2, -1, -1):
        if not args.is_constant(position):
            candidates.insert(0, parts[position])
        elif args.constant(position) is not None:
            candidates = [parts[position]]
    return _combined(candidates, pl.Expr.fill_null)


def _combined(parts: Sequence[pl.Expr], combine: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> pl.Expr:
    """Combine neighbors until one is left: Polars takes memory that grows with the square of the levels."""
    while len(parts) > 1:
        parts = [reduce(combine, parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return parts[0]


def _nullif(args: Arguments) -> pl.Expr:
    return pl.when(_equal(args).fill_null(False)).then(args.null()).otherwise(args.compiled[0])


def _greatest(args: Arguments) -> pl.Expr:
    options = args.common()
    if args.call.type not in (Type.FLOAT, Type.DOUBLE):
        return pl.max_horizontal(options)
    # NaN is the largest number, which max_horizontal passes over.
    nan = pl.lit(float("nan"), dtype=args.call.type.polars)
    return pl.when(pl.any_horizontal([x.is_nan() for x in options])).then(nan).otherwise(pl.max_horizontal(options))


def _least(args: Arguments) -> pl.Expr:
    return pl.min_horizontal(args.common())


LOGIC: dict[str, Kernel] = {
    "and": lambda args: args.get(0, Type.BOOLEAN) & args.get(1, Type.BOOLEAN),
    "or": lambda args: args.get(0, Type.BOOLEAN) | args.get(1, Type.BOOLEAN),
    "not": lambda args: ~args.get(0, Type.BOOLEAN),
    "=": _equal,
    "<>": _compare(operator.ne, operator.ne),
    "<": _compare(operator.lt, operator.gt),
    "<=": _compare(operator.le, operator.ge),
    ">": _compare(operator.gt, operator.lt),
    ">=": _compare(operator.ge, operator.le),
    "<=>": _compare(pl.Expr.eq_missing, pl.Expr.eq_missing),
    "is_null": lambda args: args.compiled[0].is_null(),
    "in": _in,
    "coalesce": _first_known,
    "nullif": _nullif,
    "greatest": _greatest,
    "least": _least,
}
