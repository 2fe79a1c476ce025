"""What a kernel gets to work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from headrace.errors import InternalError, TypeFault
from headrace.model.expressions.expression import Call, columns
from headrace.model.types import Type, common_type

Value: TypeAlias = bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The compiled arguments of a call."""

    call: Call
    compiled: tuple[pl.Expr, ...]

    def __len__(self) -> int:
        return len(self.compiled)

    @property
    def types(self) -> list[Type]:
        return [arg.type for arg in self.call.args]

    def get(self, position: int, type_: Type) -> pl.Expr:
        """Return an argument, widened to a type that its own fits into."""
        compiled = self.compiled[position]
        return compiled if self.call.args[position].type is type_ else compiled.cast(type_.polars)

    def all(self, type_: Type) -> list[pl.Expr]:
        """Return every argument, widened."""
        return [self.get(i, type_) for i in range(len(self))]

    def common(self) -> list[pl.Expr]:
        """Return every argument, widened to the type that all fit into."""
        return self.all(self.common_type())

    def common_type(self) -> Type:
        widest: Type | None = Type.NULL
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
    value: Value = pl.select(compiled).to_series().to_physical().item()
    return value


def each(function: Callable[..., Any], args: Arguments, types: Sequence[Type], *, skip_null: bool = True) -> pl.Expr:
    """Apply a function of values row by row, for what the library cannot compute on columns.

    Arguments are widened to `types`, the last for all that follow. Dates are days and instants microseconds since 1970,
    in arguments and results. A row with NULL gives NULL (`skip_null`).
    """
    wanted = [types[min(i, len(types) - 1)] for i in range(len(args))]
    result = args.call.type.polars
    physical = {Type.DATE: pl.Int32(), Type.TIMESTAMP: pl.Int64()}.get(args.call.type, result)

    def apply(rows: pl.Series) -> pl.Series:
        columns = [rows.struct.field(str(i)).to_physical().to_list() for i in range(len(wanted))]
        values = [
            None if skip_null and any(value is None for value in row) else function(*row)
            for row in zip(*columns, strict=True)
        ]
        return pl.Series(values, dtype=physical).cast(result)

    columns_ = [args.get(i, type_).alias(str(i)) for i, type_ in enumerate(wanted)]
    return pl.struct(columns_).map_batches(apply, return_dtype=result, is_elementwise=True)
