"""Values as the oracle holds them: comparing, converting between types, and reading them from Polars rows."""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.model.time import DAY, SECOND
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type, common_type
from headrace.testing.oracle.decimals import as_number, fitted

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (TIMESTAMP is kept without zone)
_TICK = datetime.timedelta(microseconds=1)
_TRUE, _FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}


def plain(frame_rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert the datetimes, dates and timedeltas of rows (as Polars gives them) to the oracle's numbers."""
    return [{name: plain_value(value) for name, value in row.items()} for row in frame_rows]


def plain_value(value: Any) -> Any:
    """Convert a value to the oracle's: TIMESTAMP and INTERVAL as microseconds, DATE as days since 1970."""
    if isinstance(value, datetime.datetime):
        return (
            (value.replace(tzinfo=None) - _EPOCH) // _TICK
            if value.tzinfo is None
            else (value - _EPOCH.replace(tzinfo=datetime.UTC)) // _TICK
        )
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).days
    if isinstance(value, datetime.timedelta):
        return value // _TICK
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    if isinstance(value, dict):
        return {plain_value(key): plain_value(item) for key, item in value.items()}
    return value


def instant_of(micros: int) -> datetime.datetime:
    """Return a TIMESTAMP as a datetime without zone."""
    return _EPOCH + datetime.timedelta(microseconds=micros)


def micros_of(instant: datetime.datetime) -> int:
    """Return a datetime without zone as a TIMESTAMP."""
    return (instant - _EPOCH) // _TICK


def wrap(value: int) -> int:
    """Cut to 64 bits, two's complement."""
    return (value + 2**63) % 2**64 - 2**63


def lift(value: Any, have: DataType, want: DataType) -> Any:
    """Widen a value that is not NULL to a common type."""
    if have is Type.DATE and want is Type.TIMESTAMP:
        return value * DAY
    if isinstance(want, DecimalType):
        return fitted(as_number(value), want)
    if (have.is_integer or isinstance(have, DecimalType)) and want in (Type.FLOAT, Type.DOUBLE):
        return float(value)
    return value


def compare(left: Any, left_type: DataType, right: Any, right_type: DataType) -> int:
    """Return -1, 0 or 1 for two values that are not NULL; NaN equals itself and is above all numbers."""
    common = common_type(left_type, right_type)
    assert common is not None, f"{left_type} and {right_type} do not compare"
    left, right = lift(left, left_type, common), lift(right, right_type, common)
    if isinstance(left, float) and isinstance(right, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    if isinstance(left, list | dict):
        return int(identity(left) != identity(right))  # nested values have no order
    return int(left > right) - int(left < right)


def identity(value: Any) -> Any:
    """Return a hashable stand-in such that two values are the same for grouping iff their stand-ins are equal."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else ("number", value + 0.0)
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        return ("dict", *((key, identity(item)) for key, item in value.items()))
    return ("number", value) if isinstance(value, int) else ("text", value)


def sort_key(value: Any) -> tuple[Any, ...]:
    """Return a key that sorts values of one column: NULL first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, list):
        return (1, tuple(map(sort_key, value)))
    if isinstance(value, dict):
        return (1, tuple((key, sort_key(part)) for key, part in value.items()))
    return (1, value)


def convert(value: Any, have: DataType, want: DataType) -> Any:
    """Do what CAST does; None for values that cannot be converted."""
    if value is None or have == want:
        return value
    match want:
        case DecimalType():
            return _decimal(value, have, want)
        case Type.STRING:
            return _text(value, have)
        case Type.INT:
            return _integer(value, have, 2**31)
        case Type.BIGINT:
            return _integer(value, have, 2**63)
        case Type.DOUBLE:
            return _float(value, have)
        case Type.FLOAT:
            number = _float(value, have)
            return None if number is None else single(number)
        case Type.BOOLEAN:
            return _boolean(value, have)
        case Type.DATE:
            return _date(value, have)
        case Type.TIMESTAMP:
            return _timestamp(value, have)
        case Type.INTERVAL:
            return value if have.is_integer else None
        case Type.BINARY:
            return value.encode() if have is Type.STRING else None
        case ArrayType(element=element) if isinstance(have, ArrayType):
            return [convert(item, have.element, element) for item in value]
        case Type.NULL | ArrayType() | MapType() | StructType():
            return None


