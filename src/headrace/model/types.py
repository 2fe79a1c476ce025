"""Our SQL types and the column types that carry them."""

from __future__ import annotations

import enum
from typing import TypeAlias

import polars as pl
from msgspec import Struct

#: Digits that a DECIMAL may have.
MOST_DIGITS = 38


class Type(enum.Enum):
    """A type without parameters."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"  # 32 bits
    BIGINT = "BIGINT"  # 64 bits
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"  # microseconds, UTC, kept without zone
    INTERVAL = "INTERVAL"  # a span of microseconds
    BINARY = "BINARY"
    NULL = "NULL"  # of the bare literal NULL; fits everywhere

    @property
    def polars(self) -> pl.DataType:
        """Return the column type that carries values of this type."""
        return _POLARS[self]

    @property
    def is_integer(self) -> bool:
        return self in (Type.INT, Type.BIGINT)

    @property
    def is_numeric(self) -> bool:
        return self in (Type.INT, Type.BIGINT, Type.FLOAT, Type.DOUBLE)


class DecimalType(Struct, frozen=True, tag_field="type", tag="decimal"):
    """Exact numbers with `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    @property
    def value(self) -> str:
        """Return the type as SQL writes it."""
        return f"DECIMAL({self.precision},{self.scale})"

    @property
    def polars(self) -> pl.DataType:
        return pl.Decimal(self.precision, self.scale)

    @property
    def is_integer(self) -> bool:
        return False

    @property
    def is_numeric(self) -> bool:
        return True


#: The type of a column or an expression.
DataType: TypeAlias = Type | DecimalType

_POLARS: dict[Type, pl.DataType] = {
    Type.BOOLEAN: pl.Boolean(),
    Type.INT: pl.Int32(),
    Type.BIGINT: pl.Int64(),
    Type.FLOAT: pl.Float32(),
    Type.DOUBLE: pl.Float64(),
    Type.STRING: pl.String(),
    Type.DATE: pl.Date(),
    Type.TIMESTAMP: pl.Datetime("us"),
    Type.INTERVAL: pl.Duration("us"),
    Type.BINARY: pl.Binary(),
    Type.NULL: pl.Null(),
}


def type_of(dtype: pl.DataType) -> DataType | None:
    """Return the type that holds the values of a column type, also of one that Headrace itself does not use.

    Or None.
    """
    match dtype:
        case pl.Datetime():
            return Type.TIMESTAMP
        case pl.Duration():
            return Type.INTERVAL
        case pl.Decimal():
            return DecimalType(dtype.precision or MOST_DIGITS, dtype.scale)
        case pl.Int8() | pl.Int16() | pl.UInt8() | pl.UInt16():
            return Type.INT
        case pl.UInt32() | pl.UInt64():
            return Type.BIGINT
        case pl.Categorical() | pl.Enum() | pl.Null():
            return Type.STRING
        case _:
            return next((type_ for type_ in Type if dtype == type_.polars), None)


def can_cast(source: DataType, target: DataType) -> bool:
    """Return whether CAST knows how to turn values of one type into those of another."""
    if source == target or source is Type.NULL:
        return True
    match target:
        case Type.STRING:
            return True
        case Type.BOOLEAN:
            return source is Type.STRING or source.is_numeric
        case Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE | DecimalType():
            return source in (Type.STRING, Type.TIMESTAMP, Type.BOOLEAN) or source.is_numeric
        case Type.TIMESTAMP:
            return source in (Type.STRING, Type.DATE) or source.is_numeric
        case Type.DATE:
            return source in (Type.STRING, Type.TIMESTAMP)
        case Type.BINARY:
            return source is Type.STRING
        case Type.INTERVAL | Type.NULL:
            return False


def bounded(precision: int, scale: int) -> DecimalType:
    """Return a DECIMAL with at most as many digits as there may be."""
    return DecimalType(min(precision, MOST_DIGITS), min(scale, MOST_DIGITS))


def common_type(left: DataType, right: DataType) -> DataType | None:
    """Return the type that both fit into (CASE branches, UNION columns, comparisons), or None."""
    if left == right or right is Type.NULL:
        return left
    if left is Type.NULL:
        return right
    if left.is_numeric and right.is_numeric:
        if left.is_integer and right.is_integer:
            return Type.BIGINT
        if (wider := _wider(left, right)) is not None:
            return wider
        return Type.DOUBLE
    if {left, right} == {Type.DATE, Type.TIMESTAMP}:
        return Type.TIMESTAMP
    return None


def _wider(left: DataType, right: DataType) -> DecimalType | None:
    """Return the DECIMAL that holds the values of both; None unless both are exact and one is a DECIMAL."""
    digits = {Type.INT: (10, 0), Type.BIGINT: (20, 0)}
    places = [
        (type_.precision, type_.scale) if isinstance(type_, DecimalType) else digits.get(type_)
        for type_ in (left, right)
    ]
    first, second = places
    if first is None or second is None:
        return None
    scale = max(first[1], second[1])
    return bounded(max(first[0] - first[1], second[0] - second[1]) + scale, scale)
