"""The columns that are the key and the time of a record."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connectors.options import near
from headrace.errors import NameFault, TypeFault
from headrace.model.schema import Schema
from headrace.model.types import DataType


def check_column(option: str, name: str, owner: str, schema: Schema, types: Sequence[DataType]) -> None:
    """Refuse a column for an option that `owner` does not have, or that has none of the types."""
    field = schema.find(name)
    if field is None:
        raise NameFault(f"KAFKA: {owner} has no column {name!r} for the option {option}", hint=near(name, schema.names))
    if field.type not in types:
        raise TypeFault(
            f"KAFKA: {option} {name!r} is {field.type.value}",
            hint=f"it must be {' or '.join(type_.value for type_ in types)}",
        )
