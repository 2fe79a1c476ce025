"""Values of ARRAY, MAP and STRUCT: from JSON and to JSON.

In Python an ARRAY is a list, a MAP and a STRUCT are dicts.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headrace.model.digits import parsed, with_point
from headrace.model.time import parse_instant, parse_interval
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (TIMESTAMP is kept without zone)
_TICK = datetime.timedelta(microseconds=1)
#: Python refuses to read integers with more than 4,300 digits.
_MOST_DIGITS = 4000
_BEYOND = object()
_WORDS = {"true": True, "false": False}
#: A number of JSON.
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_GREATEST = {Type.FLOAT: 3.4028234663852886e38, Type.DOUBLE: sys.float_info.max}
_LIMITS = {Type.INT: 2**31, Type.BIGINT: 2**63}


def read_json(text: str) -> Any:
    """Read JSON with exact numbers; ValueError or RecursionError if it is none.

    A number beyond what Python reads fits no type. It does not matter where nobody asks for it.
    """
    return json.loads(text, parse_float=_real, parse_int=_whole)


def shaped(value: Any, type_: DataType) -> Any:
    """Return a value of JSON, or of Python, as a column of the type takes it; ValueError if it does not fit.

    Fields that a STRUCT does not have are left out, and fields that are missing are NULL.
    """
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            if isinstance(value, list | tuple):
                return [shaped(item, element) for item in value]
        case StructType(fields=fields):
            if isinstance(value, Mapping):
                return {name: shaped(value.get(name), kind) for name, kind in fields}
        case MapType(key=key, of=kind):
            if isinstance(value, Mapping) and None not in value:
                return {key_of(name, key): shaped(item, kind) for name, item in value.items()}
        case DecimalType():
            return _decimal(value, type_)
        case Type():
            return _plain(value, type_)
    raise ValueError(f"{_shown(value)} is not of type {type_.value}")


def json_of(value: Any, type_: DataType) -> Any:
    """Return a value of a column as JSON has it: a MAP as an object, times as text, BINARY as base64."""
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [json_of(item, element) for item in value]
        case StructType(fields=fields):
            return {name: json_of(value[name], kind) for name, kind in fields}
        case MapType(key=key, of=kind):
            return {_key_text(name, key): json_of(item, kind) for name, item in value.items()}
        case Type.TIMESTAMP | Type.DATE:
            return value.isoformat()
        case Type.INTERVAL:
            return value // _TICK
        case Type.BINARY:
            return base64.b64encode(value).decode()
        case _:
            return value


def key_of(name: Any, type_: DataType) -> Any:
    """Return a key of a MAP; in JSON it is a text."""
    if not isinstance(name, str):
        return shaped(name, type_)
    if type_.is_integer:
        return shaped(int(name), type_)
    if type_ is Type.BOOLEAN and name in _WORDS:
        return _WORDS[name]
    if type_ in (Type.FLOAT, Type.DOUBLE) and _NUMBER.fullmatch(name) and abs(float(name)) <= _GREATEST[type_]:
        return float(name)
    return shaped(name, type_)


def _key_text(name: Any, type_: DataType) -> str:
    written = json_of(name, type_)
    return str(written).lower() if isinstance(written, bool) else str(written)


def _decimal(value: Any, type_: DecimalType) -> Decimal:
    if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool):
        digits = parsed(value if isinstance(value, float) else str(value), type_.scale)
        if digits is not None and abs(digits) < 10**type_.precision:
            return with_point(digits, type_.scale)
    raise ValueError(f"{_shown(value)} is not a {type_.value}")


def _plain(value: Any, type_: Type) -> Any:
    match type_, value:
        case Type.BOOLEAN, bool():
            return value
        case ((Type.INT | Type.BIGINT), int()) if (
            not isinstance(value, bool) and -_LIMITS[type_] <= value < _LIMITS[type_]
        ):
            return value
        case ((Type.FLOAT | Type.DOUBLE), (int() | float() | Decimal())) if not isinstance(value, bool):
            return float(value)
        case Type.STRING, str():
            value.encode()  # a ValueError, if it has half a character
            return value
        case Type.BINARY, bytes():
            return value
        case Type.BINARY, str():
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error as error:
                raise ValueError(f"{_shown(value)} is not a BINARY in base64") from error
        case ((Type.TIMESTAMP | Type.DATE), datetime.datetime()) if type(value).__name__ == "NaTType":
            return None  # of pandas
        case Type.TIMESTAMP, datetime.datetime():
            return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        case Type.TIMESTAMP, str():
            return _EPOCH + parse_instant(value) * _TICK
        case Type.TIMESTAMP, int() if not isinstance(value, bool):
            return _EPOCH + value * _TICK
        case Type.DATE, datetime.date():
            return value.date() if isinstance(value, datetime.datetime) else value
        case Type.DATE, str():
            return datetime.date.fromisoformat(value)
        case Type.INTERVAL, datetime.timedelta():
            return value
        case Type.INTERVAL, str():
            return _span(parse_interval(value))
        case Type.INTERVAL, int() if not isinstance(value, bool):
            return _span(value)
        case _:
            raise ValueError(f"{_shown(value)} is not {'an' if type_.value[0] in 'AEIOU' else 'a'} {type_.value}")


def _real(text: str) -> Any:
    try:
        return Decimal(text)
    except ArithmeticError:
        return _BEYOND


def _whole(text: str) -> Any:
    return int(text) if len(text) <= _MOST_DIGITS else _BEYOND


def _span(microseconds: int) -> datetime.timedelta:
    if abs(microseconds) >= _LIMITS[Type.BIGINT]:
        raise ValueError(f"an INTERVAL has no {microseconds} microseconds")
    return microseconds * _TICK


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
