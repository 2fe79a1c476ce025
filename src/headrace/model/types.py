"""Our SQL types and the column types that carry them."""

from __future__ import annotations

import enum

import polars as pl


class Type(enum.Enum):
    """The type of a column or an expression."""

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


def type_of(dtype: pl.DataType) -> Type | None:
    """Return the type that holds the values of a column type, also of one that Headrace itself does not use.

    Or None.
    """
    match dtype:
        case pl.Datetime():
            return Type.TIMESTAMP
        case pl.Duration():
            return Type.INTERVAL
        case pl.Decimal():
            return Type.DOUBLE
        case pl.Int8() | pl.Int16() | pl.UInt8() | pl.UInt16():
            return Type.INT
        case pl.UInt32() | pl.UInt64():
            return Type.BIGINT
        case pl.Categorical() | pl.Enum() | pl.Null():
            return Type.STRING
        case _:
            return next((type_ for type_ in Type if dtype == type_.polars), None)


def can_cast(source: Type, target: Type) -> bool:
    """Return whether CAST knows how to turn values of one type into those of another."""
    if source in (target, Type.NULL):
        return True
    match target:
        case Type.STRING:
            return True
        case Type.BOOLEAN:
            return source is Type.STRING or source.is_numeric
        case Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE:
            return source in (Type.STRING, Type.TIMESTAMP, Type.BOOLEAN) or source.is_numeric
        case Type.TIMESTAMP:
            return source in (Type.STRING, Type.DATE) or source.is_numeric
        case Type.DATE:
            return source in (Type.STRING, Type.TIMESTAMP)
        case Type.BINARY:
            return source is Type.STRING
        case Type.INTERVAL | Type.NULL:
            return False


def common_type(left: Type, right: Type) -> Type | None:
    """Return the type that both fit into (CASE branches, UNION columns, comparisons), or None."""
    if left is right or right is Type.NULL:
        return left
    if left is Type.NULL:
        return right
    if left.is_numeric and right.is_numeric:
        if left.is_integer and right.is_integer:
            return Type.BIGINT
        return Type.DOUBLE
    if {left, right} == {Type.DATE, Type.TIMESTAMP}:
        return Type.TIMESTAMP
    return None
