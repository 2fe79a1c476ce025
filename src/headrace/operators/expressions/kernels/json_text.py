"""Values inside texts that hold JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

import msgspec
import polars as pl

from headrace.model.expressions.json_paths import steps_of
from headrace.model.json_columns import record_of
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each
from headrace.operators.expressions.kernels.conversion import print_float


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


#: Python refuses to read integers with more than 4,300 digits.
_MOST_DIGITS = 4000
_WORDS = {True: "true", False: "false", None: "null"}


@dataclass(frozen=True, slots=True)
class _Digits:
    """An integer that Python does not read."""

    text: str


def _integer(text: str) -> int | _Digits:
    return int(text) if len(text) <= _MOST_DIGITS else _Digits(text)


_DECODER = json.JSONDecoder(parse_int=_integer, strict=False, parse_constant=_refuse_constant)


def _get_json_object(args: Arguments) -> pl.Expr:
    path = args.text(1)
    if path is None:
        return args.null()
    steps = steps_of(path)
    read = text_reader(steps)
    return each(lambda text, _: read(text), args, [Type.STRING])


def text_reader(steps: Sequence[str | int]) -> Callable[[str], str | None]:
    """Return what reads the value at the end of a path; a decoder passes over all others without making them."""
    if not steps:
        return lambda text: _text_at(text, steps)
    decode = msgspec.json.Decoder(_kind(steps)).decode

    def read(text: str) -> str | None:
        try:
            value = decode(text)
            for step in steps:
                if value is None:
                    return None
                value = value.f0 if isinstance(step, str) else value[step] if step < len(value) else None
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return _text_at(text, steps)  # it is no JSON, JSON with something behind it, or there is no such path
        return None if value is None else _shown(bytes(value))

    return read


def _kind(steps: Sequence[str | int]) -> Any:
    """Return what a decoder expects where a path begins: only the values on the path matter."""
    match steps:
        case [str() as name, *rest]:
            return record_of(((name, _kind(rest)),)) | None
        case [int(), *rest]:
            return list[_kind(rest)] | None  # type: ignore[misc]
        case _:
            return msgspec.Raw


def _shown(written: bytes) -> str | None:
    """Return the result for a value as the JSON text has it."""
    match written[:1]:
        case b'"' if b"\\" not in written:
            return written[1:-1].decode()
        case b'"':
            text: str = msgspec.json.decode(written, type=str)
            return text
        case b"n":
            return None
        case b"t" | b"f":
            return written.decode()
        case _ if written.isdigit():
            return written.decode()
        case _:
            return _text_at(written.decode(), ())


def _read(text: str) -> Any:
    """Read the JSON value with which a text begins; ValueError if there is none."""
    stripped = text.lstrip(" \t\r\n")
    value, end = _DECODER.raw_decode(stripped)
    if not isinstance(value, dict | list | str) and stripped[end : end + 1].strip(" \t\r\n"):
        raise ValueError("the number goes on")  # such as 2026-01-31
    return value


def _text_at(text: str, steps: Sequence[str | int]) -> str | None:
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
        case str():
            return str(encode_basestring(value))
        case bool() | None:
            return _WORDS[value]
        case int():
            return repr(value)
        case _Digits():
            return value.text
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
