"""The less common scalar functions of `model.expressions.functions`, one plain Python function each."""

from __future__ import annotations

import binascii
import calendar
import codecs
import datetime
import decimal
import functools
import hashlib
import json
import math
import re
import string
import zoneinfo
from collections.abc import Callable, Sequence
from typing import Any

from headrace.model.limits import GROWN_TEXT
from headrace.model.time import DAY, SECOND
from headrace.model.types import DataType, Type
from headrace.operators.expressions.kernels.hashes import xxhash64  # compared with what Spark gives elsewhere
from headrace.testing.oracle.url_functions import parse_url, url_decode, url_encode
from headrace.testing.oracle.values import convert, instant_of, lift, micros_of, wrap

Scalar = Callable[[Sequence[Any], Sequence[DataType], DataType], Any]
_EPOCH = datetime.date(1970, 1, 1)


def _strict(function: Callable[..., Any]) -> Scalar:
    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        return None if any(arg is None for arg in args) else function(*args)

    return scalar


def _real(function: Callable[..., float]) -> Scalar:
    def real(*args: Any) -> float:
        try:
            return float(function(*(float(arg) for arg in args)))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, args[0])

    return _strict(real)


def _inverse(function: Callable[[float], float]) -> Scalar:
    def inverse(x: float) -> float:
        value = function(x)
        return math.copysign(math.inf, value) if value == 0 else 1 / value

    return _real(inverse)


def _regexp_extract_all(text: str, pattern: str, group: int = 1) -> list[str]:
    return ["" if found.group(group) is None else found.group(group) for found in re.finditer(pattern, text)]


def _format_number(x: Any, digits: int) -> str | None:
    if digits < 0:
        return None
    if isinstance(x, float) and not math.isfinite(x):
        return {"inf": "∞", "-inf": "-∞"}.get(str(x), "NaN")
    digits = min(digits, 340)
    shortest = f"{decimal.Decimal(repr(x)):,f}" if isinstance(x, float) else f"{x:,}"
    whole, _, fraction = shortest.partition(".")
    if len(fraction) > digits:
        return f"{x:,.{digits}f}"
    return f"{whole}.{fraction:0<{digits}}" if digits else whole


def _zoned(function: Callable[[datetime.datetime, zoneinfo.ZoneInfo], datetime.datetime]) -> Scalar:
    def zoned(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        if any(arg is None for arg in args):
            return None
        instant = convert(args[0], types[0], Type.TIMESTAMP)
        start = datetime.datetime.combine(_EPOCH, datetime.time())
        moved = function(start + datetime.timedelta(microseconds=instant), zoneinfo.ZoneInfo(args[1]))
        return (moved - start) // datetime.timedelta(microseconds=1)

    return zoned


def _shown_there(instant: datetime.datetime, zone: zoneinfo.ZoneInfo) -> datetime.datetime:
    return instant.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None)


def _instant_there(shown: datetime.datetime, zone: zoneinfo.ZoneInfo) -> datetime.datetime:
    return shown.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)


def _cbrt(x: float) -> float:
    return math.copysign(math.cbrt(abs(x)), x)


def _log1p(x: float) -> float | None:
    return None if x <= -1 else math.log1p(x)


def _log(*args: float) -> float | None:
    if any(arg <= 0 for arg in args):
        return None
    if len(args) == 1:
        return math.log(args[0])
    numerator, denominator = math.log(args[1]), math.log(args[0])
    if denominator == 0:
        return math.nan if numerator == 0 or math.isnan(numerator) else math.copysign(math.inf, numerator)
    return numerator / denominator if not (math.isinf(numerator) and math.isinf(denominator)) else math.nan


def _pmod(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if None in args or args[1] == 0:
        return None
    x, y = args
    if result is Type.DOUBLE:
        if math.isinf(x):
            return math.nan
        remainder = math.fmod(x, y)
        if remainder < 0:
            return math.nan if math.isinf(remainder + y) else math.fmod(remainder + y, y)
        return remainder
    remainder = abs(x) % abs(y) * (-1 if x < 0 else 1)
    return remainder + y if remainder < 0 < y else remainder


def _rounded_to_even(x: Any, digits: int = 0) -> Any:
    if isinstance(x, int) or not math.isfinite(x):
        return x
    context = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_EVEN)
    return float(decimal.Decimal(repr(x)).quantize(decimal.Decimal(1).scaleb(-digits), context=context))


