"""Comparisons of DECIMALs that no DECIMAL holds both of: of what is before the point, then of what is after it.

DECIMAL(38, 0) and DECIMAL(10, 2) would need 40 digits. With 38, one of them is rounded, and 0.45 is equal to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from headrace.model.decimals import as_decimal
from headrace.model.expressions.expression import Case, Cast, Expr, Literal
from headrace.model.types import DataType, DecimalType, Type, common_type

#: Applies a function to arguments.
Apply = Callable[[str, tuple[Expr, ...]], Expr]


def compared(function: str, args: Sequence[Expr], apply: Apply) -> Expr | None:
    """Return a comparison, IN or nullif, without loss; None if the arguments have a DECIMAL that holds them all."""
    if len(args) < 2 or not _loses(args):
        return None
    first, second = args[0], args[1]
    match function:
        case "in":
            return reduce(lambda left, right: apply("or", (left, right)), [apply("=", (first, x)) for x in args[1:]])
        case "nullif":
            return Case(((apply("=", (first, second)), Literal(None, first.type)),), first, first.type)
        case "<>":
            return apply("not", (apply("=", (first, second)),))
        case "<=>":
            missing = [apply("is_null", (x,)) for x in (first, second)]
            return apply("coalesce", (apply("=", (first, second)), apply("and", (missing[0], missing[1]))))
        case "=" | "<" | "<=" | ">" | ">=":
            wholes = apply("floor", (first,)), apply("floor", (second,))
            scale = max(known.scale for x in args if (known := as_decimal(x.type)) is not None)
            rests = apply(function, (_rest(first, scale, apply), _rest(second, scale, apply)))
            equal = apply("=", wholes)
            both = apply("and", (equal, rests))
            return both if function == "=" else apply("or", (apply(function[0], wholes), both))
        case _:
            return None


def _rest(x: Expr, scale: int, apply: Apply) -> Expr:
    """Return x - floor(x), which is below 1, with so many digits after the point."""
    return Cast(apply("pmod", (x, Literal("1", DecimalType(1, 0)))), DecimalType(scale, scale))


def _loses(args: Sequence[Expr]) -> bool:
    """Say whether a DECIMAL with digits after the point has more of them than the type that all fit into."""
    common: DataType | None = Type.NULL
    for x in args:
        common = None if common is None else common_type(common, x.type)
    own = [as_decimal(x.type) for x in args if x.type is not Type.NULL]
    return isinstance(common, DecimalType) and any(x is not None and x.scale > common.scale for x in own)
