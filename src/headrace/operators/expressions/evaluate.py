"""Compile expressions to column expressions, and run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache, reduce

import polars as pl

from headrace.errors import InternalError
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Lambda, Literal, columns, walk
from headrace.model.python_function import is_python_function
from headrace.model.types import DataType, DecimalType, Type, is_nested
from headrace.operators.expressions.kernels import DECIMALS, KERNELS, REPEATING, Arguments, constant, convert
from headrace.operators.expressions.kernels.arguments import Value
from headrace.operators.expressions.kernels.higher import kernels
from headrace.operators.expressions.kernels.sizes import with_limit
from headrace.operators.expressions.user_functions import compile_call

#: To look for common parts of expressions takes 0.03 ms; otherwise Polars runs them as they are.
SHARING = pl.QueryOptFlags.none()
SHARING.comm_subexpr_elim = True
#: So many branches of a CASE are nested in each other.
_NESTED = 32


@lru_cache(maxsize=8192)
def compile_expr(expr: Expr) -> pl.Expr:
    """Return the column expression that computes `expr`; its dtype is exactly `expr.type.polars`."""
    match expr:
        case Column(name=name):
            return pl.col(name)
        case Literal(value=value, type=type_):
            return _constant(value, type_)
        case Cast(arg=arg, type=type_):
            compiled = convert(compile_expr(arg), arg.type, type_)
        case Case():
            compiled = _case(expr)
        case Call():
            compiled = _call(expr)
        case Lambda():
            return pl.lit(None)  # its call computes it
    # A constant is computed once, here; this also spares the kernels columns of length one.
    if columns(expr):
        return compiled
    if is_nested(expr.type):
        return pl.lit(pl.select(compiled).to_series()).first()
    return _constant(constant(compiled), expr.type)


def compile_predicate(expr: Expr) -> pl.Expr:
    """Return the column expression of a condition: NULL counts as false."""
    return _widen(expr, Type.BOOLEAN).fill_null(False)


def reads_texts_twice(exprs: Sequence[Expr]) -> bool:
    """Return whether several calls read the same text, so that they may have work in common."""
    read = Counter(
        call.args[0]
        for expr in exprs
        for call in walk(expr)
        if isinstance(call, Call) and call.args and call.args[0].type is Type.STRING and columns(call.args[0])
    )
    return any(count > 1 for count in read.values())


def select_sharing(frame: pl.DataFrame, exprs: Sequence[pl.Expr]) -> pl.DataFrame:
    """Return columns that are computed of a frame; what several of them have in common is computed once."""
    return frame.lazy().select(exprs).collect(optimizations=SHARING)


def evaluate(frame: pl.DataFrame, exprs: Sequence[Expr]) -> list[pl.Series]:
    """Return one column for each expression, as long as the frame."""
    if not exprs:
        return []
    if all(isinstance(expr, Column) for expr in exprs):
        return [frame[expr.name] for expr in exprs if isinstance(expr, Column)]
    if frame.width == 0:
        return [pl.Series(str(i), [], dtype=expr.type.polars) for i, expr in enumerate(exprs)]
    # Not select, which would give constants the length one.
    names = [f"__e{i}" for i in range(len(exprs))]
    wide = frame.with_columns([compile_expr(expr).alias(name) for name, expr in zip(names, exprs, strict=True)])
    return [wide[name] for name in names]


def _call(call: Call) -> pl.Expr:
    if is_python_function(call.function):
        return compile_call(call, [compile_expr(arg) for arg in call.args])
    if call.function not in KERNELS and call.function not in _HIGHER:
        raise InternalError(f"no kernel for function {call.function!r}")
    exact = DECIMALS.get(call.function) if isinstance(call.type, DecimalType) else None
    kernel = exact or KERNELS.get(call.function) or _HIGHER[call.function]
    compiled = tuple(compile_expr(arg) for arg in call.args)
    if call.function not in REPEATING or not any(columns(arg) and not isinstance(arg, Column) for arg in call.args):
        return with_limit(call, kernel(Arguments(call, compiled)))
    # The kernel reads an argument more than once, and the library would compute it as often, at every level of nesting
    # again. The fields of a struct are computed once.
    fields = {
        f"a{i}": column.alias(f"a{i}")
        for i, (arg, column) in enumerate(zip(call.args, compiled, strict=True))
        if columns(arg)
    }
    bound = tuple(pl.field(f"a{i}") if f"a{i}" in fields else column for i, column in enumerate(compiled))
    computed = (
        pl.struct(list(fields.values()))
        .struct.with_fields(kernel(Arguments(call, bound)).alias("result"))
        .struct.field("result")
    )
    return with_limit(call, computed)


def _case(expr: Case) -> pl.Expr:
    default = pl.lit(None, dtype=expr.type.polars) if expr.default is None else _widen(expr.default, expr.type)
    branches = [(_widen(when, Type.BOOLEAN), _widen(then, expr.type)) for when, then in expr.branches]
    return _choose(branches, default, pl.lit(None, dtype=expr.type.polars))


def _choose(branches: Sequence[tuple[pl.Expr, pl.Expr]], default: pl.Expr, nothing: pl.Expr) -> pl.Expr:
    """Return the value of the first branch whose condition holds.

    Each branch is a level of nesting, for which Polars takes memory that grows with the square of the levels. Many
    branches are therefore groups of branches.
    """
    if len(branches) > _NESTED:
        size = -(-len(branches) // _NESTED)
        groups = [branches[at : at + size] for at in range(0, len(branches), size)]
        branches = [
            (pl.any_horizontal([condition for condition, _ in group]), _choose(group, nothing, nothing))
            for group in groups
        ]
    return reduce(lambda rest, branch: pl.when(branch[0]).then(branch[1]).otherwise(rest), reversed(branches), default)


def _widen(expr: Expr, type_: DataType) -> pl.Expr:
    if expr.type == type_:
        return compile_expr(expr)
    if isinstance(type_, DecimalType):
        return convert(compile_expr(expr), expr.type, type_)
    return compile_expr(expr).cast(type_.polars)


def _constant(value: Value, type_: DataType) -> pl.Expr:
    if isinstance(type_, DecimalType) and isinstance(value, str):
        return pl.lit(pl.Series([Decimal(value)], dtype=type_.polars)).first()
    return pl.lit(value, dtype=type_.polars)


def _body(function: Lambda, frame: pl.DataFrame) -> pl.Series:
    return evaluate(frame, [function.body])[0].cast(function.type.polars)


_HIGHER = kernels(_body)
