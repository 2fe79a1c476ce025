"""Our SQL types and the column types that carry them."""

from __future__ import annotations

import enum
from typing import TypeAlias

import polars as pl
from msgspec import Struct, field

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


class _Nested(Struct, frozen=True):
    """What types that hold several values have in common."""

    @property
    def is_integer(self) -> bool:
        return False

    @property
    def is_numeric(self) -> bool:
        return False


class ArrayType(_Nested, frozen=True, tag_field="type", tag="array"):
    """Lists of values."""

    element: DataType

    @property
    def value(self) -> str:
        """Return the type as SQL writes it."""
        return f"ARRAY<{self.element.value}>"

    @property
    def polars(self) -> pl.DataType:
        return pl.List(self.element.polars)


class MapType(_Nested, frozen=True, tag_field="type", tag="map"):
    """Values by key."""

    key: DataType
    of: DataType = field(name="value")

    @property
    def value(self) -> str:
        """Return the type as SQL writes it."""
        return f"MAP<{self.key.value}, {self.of.value}>"

    @property
    def polars(self) -> pl.DataType:
        return pl.Map(self.key.polars, self.of.polars)


class StructType(_Nested, frozen=True, tag_field="type", tag="struct"):
    """Named fields."""

    fields: tuple[tuple[str, DataType], ...]

    @property
    def value(self) -> str:
        """Return the type as SQL writes it."""
        return f"STRUCT<{', '.join(f'{name}: {type_.value}' for name, type_ in self.fields)}>"

    @property
    def polars(self) -> pl.DataType:
        return pl.Struct({name: type_.polars for name, type_ in self.fields})

    def find(self, name: str) -> tuple[str, DataType] | None:
        """Return a field by its name, whatever the case."""
        exact = [known for known in self.fields if known[0] == name]
        return next(iter(exact or [known for known in self.fields if known[0].lower() == name.lower()]), None)


#: The type of a column or an expression.
DataType: TypeAlias = Type | DecimalType | ArrayType | MapType | StructType

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
        case pl.List() | pl.Array():
            element = type_of(dtype.inner)  # type: ignore[arg-type]
            return None if element is None else ArrayType(element)
        case pl.Map():
            key, of = type_of(dtype.key), type_of(dtype.value)  # type: ignore[arg-type]
            return None if key is None or of is None else MapType(key, of)
        case pl.Struct():
            fields = [(known.name, type_of(known.dtype)) for known in dtype.fields]  # type: ignore[arg-type]
            return (
                StructType(tuple((name, t) for name, t in fields if t is not None))
                if all(t is not None for _, t in fields)
                else None
            )
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
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return can_cast(source.element, target.element)
    if is_nested(source) or is_nested(target):
        return False
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
        case Type.INTERVAL | Type.NULL | ArrayType() | MapType() | StructType():
            return False


def is_nested(type_: DataType) -> bool:
    """Return whether values of a type hold several values."""
    return isinstance(type_, ArrayType | MapType | StructType)


def has_map(type_: DataType) -> bool:
    """Return whether a value may hold a MAP, which has no order and cannot be compared."""
    match type_:
        case MapType():
            return True
        case ArrayType(element=element):
            return has_map(element)
        case StructType(fields=fields):
            return any(has_map(part) for _, part in fields)
        case _:
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
        (type_.precision, type_.scale)
        if isinstance(type_, DecimalType)
        else digits.get(type_)
        if isinstance(type_, Type)
        else None
        for type_ in (left, right)
    ]
    first, second = places
    if first is None or second is None:
        return None
    # as in Spark, digits after the point give way: a value may be rounded, but none is lost
    whole, scale = max(first[0] - first[1], second[0] - second[1]), max(first[1], second[1])
    return DecimalType(min(whole + scale, MOST_DIGITS), min(scale, MOST_DIGITS - whole))
