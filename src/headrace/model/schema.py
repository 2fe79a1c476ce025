"""Named, typed columns of a stream, and the hidden columns that travel with them.

Hidden columns start with two underscores. They pass through filters and projections untouched, users never see
them, and `Schema` does not list them.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from msgspec import Struct

from headrace.model.types import DataType

#: Timestamp of the tuple, Int64 microseconds; every page has it.
TS = "__ts"
#: Position of the tuple in its base stream, Int64; only where a later operator breaks ties by arrival.
SEQ = "__seq"
#: Last instant at which all parts of a joined tuple are still in their windows, Int64; only between joins.
EXPIRY = "__exp"
HIDDEN = (TS, SEQ, EXPIRY)
#: For how many tuples of the stream a tuple counts, Float64: a column of plans whose input may be shed, not a hidden
#: one.
WEIGHT = "__weight"


class Field(Struct, frozen=True):
    """One named column."""

    name: str
    type: DataType


class Schema(Struct, frozen=True):
    """The visible columns of a stream, in order; names are unique."""

    fields: tuple[Field, ...]

    @staticmethod
    def of(**types: DataType) -> Schema:
        return Schema(tuple(Field(name, type_) for name, type_ in types.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def find(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)

    def polars(self) -> dict[str, pl.DataType]:
        """Return the visible columns as a Polars schema."""
        return {field.name: field.type.polars for field in self.fields}