def _rint(x: float) -> float:
    return x if not math.isfinite(x) or abs(x) > 2**52 else math.copysign(float(round(x)), x)


def _nanvl(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    chosen = args[1] if args[0] is not None and math.isnan(args[0]) else args[0]
    return None if chosen is None else float(chosen)


def _bits(function: Callable[..., int]) -> Scalar:
    return _strict(lambda *args: wrap(function(*args)))


def _hex(value: Any) -> str:
    if isinstance(value, str | bytes):
        return "".join(f"{byte:02X}" for byte in _as_bytes(value))
    return format(value if value >= 0 else value + 2**64, "X")


def _initcap(text: str) -> str:
    result, previous = "", " "
    for letter in text:
        upper = letter.upper()
        result += (upper if len(upper) == 1 else letter) if previous == " " else letter.lower()
        previous = letter
    return result


def _translate(text: str, source: str, target: str) -> str:
    result = ""
    for letter in text:
        place = source.find(letter)
        if place < 0:
            result += letter
        elif place < len(target):
            result += target[place]
    return result


def _concat_ws(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    return None if args[0] is None else args[0].join(arg for arg in args[1:] if arg is not None)


def _substring_index(text: str, separator: str, count: int) -> str:
    if separator == "" or count == 0:
        return ""
    size = len(separator)
    places = [i for i in range(len(text) - size + 1) if text[i : i + size] == separator]
    if count > 0:
        return text[: places[count - 1]] if count <= len(places) else text
    return text[places[count] + size :] if -count <= len(places) else text


def _find_in_set(text: str, listed: str) -> int:
    return next((place for place, part in enumerate(listed.split(","), start=1) if part == text), 0)


def _levenshtein(left: str, right: str) -> int:
    @functools.cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        same = left[i - 1] == right[j - 1]
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (not same))

    return distance(len(left), len(right))


def _regexp_replace(text: str, pattern: str, by: str) -> str:
    return re.sub(pattern, lambda match: re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", by), text)


def _regexp_substr(text: str, pattern: str) -> str | None:
    match = re.search(pattern, text)
    return None if match is None else match[0]


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _unbase64(text: str) -> bytes | None:
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    values = [letters.index(letter) for letter in text.partition("=")[0] if letter in letters]
    if len(values) % 4 == 1:
        return None
    bits = "".join(f"{value:06b}" for value in values)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8))


def _unhex(text: str) -> bytes | None:
    if any(letter not in string.hexdigits for letter in text):
        return None
    return bytes(int(pair, 16) for pair in re.findall("..", text if len(text) % 2 == 0 else f"0{text}"))


def _encode(text: str, name: str) -> bytes:
    if name == "UTF-16":
        return codecs.BOM_UTF16_BE + text.encode("utf-16-be") if text else b""
    return text.encode(name, "replace")


def _decode(data: bytes, name: str) -> str:
    is_marked = data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE))
    return data.decode("utf-16-be" if name == "UTF-16" and not is_marked else name, "replace")


def _base64(text: str | bytes) -> str:
    whole = binascii.b2a_base64(_as_bytes(text), newline=False).decode()
    return "\r\n".join(whole[i : i + 76] for i in range(0, len(whole), 76))


def _json(text: str) -> Any:
    """Return the JSON value with which a text begins; a number or word must end there, or at a blank."""
    text = text.strip(" \t\r\n")
    value, end = json.JSONDecoder(strict=False).raw_decode(text)
    if not isinstance(value, dict | list | str) and end < len(text) and text[end] not in " \t\r\n":
        raise ValueError
    return value


def _get_json_object(text: str, path: str) -> str | None:
    try:
        value = _json(text)
    except ValueError:
        return None
    for name, place in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        if name:
            if not isinstance(value, dict) or name not in value:
                return None
            value = value[name]
        else:
            if not isinstance(value, list) or int(place) >= len(value):
                return None
            value = value[int(place)]
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return str(convert(value, Type.DOUBLE, Type.STRING))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json_array_length(text: str) -> int | None:
    try:
        value = _json(text)
    except ValueError:
        return None
    return len(value) if isinstance(value, list) else None


