"""What a kernel gets to work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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
