"""Scalar functions that users write in Python, run on columns.

A function of rows gets the values of one tuple; a vectorized one gets a column for each argument and returns a column
of the same length. If an argument is NULL the result is NULL: rows are not called for it, and of a vectorized function
the result is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import polars as pl
import pyarrow as pa

from headrace.errors import OperatorFault, found_in
from headrace.model.expressions.expression import Call
from headrace.model.python_function import Style, parse_function
from headrace.model.python_target import RAISED, text_of
from headrace.model.types import ArrayType, DataType, MapType, StructType, Type, is_nested

_HINT = "the module must be importable on every worker"


def compile_call(call: Call, args: Sequence[pl.Expr]) -> pl.Expr:
    """Return the column expression of a call."""
    names = [f"a{i}" for i in range(len(args))]

    def run(columns: pl.Series) -> pl.Series:
        return apply(call.function, [columns.struct.field(name) for name in names], call.type)

    fields = pl.struct([arg.alias(name) for arg, name in zip(args, names, strict=True)])
    return fields.map_batches(run, return_dtype=call.type.polars, is_elementwise=True)


def apply(function: str, args: Sequence[pl.Series], type_: DataType) -> pl.Series:
    """Call a user's function for all rows of its arguments."""
    style, code = load(function)
    shown = str(parse_function(function)[1])
    known = pl.Series([True] * len(args[0]))
    for arg in args:
        known &= arg.is_not_null()
    try:
        values = _CALLS[style](code, args, known)
    except OperatorFault:
        raise
    except RAISED as error:  # the user's code may raise anything
        raise OperatorFault(
            f"the function '{shown}' failed: {text_of(error)}", hint="see the function's own code"
        ) from error
    try:
        result = _column(values, type_)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise OperatorFault(
            f"the function '{shown}' gave a value that is no {type_.value}: {found_in(error)}",
            hint="return a value of the declared type, or None",
        ) from error
    if len(result) != len(args[0]):
        raise OperatorFault(
            f"the function '{shown}' gave {len(result)} values for {len(args[0])} rows",
            hint="a vectorized function returns a value for each row",
        )
    return result if known.all() else pl.select(pl.when(known).then(result)).to_series()


@lru_cache(maxsize=1024)
def load(function: str) -> tuple[Style, Callable[..., Any]]:
    """Import a user's function."""
    style, target = parse_function(function)
    return style, target.load("the function", error=OperatorFault, hint=_HINT)


def _column(values: list[Any] | pl.Series, type_: DataType) -> pl.Series:
    """Return values as a column of the declared type; a fraction is not cut off to fit an integer."""
    column = values if isinstance(values, pl.Series) else pl.Series(values, dtype=type_.polars)
    known = column.drop_nulls()
    if len(known) and not _is_kin(column.dtype, type_):
        raise TypeError(repr(known[0]))
    if type_.is_integer and len(known) and not column.dtype.is_integer():
        wrong = known.filter(known != known.floor())
        if len(wrong):
            raise TypeError(repr(wrong[0]))
    return column.cast(type_.polars)


def _is_kin(dtype: pl.DataType, type_: DataType) -> bool:
    """Say whether a column of this kind may be meant for a type: another unit, width or zone, but not a text of it."""
    if dtype == type_.polars or dtype == pl.Null:
        return True
    if is_nested(type_):
        return _has_kin(dtype, type_)
    if type_.is_numeric:
        return dtype.is_numeric()
    if type_ is Type.STRING:
        return dtype in (pl.Categorical, pl.Enum)
    if type_ in (Type.TIMESTAMP, Type.DATE):
        return isinstance(dtype, pl.Datetime | pl.Date)
    return type_ is Type.INTERVAL and isinstance(dtype, pl.Duration)


def _has_kin(dtype: pl.DataType, type_: DataType) -> bool:
    """Say the same of what is in an ARRAY or STRUCT; of a MAP, the library knows no other kinds."""
    match type_, dtype:
        case ArrayType(element=element), pl.List(inner=inner) | pl.Array(inner=inner):
            return _is_kin(cast("pl.DataType", inner), element)
        case StructType(fields=fields), pl.Struct(fields=own):
            kinds = dict(fields)
            return all(
                _is_kin(cast("pl.DataType", field.dtype), kinds[field.name]) for field in own if field.name in kinds
            )
        case MapType(), _:
            return dtype.is_nested()
        case _:
            return False


def _by_row(code: Callable[..., Any], args: Sequence[pl.Series], known: pl.Series) -> list[Any]:
    rows = zip(*(arg.to_list() for arg in args), strict=True)
    return [code(*row) if is_known else None for row, is_known in zip(rows, known.to_list(), strict=True)]


def _by_series(code: Callable[..., Any], args: Sequence[pl.Series], known: pl.Series) -> pl.Series:
    result = code(*args)
    if not isinstance(result, pl.Series):
        raise TypeError(f"it returned {type(result).__name__} instead of polars.Series")
    return result


def _by_array(code: Callable[..., Any], args: Sequence[pl.Series], known: pl.Series) -> pl.Series:
    result = code(*(arg.to_arrow() for arg in args))
    if not isinstance(result, pa.Array | pa.ChunkedArray):
        raise TypeError(f"it returned {type(result).__name__} instead of pyarrow.Array")
    column = pl.from_arrow(result)
    assert isinstance(column, pl.Series)
    return column


_CALLS: dict[Style, Callable[[Callable[..., Any], Sequence[pl.Series], pl.Series], list[Any] | pl.Series]] = {
    "rows": _by_row,
    "polars": _by_series,
    "arrow": _by_array,
}