def _date(function: Callable[..., Any]) -> Scalar:
    """Apply a function of a day, given as TIMESTAMP or DATE, and further values."""

    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        if None in args:
            return None
        day = instant_of(lift(args[0], types[0], Type.TIMESTAMP)).date()
        value = function(day, *args[1:])
        return (value - _EPOCH).days if isinstance(value, datetime.date) else value

    return scalar


def _add_months(day: datetime.date, months: int) -> datetime.date | None:
    count = day.year * 12 + day.month - 1 + months
    year, month = divmod(count, 12)
    if not 1 <= year <= 9999:
        return None
    return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _months_between(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if None in args:
        return None
    end, start = (instant_of(lift(arg, type_, Type.TIMESTAMP)) for arg, type_ in zip(args, types, strict=True))
    months = (end.year - start.year) * 12 + end.month - start.month
    lasts = [at.day == calendar.monthrange(at.year, at.month)[1] for at in (end, start)]
    if end.day == start.day or all(lasts):
        return float(months)
    seconds = [at.day * 86400 + at.hour * 3600 + at.minute * 60 + at.second for at in (end, start)]
    value = months + (seconds[0] - seconds[1]) / (31 * 86400)
    return float(decimal.Decimal(repr(value)).quantize(decimal.Decimal("1e-8"), decimal.ROUND_HALF_UP))


def _next_day(day: datetime.date, name: str) -> datetime.date:
    wanted = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"].index(name.upper()[:2])
    return next(later for n in range(1, 8) if (later := day + datetime.timedelta(days=n)).weekday() == wanted)


def _make_date(year: int, month: int, day: int) -> int | None:
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    return (datetime.date(year, month, day) - _EPOCH).days


def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int | None:
    midnight = _make_date(year, month, day)
    if midnight is None or not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 60):
        return None
    return midnight * DAY + hour * 3600 * SECOND + minute * 60 * SECOND + round(second * SECOND)


_LETTERS: dict[str, Callable[[datetime.datetime], str]] = {
    "yyyy": lambda at: f"{at.year:04d}",
    "MM": lambda at: f"{at.month:02d}",
    "MMM": lambda at: at.strftime("%b"),
    "dd": lambda at: f"{at.day:02d}",
    "d": lambda at: str(at.day),
    "HH": lambda at: f"{at.hour:02d}",
    "hh": lambda at: f"{(at.hour + 11) % 12 + 1:02d}",
    "a": lambda at: "AM" if at.hour < 12 else "PM",
    "mm": lambda at: f"{at.minute:02d}",
    "ss": lambda at: f"{at.second:02d}",
    "SSS": lambda at: f"{at.microsecond // 1000:03d}",
    "SSSSSS": lambda at: f"{at.microsecond:06d}",
    "E": lambda at: at.strftime("%a"),
    "EEEE": lambda at: at.strftime("%A"),
    "DDD": lambda at: f"{at.timetuple().tm_yday:03d}",
}


