"""Logic, comparison and choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import polars as pl

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel


def _compare(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        left, right = args.common()
        return operation(left, right).cast(pl.Boolean)

    return kernel


def _in(args: Arguments) -> pl.Expr:
    x, *others = args.common()
    if args.common_type() is Type.NULL:
        return args.null()
    if not all(args.is_constant(i) for i in range(1, len(args))):
        return reduce(lambda left, right: left | right, [x == other for other in others])
    values = pl.select([other.alias(str(i)) for i, other in enumerate(others)]).unpivot()["value"]
    found = x.is_in(values.drop_nulls().implode())
    return found if values.null_count() == 0 else pl.when(found).then(True)


def _first_known(args: Arguments) -> pl.Expr:
    """Return the first argument that is not NULL, as a column even where a constant decides for all rows."""
    parts = args.common()
    found = parts[-1]
    for position in range(len(args) - 2, -1, -1):
        if not args.is_constant(position):
            found = parts[position].fill_null(found)
        elif args.constant(position) is not None:
            found = parts[position]
    return found


def _nullif(args: Arguments) -> pl.Expr:
    left, right = args.common()
    return pl.when((left == right).fill_null(False)).then(args.null()).otherwise(args.compiled[0])


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
    "=": _compare(lambda left, right: left == right),
    "<>": _compare(lambda left, right: left != right),
    "<": _compare(lambda left, right: left < right),
    "<=": _compare(lambda left, right: left <= right),
    ">": _compare(lambda left, right: left > right),
    ">=": _compare(lambda left, right: left >= right),
    "<=>": _compare(lambda left, right: left.eq_missing(right)),
    "is_null": lambda args: args.compiled[0].is_null(),
    "in": _in,
    "coalesce": _first_known,
    "nullif": _nullif,
    "greatest": _greatest,
    "least": _least,
}
