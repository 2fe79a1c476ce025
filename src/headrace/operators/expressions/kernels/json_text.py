"""Values inside texts that hold JSON."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from headrace.model.expressions.json_paths import steps_of
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each
from headrace.operators.expressions.kernels.conversion import print_float


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _get_json_object(args: Arguments) -> pl.Expr:
    path = args.text(1)
    if path is None:
        return args.null()
    steps = steps_of(path)
    return each(lambda text, _: _text_at(text, steps), args, [Type.STRING])


def _read(text: str) -> Any:
    """Read the JSON value with which a text begins; ValueError if there is none."""
    stripped = text.lstrip(" \t\r\n")
    value, end = _DECODER.raw_decode(stripped)
    if not isinstance(value, dict | list | str) and stripped[end : end + 1].strip(" \t\r\n"):
        raise ValueError("the number goes on")  # such as 2026-01-31
    return value


def _text_at(text: str, steps: list[str | int]) -> str | None:
    try:
        value = _read(text)
        for step in steps:
            match value, step:
                case (dict(), str()) | (list(), int()):
                    value = value[step]
                case _:  # an object has no positions, a list no names
                    return None
    except (ValueError, KeyError, IndexError, RecursionError):
        return None
    if value is None:
        return None
    return value if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    """Write a value as Spark does: without blanks, numbers as Java writes them."""
    match value:
        case bool() | None | str() | int():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return print_float(value)
        case dict():
            return "{" + ",".join(f"{_written(key)}:{_written(part)}" for key, part in value.items()) + "}"
        case _:
            return "[" + ",".join(map(_written, value)) + "]"


def _json_array_length(text: str) -> int | None:
    try:
        value = _read(text)
    except (ValueError, RecursionError):
        return None
    return len(value) if isinstance(value, list) else None


JSON: dict[str, Kernel] = {
    "get_json_object": _get_json_object,
    "json_array_length": lambda args: each(_json_array_length, args, [Type.STRING]),
}