def _date_format(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if None in args:
        return None
    at = instant_of(lift(args[0], types[0], Type.TIMESTAMP))
    return "".join(
        _LETTERS[run](at) if run in _LETTERS else run for run in (m[0] for m in re.finditer(r"(.)\1*", args[1]))
    )


_FORMATS = {
    "yyyy-MM-dd": (r"\d{4}-\d\d-\d\d", "%Y-%m-%d"),
    "dd/MM/yyyy HH:mm": (r"\d\d/\d\d/\d{4} \d\d:\d\d", "%d/%m/%Y %H:%M"),
    "yyyyMMdd": (r"\d{8}", "%Y%m%d"),
}


def _parsed(text: str, pattern: str) -> int | None:
    shape, form = _FORMATS[pattern]
    if re.fullmatch(shape, text, re.ASCII) is None:
        return None
    try:
        return micros_of(datetime.datetime.strptime(text, form))  # noqa: DTZ007
    except ValueError:
        return None


def _parsed_day(text: str, pattern: str) -> int | None:
    instant = _parsed(text, pattern)
    return None if instant is None else instant // DAY


MORE: dict[str, Scalar] = {
    "asin": _real(math.asin),
    "acos": _real(math.acos),
    "atan": _real(math.atan),
    "atan2": _real(lambda y, x: math.atan2(y + 0.0, x + 0.0)),
    "sinh": _real(math.sinh),
    "cosh": _strict(lambda x: abs(_real(math.cosh)([x], [Type.DOUBLE], Type.DOUBLE))),
    "tanh": _real(math.tanh),
    "cot": _inverse(math.tan),
    "sec": _inverse(math.cos),
    "csc": _inverse(math.sin),
    "degrees": _real(math.degrees),
    "radians": _real(math.radians),
    "cbrt": _real(_cbrt),
    "hypot": _real(math.hypot),
    "expm1": _real(math.expm1),
    "log1p": _strict(_log1p),
    "log": _strict(_log),
    "pmod": _pmod,
    "factorial": _strict(lambda n: math.factorial(n) if 0 <= n <= 20 else None),
    "rint": _strict(lambda x: _rint(float(x))),
    "bround": _strict(_rounded_to_even),
    "isnan": lambda args, types, result: args[0] is not None and math.isnan(args[0]),
    "nanvl": _nanvl,
    "&": _bits(lambda x, y: x & y),
    "|": _bits(lambda x, y: x | y),
    "^": _bits(lambda x, y: x ^ y),
    "~": _bits(lambda x: -x - 1),
    "shiftleft": _bits(lambda x, n: x * 2 ** (n % 64)),
    "shiftright": _bits(lambda x, n: x // 2 ** (n % 64)),
    "shiftrightunsigned": _bits(lambda x, n: (x + 2**64 if x < 0 else x) // 2 ** (n % 64)),
    "bit_count": _strict(lambda x: (x if x >= 0 else x + 2**64).bit_count()),
    "hex": _strict(_hex),
    "bin": _strict(lambda x: format(x if x >= 0 else x + 2**64, "b")),
    "regexp_replace": _strict(_regexp_replace),
    "regexp_extract_all": _strict(_regexp_extract_all),
    "format_number": _strict(_format_number),
    "from_utc_timestamp": _zoned(_shown_there),
    "to_utc_timestamp": _zoned(_instant_there),
    "regexp_count": _strict(lambda s, pattern: len(re.findall(pattern, s))),
    "regexp_substr": _strict(_regexp_substr),
    "initcap": _strict(_initcap),
    "ascii": _strict(lambda s: ord(s[0]) if s else 0),
    "chr": _strict(lambda n: "" if n < 0 else chr(n % 256)),
    "repeat": _strict(lambda s, n: "".join(s for _ in range(n)) if len(s) * n <= GROWN_TEXT else None),
    "translate": _strict(_translate),
    "concat_ws": _concat_ws,
    "substring_index": _strict(_substring_index),
    "find_in_set": _strict(_find_in_set),
    "levenshtein": _strict(_levenshtein),
    "parse_url": _strict(parse_url),
    "url_encode": _strict(url_encode),
    "url_decode": _strict(url_decode),
    "bit_length": _strict(lambda s: 8 * len(_as_bytes(s))),
    "octet_length": _strict(lambda s: len(_as_bytes(s))),
    "md5": _strict(lambda s: hashlib.new("md5", _as_bytes(s)).hexdigest()),
    "sha1": _strict(lambda s: hashlib.new("sha1", _as_bytes(s)).hexdigest()),
    "sha2": _strict(lambda s, bits: hashlib.new(f"sha{bits or 256}", _as_bytes(s)).hexdigest()),
    "crc32": _strict(lambda s: binascii.crc32(_as_bytes(s))),
    "xxhash64": lambda args, types, result: xxhash64(args, types),
    "base64": _strict(_base64),
    "unbase64": _strict(_unbase64),
    "unhex": _strict(_unhex),
    "encode": _strict(_encode),
    "decode": _strict(_decode),
    "get_json_object": _strict(_get_json_object),
    "json_array_length": _strict(_json_array_length),
    "weekday": _date(lambda day: day.weekday()),
    "yearofweek": _date(lambda day: day.isocalendar().year),
    "add_months": _date(_add_months),
    "months_between": _months_between,
    "last_day": _date(lambda day: day.replace(day=calendar.monthrange(day.year, day.month)[1])),
    "next_day": _date(_next_day),
    "make_date": _strict(_make_date),
    "make_timestamp": _strict(_make_timestamp),
    "unix_date": _strict(lambda day: day),
    "date_from_unix_date": _strict(lambda n: n),
    "date_format": _date_format,
    "parse_timestamp": _strict(_parsed),
    "parse_date": _strict(_parsed_day),
}
