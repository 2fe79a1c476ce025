"""What a kernel gets to work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from headrace.errors import InternalError, TypeFault
from headrace.model.decimals import as_decimal
from headrace.model.expressions.expression import Call, columns
from headrace.model.types import DataType, DecimalType, Type, common_type
from headrace.operators.expressions.kernels.conversion import convert

Value: TypeAlias = bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The compiled arguments of a call."""

    call: Call
    compiled: tuple[pl.Expr, ...]

    def __len__(self) -> int:
        return len(self.compiled)

    @property
    def types(self) -> list[DataType]:
        return [arg.type for arg in self.call.args]

    def get(self, position: int, type_: DataType) -> pl.Expr:
        """Return an argument, widened to a type that its own fits into."""
        compiled, own = self.compiled[position], self.call.args[position].type
        if own == type_:
            return compiled
        if isinstance(own, DecimalType) or isinstance(type_, DecimalType):
            return convert(compiled, own, type_)
        return compiled.cast(type_.polars)

    def decimal(self, position: int) -> DecimalType:
        """Return the DECIMAL that an argument of exact arithmetic is taken for; NULL is taken for one of the others."""
        types = [as_decimal(type_) for type_ in self.types]
        own = types[position] or next((type_ for type_ in types if type_ is not None), None)
        if own is None:
            raise InternalError(f"no argument of {self.call.function!r} is exact")
        return own

    def all(self, type_: DataType) -> list[pl.Expr]:
        """Return every argument, widened."""
        return [self.get(i, type_) for i in range(len(self))]

    def common(self) -> list[pl.Expr]:
        """Return every argument, widened to the type that all fit into."""
        return self.all(self.common_type())

    def common_type(self) -> DataType:
        widest: DataType | None = Type.NULL
        for type_ in self.types:
            widest = None if widest is None else common_type(widest, type_)
        if widest is None:
            raise InternalError(
                f"arguments of {self.call.function!r} have no common type: "
                f"{', '.join(type_.value for type_ in self.types)}"
            )
        return widest

    def is_constant(self, position: int) -> bool:
        return not columns(self.call.args[position])

    def constant(self, position: int) -> Value:
        """Return the value of an argument that must not depend on the tuple."""
        if not self.is_constant(position):
            raise TypeFault(
                f"argument {position + 1} of {self.call.function} must be a constant",
                hint="write a literal, not a column",
            )
        return constant(self.compiled[position])

    def text(self, position: int) -> str | None:
        value = self.constant(position)
        return None if value is None else str(value)

    def number(self, position: int) -> int | None:
        value = self.constant(position)
        return None if value is None else int(value)

    def null(self) -> pl.Expr:
        """Return NULL for every row, where a constant argument that decides all is NULL."""
        return pl.lit(None, dtype=self.call.type.polars)


Kernel: TypeAlias = Callable[[Arguments], pl.Expr]


def constant(compiled: pl.Expr) -> Value:
    """Return the value of an expression without columns, as `Literal` writes it."""
    column = pl.select(compiled).to_series()
    value: Value = (column.cast(pl.String) if column.dtype == pl.Decimal else column.to_physical()).item()
    return value


#: A function of the values of a row, as Python has them.
Rows: TypeAlias = Callable[..., Any]


def rows(function: Rows, args: Arguments, *, skip_null: bool = True) -> pl.Expr:
    """Apply a function of values as Python has them row by row: lists, dicts, Decimals.

    Dates are days and instants microseconds since 1970, in arguments and results: Python's have fewer years. NaN is one
    object, so that it is found in a list. A row with NULL gives NULL (`skip_null`).
    """
    result = args.call.type.polars

    def apply(held: pl.Series) -> pl.Series:
        parts = [_plain(held.struct.field(str(i))) for i in range(len(args))]
        values = [
            None if skip_null and any(value is None for value in row) else function(*row)
            for row in zip(*parts, strict=True)
        ]
        return pl.Series(values, dtype=_timeless(result)).cast(result)

    named = [column.alias(str(i)) for i, column in enumerate(args.compiled)]
    return pl.struct(named).map_batches(apply, return_dtype=result, is_elementwise=True)


_NAN = float("nan")


def _plain(column: pl.Series) -> list[Any]:
    """Return values with numbers for times and one object for all NaN."""
    if isinstance(column.dtype, pl.Map) and _timeless(column.dtype.key) != column.dtype.key:
        entries = _plain(column.map.entries())  # keys cannot be cast
        return [None if held is None else {entry["key"]: entry["value"] for entry in held} for held in entries]
    values = column.cast(_timeless(column.dtype)).to_list()
    return values if column.dtype.is_integer() or column.dtype == pl.String else [_with_one_nan(v) for v in values]


def _with_one_nan(value: Any) -> Any:
    match value:
        case float():
            return value if value == value else _NAN
        case list():
            return [_with_one_nan(item) for item in value]
        case dict():
            return {_with_one_nan(key): _with_one_nan(item) for key, item in value.items()}
        case _:
            return value


def _timeless(dtype: Any) -> Any:
    """Return a column type with integers in place of times."""
    match dtype:
        case pl.Date():
            return pl.Int32()
        case pl.Datetime() | pl.Duration():
            return pl.Int64()
        case pl.List(inner=inner):
            return pl.List(_timeless(inner))
        case pl.Map(key=key, value=value):
            return pl.Map(key, _timeless(value))  # which takes numbers for keys, too
        case pl.Struct(fields=fields):
            return pl.Struct([pl.Field(field.name, _timeless(field.dtype)) for field in fields])
        case _:
            return dtype


def each(
    function: Callable[..., Any], args: Arguments, types: Sequence[DataType], *, skip_null: bool = True
) -> pl.Expr:
    """Apply a function of values row by row, for what the library cannot compute on columns.

    Arguments are widened to `types`, the last for all that follow. Dates are days and instants microseconds since 1970,
    in arguments and results. A row with NULL gives NULL (`skip_null`).
    """
    wanted = [types[min(i, len(types) - 1)] for i in range(len(args))]
    result = args.call.type.polars
    physicals: dict[DataType, pl.DataType] = {Type.DATE: pl.Int32(), Type.TIMESTAMP: pl.Int64()}
    physical = physicals.get(args.call.type, result)

    def apply(rows: pl.Series) -> pl.Series:
        columns = [rows.struct.field(str(i)).to_physical().to_list() for i in range(len(wanted))]
        values = [
            None if skip_null and any(value is None for value in row) else function(*row)
            for row in zip(*columns, strict=True)
        ]
        return pl.Series(values, dtype=physical).cast(result)

    columns_ = [args.get(i, type_).alias(str(i)) for i, type_ in enumerate(wanted)]
    return pl.struct(columns_).map_batches(apply, return_dtype=result, is_elementwise=True)
