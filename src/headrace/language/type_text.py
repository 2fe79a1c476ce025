"""Types as text: `BIGINT`, `DECIMAL(10, 2)`, `ARRAY<INT>`, `MAP<STRING, INT>`, `STRUCT<a: INT, b: ARRAY<STRING>>`."""

from __future__ import annotations

import re

from headrace.language.names import DECIMAL_NAMES, DEFAULT_DECIMAL, TYPE_NAMES, decimal_type
from headrace.model.types import ArrayType, DataType, MapType, StructType, Type, is_nested

NESTED_NAMES = ("ARRAY", "MAP", "STRUCT", "ROW")
#: How deep types may be nested.
_DEPTH = 20
_WORD = re.compile(r"\s*(`(?:[^`]|``)+`|[^\W\d]\w*)")
_DIGITS = re.compile(r"\s*\(\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?\)")


def read_type(text: str, position: int = 0, depth: int = 0) -> tuple[DataType, int]:
    """Read the type that begins at a position; return it and the position after it, or raise ValueError."""
    if depth > _DEPTH:
        raise ValueError(f"types are nested more than {_DEPTH} deep")
    name, position = _word(text, position, "a type")
    upper = name.upper()
    match upper:
        case "ARRAY":
            position = _expect(text, position, "<", "write ARRAY<INT>")
            element, position = read_type(text, position, depth + 1)
            return ArrayType(element), _expect(text, position, ">")
        case "MAP":
            position = _expect(text, position, "<", "write MAP<STRING, INT>")
            key, position = read_type(text, position, depth + 1)
            if isinstance(key, MapType):
                raise ValueError("the keys of a MAP cannot be MAPs")
            value, position = read_type(text, _expect(text, position, ","), depth + 1)
            return MapType(key, value), _expect(text, position, ">")
        case "STRUCT" | "ROW":
            position = _expect(text, position, "<", "write STRUCT<a: INT, b: STRING>")
            fields, position = _fields(text, position, depth)
            return StructType(fields), _expect(text, position, ">")
        case _:
            return _plain(text, name, position)


def _plain(text: str, name: str, position: int) -> tuple[DataType, int]:
    upper = name.upper()
    digits = _DIGITS.match(text, position)
    position = position if digits is None else digits.end()
    if upper in DECIMAL_NAMES:
        return (DEFAULT_DECIMAL if digits is None else decimal_type(int(digits[1]), int(digits[2] or 0))), position
    type_ = TYPE_NAMES.get(upper)
    if type_ is None or type_ is Type.NULL:
        raise ValueError(f"type {name!r} does not exist")
    return type_, position


def read_schema(text: str) -> DataType:
    """Read the schema of from_json: a type, or columns such as 'a INT, b ARRAY<STRING>'."""
    if re.match(r"\s*(ARRAY|MAP|STRUCT|ROW)\s*<", text, re.IGNORECASE):
        type_, position = read_type(text)
    else:
        fields, position = _fields(text, 0, 0)
        type_ = StructType(fields)
    if text[position:].strip():
        raise ValueError(f"{text[position:].strip()!r} is left over")
    if not is_nested(type_):
        raise ValueError("it is a plain type")
    return type_


def _fields(text: str, position: int, depth: int) -> tuple[tuple[tuple[str, DataType], ...], int]:
    fields: list[tuple[str, DataType]] = []
    while True:
        name, position = _word(text, position, "the name of a field")
        colon = re.compile(r"\s*:").match(text, position)
        type_, position = read_type(text, position if colon is None else colon.end(), depth + 1)
        if name.lower() in (known.lower() for known, _ in fields):
            raise ValueError(f"there are two fields {name!r}")
        fields.append((name, type_))
        comma = re.compile(r"\s*,").match(text, position)
        if comma is None:
            return tuple(fields), position
        position = comma.end()


def _word(text: str, position: int, what: str) -> tuple[str, int]:
    match = _WORD.match(text, position)
    if match is None:
        raise ValueError(f"expected {what} at {text[position:].strip()[:20]!r}")
    name = match[1]
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name), match.end()


def _expect(text: str, position: int, mark: str, example: str | None = None) -> int:
    match = re.compile(r"\s*" + re.escape(mark)).match(text, position)
    if match is None:
        raise ValueError(example or f"expected {mark} at {text[position:].strip()[:20]!r}")
    return match.end()
