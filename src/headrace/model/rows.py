"""Rows as programs have them: mappings, tuples, named tuples, rows of Spark and data classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.errors import SourceFault

_ROWS = "push a list of dictionaries, tuples or data classes, or a table of Polars, Arrow or pandas"


def mappings(rows: Iterable[Any], columns: Callable[[], Sequence[str]]) -> list[Mapping[str, Any]]:
    """Return rows by column; `columns` gives the names for values without any, which are in the order of the stream."""
    if isinstance(rows, Mapping):
        raise SourceFault("one row alone is pushed", hint="push a list of rows: [row]")
    if not isinstance(rows, Iterable):
        raise SourceFault(f"{_kind(rows)} is pushed, which has no rows", hint=_ROWS)
    return [_mapping(number, row, columns) for number, row in enumerate(rows)]


def _mapping(number: int, row: Any, columns: Callable[[], Sequence[str]]) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if isinstance(row, tuple | list):
        names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)  # a named tuple, or a Row of Spark
        if names is None:
            names = columns()
            if len(row) != len(names):
                raise SourceFault(
                    f"row {number} has {len(row)} values, and the stream has {len(names)} columns",
                    hint=f"give values for {', '.join(names)}, or a dictionary",
                )
        return dict(zip(names, row, strict=True))
    raise SourceFault(f"row {number} is {_kind(row)}, which has no columns", hint=_ROWS)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
