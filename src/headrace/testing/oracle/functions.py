"""The scalar functions of `model.expressions.functions`, one plain Python function each, over one tuple's values.

BOOLEAN is bool, integers are int, FLOAT and DOUBLE float, STRING str, DATE days since 1970, TIMESTAMP and INTERVAL
microseconds, NULL None. NaN equals NaN and is larger than every number, as in Spark SQL.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from headrace.model.time import DAY, MILLISECOND, SECOND
from headrace.model.types import DataType, Type
from headrace.testing.oracle.more_functions import MORE
from headrace.testing.oracle.nested import NESTED
from headrace.testing.oracle.values import compare, convert, instant, instant_of, lift, micros_of, wrap

#: Argument values, their types, the type of the result.
Scalar: TypeAlias = Callable[[Sequence[Any], Sequence[DataType], DataType], Any]


def _strict(function: Callable[..., Any]) -> Scalar:
    """Return a function that gives NULL if an argument is NULL."""

    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        return None if any(arg is None for arg in args) else function(*args)

    return scalar


def _and(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if False in args:
        return False
    return None if None in args else True


def _or(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if True in args:
        return True
    return None if None in args else False


def _comparison(holds: Callable[[int], bool]) -> Scalar:
    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        if args[0] is None or args[1] is None:
            return None
        return holds(compare(args[0], types[0], args[1], types[1]))

    return scalar


def _null_safe_equal(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if args[0] is None or args[1] is None:
        return args[0] is None and args[1] is None
    return compare(args[0], types[0], args[1], types[1]) == 0


def _is_null(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    return args[0] is None


def _in(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if args[0] is None:
        return None
    for other, type_ in zip(args[1:], types[1:], strict=True):
        if other is not None and compare(args[0], types[0], other, type_) == 0:
            return True
    return None if None in args[1:] else False


def _coalesce(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    for arg, type_ in zip(args, types, strict=True):
        if arg is not None:
            return lift(arg, type_, result)
    return None


def _nullif(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if args[0] is not None and args[1] is not None and compare(args[0], types[0], args[1], types[1]) == 0:
        return None
    return args[0]


def _extreme(wins: Callable[[int], bool]) -> Scalar:
    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        best: Any = None
        for arg, type_ in zip(args, types, strict=True):
            if arg is None:
                continue
            value = lift(arg, type_, result)
            if best is None or wins(compare(value, result, best, result)):
                best = value
        return best

    return scalar


def _arithmetic(function: Callable[[Any, Any], Any]) -> Scalar:
    """Return arithmetic of two values: integers wrap at 64 bits, a DATE is its midnight, all else is DOUBLE."""

    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        if any(arg is None for arg in args):
            return None
        left, right = args
        if result is Type.DOUBLE:
            value = function(float(left), float(right))
            return None if value is None else float(value)
        if result in (Type.TIMESTAMP, Type.INTERVAL):
            left, right = (arg * DAY if type_ is Type.DATE else arg for arg, type_ in zip(args, types, strict=True))
        value = function(left, right)
        return None if value is None else wrap(value)

    return scalar


def _divide(x: float, y: float) -> float | None:
    return None if y == 0 else float(x) / float(y)


def _truncated_quotient(x: int, y: int) -> int | None:
    if y == 0:
        return None
    quotient = abs(x) // abs(y)
    return wrap(quotient if (x < 0) == (y < 0) else -quotient)


def _remainder(x: Any, y: Any) -> Any:
    if y == 0:
        return None
    if isinstance(x, float):
        return math.nan if math.isinf(x) else math.fmod(x, y)
    return -(abs(x) % abs(y)) if x < 0 else abs(x) % abs(y)


def _number(function: Callable[[Any], Any]) -> Scalar:
    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        if args[0] is None:
            return None
        return float(function(args[0])) if result is Type.DOUBLE else wrap(function(args[0]))

    return scalar


def _sign(x: float) -> float:
    return math.nan if math.isnan(x) else float((x > 0) - (x < 0))


def _round(x: Any, digits: int = 0) -> Any:
    if isinstance(x, int) or not math.isfinite(x):
        return x
    unit = decimal.Decimal(1).scaleb(-digits)
    context = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)  # ROUND_HALF_UP goes away from zero
    return float(decimal.Decimal(repr(x)).quantize(unit, context=context))


def _whole(function: Callable[[float], int]) -> Callable[[Any], int | None]:
    def whole(x: Any) -> int | None:
        if isinstance(x, int):
            return x
        if not math.isfinite(x):
            return None
        value = function(x)
        return value if -(2**63) <= value < 2**63 else None

    return whole


def _real(function: Callable[..., float], *, overflow: float = math.inf) -> Scalar:
    """Apply a function of floats: NaN outside its domain, infinity beyond the largest float."""

    def real(*args: Any) -> float:
        try:
            return float(function(*(float(arg) for arg in args)))
        except ValueError:
            return math.nan
        except OverflowError:
            return overflow

    return _strict(real)


def _logarithm(function: Callable[[float], float]) -> Scalar:
    def logarithm(x: float) -> float | None:
        return None if x <= 0 else function(float(x))

    return _strict(logarithm)


def _pow(x: float, y: float) -> float:
    if x == 0 and y < 0:
        odd = y == math.floor(y) and math.fmod(y, 2) != 0
        return math.copysign(math.inf, x) if odd else math.inf
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and math.fmod(y, 2) != 0 else math.inf


def _concatenate(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if any(arg is None for arg in args):
        return None
    return "".join(convert(arg, type_, Type.STRING) for arg, type_ in zip(args, types, strict=True))


def _substring(text: str, start: int, length: int | None = None) -> str:
    rest = text[start - 1 if start > 0 else start :]
    return rest if length is None else rest[: max(length, 0)]


def _left(text: str, n: int) -> str:
    return text[:n] if n > 0 else ""


def _right(text: str, n: int) -> str:
    return text[-n:] if n > 0 else ""


def _position(what: str, text: str, start: int = 1) -> int:
    if start <= 0:
        return 0
    return text.find(what, start - 1) + 1 if what else 1


def _lpad(text: str, n: int, fill: str = " ") -> str:
    return text[: max(n, 0)] if len(text) >= n or not fill else (fill * n)[: n - len(text)] + text


def _rpad(text: str, n: int, fill: str = " ") -> str:
    return text[: max(n, 0)] if len(text) >= n or not fill else text + (fill * n)[: n - len(text)]


def _split_part(text: str, separator: str, n: int) -> str:
    parts = text.split(separator)
    return parts[n - 1] if 1 <= n <= len(parts) else ""


def _pattern(like: str) -> str:
    """Return a SQL pattern as a regular expression."""
    result, position = "", 0
    while position < len(like):
        char = like[position]
        if char == "\\" and position + 1 < len(like):
            position += 1
            result += re.escape(like[position])
        else:
            result += {"%": ".*", "_": "."}.get(char, re.escape(char))
        position += 1
    return result


def _like(text: str, like: str) -> bool:
    return re.fullmatch(_pattern(like), text, re.DOTALL) is not None


def _ilike(text: str, like: str) -> bool:
    return re.fullmatch(_pattern(like), text, re.DOTALL | re.IGNORECASE) is not None


def _regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    match = re.search(pattern, text)
    return "" if match is None else match[group] or ""


def _part(function: Callable[[datetime.datetime], int]) -> Scalar:
    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        return None if args[0] is None else function(instant_of(lift(args[0], types[0], Type.TIMESTAMP)))

    return scalar


def _truncate(unit: str, at: datetime.datetime) -> datetime.datetime:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit.lower():
        case "microsecond":
            return at
        case "millisecond":
            return at.replace(microsecond=at.microsecond // 1000 * 1000)
        case "second":
            return at.replace(microsecond=0)
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "day":
            return midnight
        case "week":
            return midnight - datetime.timedelta(days=at.weekday())
        case "month":
            return midnight.replace(day=1)
        case "quarter":
            return midnight.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            return midnight.replace(month=1, day=1)
        case other:
            raise ValueError(f"no unit {other!r}")


def _date_trunc(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if None in args:
        return None
    return micros_of(_truncate(args[0], instant_of(lift(args[1], types[1], Type.TIMESTAMP))))


SCALARS: dict[str, Scalar] = {
    "and": _and,
    "or": _or,
    "not": _strict(lambda x: not x),
    "=": _comparison(lambda order: order == 0),
    "<>": _comparison(lambda order: order != 0),
    "<": _comparison(lambda order: order < 0),
    "<=": _comparison(lambda order: order <= 0),
    ">": _comparison(lambda order: order > 0),
    ">=": _comparison(lambda order: order >= 0),
    "<=>": _null_safe_equal,
    "is_null": _is_null,
    "in": _in,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme(lambda order: order > 0),
    "least": _extreme(lambda order: order < 0),
    "+": _arithmetic(lambda x, y: x + y),
    "-": _arithmetic(lambda x, y: x - y),
    "*": _arithmetic(lambda x, y: x * y),
    "/": _strict(_divide),
    "%": _arithmetic(_remainder),
    "div": _strict(_truncated_quotient),
    "neg": _number(lambda x: -x),
    "abs": _number(abs),
    "sign": _strict(_sign),
    "round": _strict(_round),
    "floor": _strict(_whole(math.floor)),
    "ceil": _strict(_whole(math.ceil)),
    "sqrt": _real(math.sqrt),
    "exp": _real(math.exp),
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "pow": _real(_pow),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "||": _concatenate,
    "upper": _strict(str.upper),
    "lower": _strict(str.lower),
    "length": _strict(len),
    "substring": _strict(_substring),
    "left": _strict(_left),
    "right": _strict(_right),
    "trim": _strict(lambda s, chars=" ": s.strip(chars) if chars else s),
    "ltrim": _strict(lambda s, chars=" ": s.lstrip(chars) if chars else s),
    "rtrim": _strict(lambda s, chars=" ": s.rstrip(chars) if chars else s),
    "replace": _strict(lambda s, what, by="": s.replace(what, by) if what else s),
    "starts_with": _strict(str.startswith),
    "ends_with": _strict(str.endswith),
    "contains": _strict(lambda s, t: t in s),
    "position": _strict(_position),
    "reverse": _strict(lambda s: s[::-1]),
    "lpad": _strict(_lpad),
    "rpad": _strict(_rpad),
    "split_part": _strict(_split_part),
    "like": _strict(_like),
    "ilike": _strict(_ilike),
    "rlike": _strict(lambda s, pattern: re.search(pattern, s) is not None),
    "regexp_extract": _strict(_regexp_extract),
    "year": _part(lambda at: at.year),
    "quarter": _part(lambda at: (at.month - 1) // 3 + 1),
    "month": _part(lambda at: at.month),
    "week": _part(lambda at: at.isocalendar().week),
    "day": _part(lambda at: at.day),
    "dayofweek": _part(lambda at: at.isoweekday() % 7 + 1),
    "dayofyear": _part(lambda at: at.timetuple().tm_yday),
    "hour": _part(lambda at: at.hour),
    "minute": _part(lambda at: at.minute),
    "second": _part(lambda at: at.second),
    "date_trunc": _date_trunc,
    "to_date": _strict(lambda t: t // DAY),
    "date_add": _strict(lambda day, n: day + n),
    "datediff": _strict(lambda end, start: end - start),
    "unix_seconds": _strict(lambda t: t // SECOND),
    "unix_millis": _strict(lambda t: t // MILLISECOND),
    "unix_micros": _strict(lambda t: t),
    "timestamp_seconds": _strict(lambda n: instant(n, SECOND)),
    "timestamp_millis": _strict(lambda n: instant(n, MILLISECOND)),
    "timestamp_micros": _strict(lambda n: n),
    **MORE,
    **NESTED,
}