def single(value: float) -> float:
    """Round to 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _text(value: Any, have: DataType) -> str | None:
    match have:
        case Type.BOOLEAN:
            return "true" if value else "false"
        case Type.DATE:
            return str(instant_of(value * DAY).date())
        case Type.TIMESTAMP:
            text = str(instant_of(value))
            return text.rstrip("0") if "." in text else text
        case Type.BINARY:
            return bytes(value).decode(errors="replace")
        case Type.INTERVAL:
            return _interval_text(value)
        case DecimalType():
            return f"{value:f}"
        case _:
            return _float_text(value) if isinstance(value, float) else str(value)


def _decimal(value: Any, have: DataType, want: DecimalType) -> decimal.Decimal | None:
    if have is Type.STRING:
        try:
            return fitted(decimal.Decimal(value.strip()), want) if re.fullmatch("[-+0-9.eE]+", value.strip()) else None
        except ArithmeticError:
            return None
    if have is Type.TIMESTAMP:
        return fitted(decimal.Decimal(value) / SECOND, want)
    return fitted(as_number(value), want) if have.is_numeric or have is Type.BOOLEAN else None


def _float_text(value: float) -> str:
    """Write a number as Java does: plain from 0.001 to 10 million, else 1.0E10."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{decimal.Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _interval_text(span: int) -> str:
    days, rest = divmod(abs(span), DAY)
    clock = str((_EPOCH + datetime.timedelta(microseconds=rest)).time())
    clock = clock.rstrip("0") if "." in clock else clock
    return f"INTERVAL '{'-' if span < 0 else ''}{days} {clock}' DAY TO SECOND"


def _integer(value: Any, have: DataType, limit: int) -> int | None:
    if have is Type.STRING:
        text = value.strip()
        number = int(text.partition(".")[0]) if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?", text) else None
    elif have is Type.TIMESTAMP:
        number = value // SECOND
    elif isinstance(have, DecimalType):
        number = math.trunc(value)
    elif have in (Type.FLOAT, Type.DOUBLE):
        number = math.trunc(value) if math.isfinite(value) else None
    elif have in (Type.DATE, Type.BINARY):
        number = None
    else:
        number = int(value)
    return number if number is not None and -limit <= number < limit else None


def _float(value: Any, have: DataType) -> float | None:
    if have is Type.STRING:
        try:
            return float(value)
        except ValueError:
            return None
    if have is Type.TIMESTAMP:
        return float(value / SECOND)
    return None if have in (Type.DATE, Type.BINARY, Type.INTERVAL) else float(value)


def _boolean(value: Any, have: DataType) -> bool | None:
    if have is Type.STRING:
        word = value.strip().lower()
        return (word in _TRUE) if word in (*_TRUE, *_FALSE) else None
    return bool(value != 0) if have.is_numeric else None


def _date(value: Any, have: DataType) -> int | None:
    if have is Type.STRING:
        whole = re.match(r"\d{4}-\d{1,2}-\d{1,2}(?=[T ])", value.strip())  # the rest does not count
        instant = _instant_in(whole[0] if whole else value.strip())
        return None if instant is None else instant // DAY
    return value // DAY if have is Type.TIMESTAMP else None


def _timestamp(value: Any, have: DataType) -> int | None:
    if have is Type.STRING:
        return _instant_in(value.strip())
    if have is Type.DATE:
        return int(value * DAY)
    if have.is_integer or isinstance(have, DecimalType):
        return instant(value, SECOND)
    return instant(value, SECOND) if have in (Type.FLOAT, Type.DOUBLE) and math.isfinite(value) else None


def instant(number: Any, unit: int) -> int | None:
    """Return a number of units of so many microseconds as an instant; None if it does not fit 64 bits."""
    micros = math.trunc(number * unit)
    return micros if -(2**63) <= micros < 2**63 else None


def _instant_in(text: str) -> int | None:
    """Read a date, perhaps with time, perhaps with zone; month and day may be missing."""
    match = re.fullmatch(
        r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](?:"
        r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)? ?(?:Z|UTC|([+-])(\d{1,2})(?::?(\d\d))?)?)?)?)?)?",
        text,
    )
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    try:
        local = datetime.datetime(  # noqa: DTZ001
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    zone = (int(zone_hour or 0) * 60 + int(zone_minute or 0)) * 60 * SECOND
    return micros_of(local) + int((fraction or "0")[:6].ljust(6, "0")) + (zone if sign == "-" else -zone)
