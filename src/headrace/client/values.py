"""Values that a server sends as JSON, as the values of Python that a session gives."""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

Take: TypeAlias = Callable[[Any], Any]


@cache
def reader(type_: str) -> Take:
    """Return how values of a type, as SQL writes it, are read; those of an unknown type stay as they are."""
    if type_ in _READ:
        return _READ[type_]
    kind, _, inner = type_.partition("<")
    parts = _parts(inner.removesuffix(">")) if inner.endswith(">") else []
    match kind, parts:
        case "ARRAY", [part]:
            element = _or_none(reader(part))
            return lambda values: [element(value) for value in values]
        case "MAP", [key, part]:
            name, item = reader(key), _or_none(reader(part))
            return lambda values: {name(key): item(value) for key, value in values.items()}
        case "STRUCT", [_, *_]:
            fields = {name: _or_none(reader(part)) for name, _, part in (field.partition(": ") for field in parts)}
            return lambda values: {name: fields.get(name, _same)(value) for name, value in values.items()}
        case _:
            return Decimal if re.fullmatch(r"DECIMAL\(\d+,\d+\)", type_) else _same


def _parts(text: str) -> list[str]:
    """Divide a list of types at its commas; those in parentheses or angle brackets belong to a part."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _or_none(take: Take) -> Take:
    return lambda value: None if value is None else take(value)


def _same(value: Any) -> Any:
    return value


def _timestamp(text: str) -> Any:
    try:
        return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return text  # beyond the years that Python knows


def _date(text: str) -> Any:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return text


def _boolean(value: Any) -> bool:
    return value == "true" if isinstance(value, str) else bool(value)  # keys of a MAP are texts


_READ: dict[str, Take] = {
    "TIMESTAMP": _timestamp,
    "DATE": _date,
    "INTERVAL": lambda value: datetime.timedelta(microseconds=int(value)),
    "BINARY": base64.b64decode,
    "DOUBLE": float,
    "FLOAT": float,
    "BIGINT": int,
    "INT": int,
    "BOOLEAN": _boolean,
}
