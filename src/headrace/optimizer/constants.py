"""The values of the simple functions over constants.

Only what every engine computes alike is evaluated; the rest (`UNKNOWN`) is left to the operators: 32-bit floats, NaN
and infinity, letters beyond ASCII, integers that a DOUBLE cannot hold, instants near the ends of time.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Final, TypeAlias

from headrace.model.expressions.expression import Literal
from headrace.model.time import DAY, END
from headrace.model.types import DataType, Type, common_type

Value: TypeAlias = bool | int | float | str | None


class _Unknown(enum.Enum):
    UNKNOWN = enum.auto()


#: The answer where this module does not know; None would be SQL's NULL.
UNKNOWN: Final = _Unknown.UNKNOWN
Answer: TypeAlias = Value | _Unknown

_EXACT = 2**53  # up to here every integer is a DOUBLE
_TIMES = (Type.TIMESTAMP, Type.DATE, Type.INTERVAL)


def compare(function: str, left: Literal, right: Literal) -> Answer:
    """Compare two constants that are not NULL by one of = <> < <= > >=."""
    a, b = left.value, right.value
    kind = common_type(left.type, right.type)
    if kind is None or not (_is_plain(left) and _is_plain(right)):
        return UNKNOWN
    if kind is Type.TIMESTAMP:
        return _order(function, _instant(left), _instant(right))
    if isinstance(a, str) and isinstance(b, str):
        return _order(function, a, b)
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return UNKNOWN
    if kind is Type.DOUBLE and not all(isinstance(x, float) or abs(x) <= _EXACT for x in (a, b)):
        return UNKNOWN
    return _order(function, a, b)


def call(function: str, args: tuple[Literal, ...], type_: DataType) -> Answer:
    """Apply an arithmetic or string function to constants that are not NULL."""
    if not all(map(_is_plain, args)):
        return UNKNOWN
    if any(arg.type in _TIMES for arg in args):
        return _shift(function, args, type_)
    values = tuple(arg.value for arg in args)
    if function in _ARITHMETIC and type_ in (Type.BIGINT, Type.DOUBLE):
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        return _compute(function, numbers, type_) if len(numbers) == len(values) else UNKNOWN
    strings = [value for value in values if isinstance(value, str)]
    if function in _STRINGS and len(strings) == len(values) and all(map(str.isascii, strings)):
        return _STRINGS[function](strings)
    return UNKNOWN


def cast(literal: Literal, to: DataType) -> Answer:
    """Convert a constant that is not NULL, where that loses nothing."""
    value = literal.value
    if not _is_plain(literal) or isinstance(value, str | bool | None):
        return UNKNOWN
    source = literal.type
    if source.is_integer and (to is Type.BIGINT or (to is Type.INT and -(2**31) <= value < 2**31)):
        return value
    if source.is_integer and to is Type.DOUBLE and abs(value) <= _EXACT:
        return float(value)
    if source.is_integer and to is Type.STRING:
        return str(value)
    if source is Type.DATE and to is Type.TIMESTAMP and isinstance(value, int):
        return _bounded(value * DAY)
    return UNKNOWN


def _is_plain(literal: Literal) -> bool:
    if literal.type in (Type.FLOAT, Type.BINARY) or not isinstance(literal.type, Type):
        return False
    return math.isfinite(literal.value) if isinstance(literal.value, float) else literal.value is not None


def _order(function: str, a: bool | int | float | str, b: bool | int | float | str) -> bool:
    less = a < b  # type: ignore[operator]  # both are text or both are numbers
    match function:
        case "=":
            return a == b
        case "<>":
            return a != b
        case "<":
            return less
        case "<=":
            return less or a == b
        case ">":
            return not less and a != b
        case _:
            return not less


def _instant(literal: Literal) -> int:
    assert isinstance(literal.value, int)
    return literal.value * DAY if literal.type is Type.DATE else literal.value


def _shift(function: str, args: tuple[Literal, ...], type_: DataType) -> Answer:
    if function not in ("+", "-") or type_ not in (Type.TIMESTAMP, Type.INTERVAL) or len(args) != 2:
        return UNKNOWN
    first, second = map(_instant, args)
    return _bounded(first + second if function == "+" else first - second)


def _bounded(instant: int) -> Answer:
    return instant if abs(instant) < END else UNKNOWN


def _compute(function: str, numbers: list[int] | list[float], type_: DataType) -> Answer:
    if type_ is Type.BIGINT:
        whole = [number for number in numbers if isinstance(number, int)]
        result = _INTEGER[function](*whole) if function in _INTEGER and len(whole) == len(numbers) else UNKNOWN
        return _wrap(result) if isinstance(result, int) else result
    if not all(isinstance(number, float) or abs(number) <= _EXACT for number in numbers) or function not in _DOUBLE:
        return UNKNOWN
    try:
        answer = _DOUBLE[function](*map(float, numbers))
    except OverflowError:
        return UNKNOWN
    return answer if answer is None or math.isfinite(answer) else UNKNOWN


def _wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _div(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int | None:
    quotient = _div(a, b)
    return None if quotient is None else a - quotient * b


_INTEGER: dict[str, Callable[..., int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%": _remainder,
    "div": _div,
    "neg": lambda a: -a,
    "abs": abs,
}
_DOUBLE: dict[str, Callable[..., float | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: None if b == 0 else a / b,
    "%": lambda a, b: None if b == 0 else math.fmod(a, b),
    "neg": lambda a: -a,
    "abs": abs,
}
_ARITHMETIC = _INTEGER.keys() | _DOUBLE.keys()
_STRINGS: dict[str, Callable[[list[str]], Value]] = {
    "||": "".join,
    "upper": lambda s: s[0].upper(),
    "lower": lambda s: s[0].lower(),
    "length": lambda s: len(s[0]),
    "reverse": lambda s: s[0][::-1],
    "trim": lambda s: s[0].strip(s[1] if len(s) == 2 else " "),
    "ltrim": lambda s: s[0].lstrip(s[1] if len(s) == 2 else " "),
    "rtrim": lambda s: s[0].rstrip(s[1] if len(s) == 2 else " "),
    "starts_with": lambda s: s[0].startswith(s[1]),
    "ends_with": lambda s: s[0].endswith(s[1]),
    "contains": lambda s: s[1] in s[0],
}
