"""CAST between types: what cannot be converted becomes NULL.

Numbers print as in Java ('1.0E10'); a TIMESTAMP as a number is seconds since 1970. Text is read with blanks at both
ends ignored. No conversion looks at more than its own row: guessing a format from the first row would make results
depend on how tuples are cut into pages.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import polars as pl

from headrace.errors import NotSupported
from headrace.model import digits
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type

_SECOND = 1_000_000
_MOST = 2**63 - 1
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_TRUE = ["t", "true", "y", "yes", "1"]
_FALSE = ["f", "false", "n", "no", "0"]
#: The usual way to write an instant, which the library reads fast.
_PLAIN = r"^\d{4}-\d{1,2}-\d{1,2} \d{1,2}:\d{1,2}:[0-5]?\d(\.\d{1,9})?$"
#: Date, optionally time with fraction, optionally offset; like Spark, month, day, minute and second may be missing.
_INSTANT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r" ?(?:Z|UTC|([+-])(\d{1,2})(?::?(\d{2}))?)?)?)?)?)?",
    re.ASCII,
)
#: What a DATE reads: whatever comes after a whole date and a blank or T does not count, as in Spark.
_DAY = r"^(\d{4}-\d{1,2}-\d{1,2})[T ](?s:.*)$"


def convert(x: pl.Expr, source: DataType, target: DataType) -> pl.Expr:
    """Return the column `x` of type `source` as `target`."""
    if source == target:
        return x
    if source is Type.NULL:
        return x.cast(target.polars)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return x.list.eval(convert(pl.element(), source.element, target.element))
    match target:
        case Type.STRING:
            return _to_string(x, source)
        case Type.BOOLEAN:
            return _to_boolean(x, source)
        case Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE:
            return _to_number(x, source, target)
        case DecimalType():
            return _to_decimal(x, source, target)
        case Type.TIMESTAMP:
            return _to_timestamp(x, source)
        case Type.DATE if source is Type.TIMESTAMP:
            return x.cast(pl.Date)
        case Type.DATE if source is Type.STRING:
            text = x.str.strip_chars()
            return _parse_instant(pl.coalesce(text.str.extract(_DAY), text)).cast(pl.Date)
        case Type.BINARY if source is Type.STRING:
            return x.cast(pl.Binary)
        case Type.INTERVAL | Type.BINARY | Type.DATE | Type.NULL | ArrayType() | MapType() | StructType():
            raise _unsupported(source, target)


def _unsupported(source: DataType, target: DataType) -> NotSupported:
    return NotSupported(f"cannot cast {source.value} to {target.value}", hint="cast to STRING or to a number first")


def _to_string(x: pl.Expr, source: DataType) -> pl.Expr:
    match source:
        case Type.FLOAT | Type.DOUBLE:
            return x.map_batches(_print_floats, return_dtype=pl.String(), is_elementwise=True)
        case Type.TIMESTAMP:
            return x.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.replace(r"\.?0+$", "")
        case Type.DATE:
            return x.dt.strftime("%Y-%m-%d")
        case Type.BINARY:
            return x.map_batches(_decode, return_dtype=pl.String(), is_elementwise=True)
        case Type.INTERVAL:
            return x.map_batches(_print_intervals, return_dtype=pl.String(), is_elementwise=True)
        case Type.BOOLEAN | Type.INT | Type.BIGINT | Type.STRING | Type.NULL | DecimalType():
            return x.cast(pl.String)
        case ArrayType() | MapType() | StructType():
            raise _unsupported(source, Type.STRING)


def print_float(value: float) -> str:
    """Write one number as Java does."""
    if 1e-3 <= abs(value) < 1e7 or value == 0.0:
        return repr(value)
    return "NaN" if value != value else _scientific(repr(value))


def _print_floats(values: pl.Series) -> pl.Series:
    text = values.cast(pl.String)
    size = values.abs()
    # Java writes plain decimals between 1e-3 and 1e7 only; the library agrees there.
    odd = ((size < 1e-3) & (size != 0.0)) | (size >= 1e7) | values.is_nan()
    if not odd.any():
        return text
    return pl.Series(
        [
            _scientific(written) if strange else written
            for written, strange in zip(text.to_list(), odd.to_list(), strict=True)
        ],
        dtype=pl.String,
    )


def _scientific(text: str) -> str:
    if text == "NaN":
        return text
    if text in ("inf", "-inf"):
        return text.replace("inf", "Infinity")
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    written = "".join(map(str, digits))
    power = len(written) - 1 + int(exponent)
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{power}"


def _decode(values: pl.Series) -> pl.Series:
    return pl.Series(
        [None if value is None else value.decode("utf-8", errors="replace") for value in values.to_list()],
        dtype=pl.String,
    )


def _print_intervals(values: pl.Series) -> pl.Series:
    return pl.Series(
        [None if span is None else _print_interval(span) for span in values.to_physical().to_list()], dtype=pl.String
    )


def _print_interval(span: int) -> str:
    seconds, micros = divmod(abs(span), _SECOND)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"INTERVAL '{'-' if span < 0 else ''}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{fraction}' DAY TO SECOND"


def _to_boolean(x: pl.Expr, source: DataType) -> pl.Expr:
    if source is Type.STRING:
        text = x.str.strip_chars().str.to_lowercase()
        return text.replace_strict(
            [*_TRUE, *_FALSE], [True] * len(_TRUE) + [False] * len(_FALSE), default=None, return_dtype=pl.Boolean
        )
    if source.is_numeric:
        return x != 0
    raise _unsupported(source, Type.BOOLEAN)


def _to_number(x: pl.Expr, source: DataType, target: DataType) -> pl.Expr:
    match source:
        case Type.STRING if target.is_integer:
            return x.str.strip_chars().str.extract(r"^([+-]?\d+)(?:\.\d*)?$").cast(target.polars, strict=False)
        case Type.STRING:
            return x.str.strip_chars().cast(target.polars, strict=False)
        case Type.TIMESTAMP if target.is_integer:
            return (x.cast(pl.Int64) // _SECOND).cast(target.polars, strict=False)
        case Type.TIMESTAMP:
            return (x.cast(pl.Int64) / float(_SECOND)).cast(target.polars)
        case DecimalType() if target.is_integer:
            dtype = target.polars
            return x.map_batches(
                lambda column: digits.to_integers(column, dtype), return_dtype=dtype, is_elementwise=True
            )
        case DecimalType():
            floats = x.map_batches(digits.to_floats, return_dtype=pl.Float64(), is_elementwise=True)
            return floats if target is Type.DOUBLE else floats.cast(target.polars)
        case Type.BOOLEAN | Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE:
            return x.cast(target.polars, strict=False)
        case Type.DATE | Type.INTERVAL | Type.BINARY | Type.NULL | ArrayType() | MapType() | StructType():
            raise _unsupported(source, target)


def _to_decimal(x: pl.Expr, source: DataType, target: DecimalType) -> pl.Expr:
    def apply(column: pl.Series) -> pl.Series:
        match source:
            case Type.STRING:
                return digits.from_text(column, target)
            case Type.FLOAT | Type.DOUBLE:
                return digits.from_floats(column, target)
            case DecimalType(scale=scale):
                return digits.rescaled(digits.to_digits(column), scale, target)
            case _:
                return digits.rescaled(
                    column.to_physical().cast(pl.Int128), 6 if source is Type.TIMESTAMP else 0, target
                )

    if (
        source is not Type.BOOLEAN
        and source is not Type.STRING
        and source is not Type.TIMESTAMP
        and not source.is_numeric
    ):
        raise _unsupported(source, target)
    return x.map_batches(apply, return_dtype=target.polars, is_elementwise=True)


def _to_timestamp(x: pl.Expr, source: DataType) -> pl.Expr:
    match source:
        case Type.STRING:
            return _parse_instant(x)
        case Type.DATE:
            return x.cast(pl.Datetime("us"))
        case Type.INT | Type.BIGINT:
            return instants(x, _SECOND)
        case Type.FLOAT | Type.DOUBLE:
            return (x.cast(pl.Float64) * _SECOND).cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
        case DecimalType():
            return x.map_batches(
                lambda column: digits.to_integers(column, pl.Int64(), factor=_SECOND),
                return_dtype=pl.Int64(),
                is_elementwise=True,
            ).cast(pl.Datetime("us"))
        case (
            Type.BOOLEAN
            | Type.TIMESTAMP
            | Type.INTERVAL
            | Type.BINARY
            | Type.NULL
            | ArrayType()
            | MapType()
            | StructType()
        ):
            raise _unsupported(source, Type.TIMESTAMP)


def instants(x: pl.Expr, unit: int) -> pl.Expr:
    """Return whole numbers of units of so many microseconds as instants; NULL where there is none."""
    micros = x.cast(pl.Int64) * unit
    fits = x.cast(pl.Int64).is_between(-(_MOST // unit), _MOST // unit)
    return pl.when(fits).then(micros).cast(pl.Datetime("us"))


def _parse_instant(x: pl.Expr) -> pl.Expr:
    return x.map_batches(_read_instants, return_dtype=pl.Datetime("us"), is_elementwise=True)


def _read_instants(values: pl.Series) -> pl.Series:
    text = values.str.strip_chars()
    plain = text.str.contains(_PLAIN)
    read = text.set(~plain, None).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    if plain.all():
        return read
    rest = text.filter(~plain).unique().to_list()
    known = {written: instant for written in rest if (instant := _read_instant(written)) is not None}
    others = [known.get(written) if written is not None else None for written in text.to_list()]
    return read.zip_with(plain.fill_null(True), pl.Series(others, dtype=pl.Int64).cast(pl.Datetime("us")))


def _read_instant(text: str) -> int | None:
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    try:
        midnight = datetime.date(int(year), int(month or 1), int(day or 1)).toordinal() - _EPOCH
        datetime.time(int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    east = (int(zone_hour or 0) * 60 + int(zone_minute or 0)) * (-1 if sign == "-" else 1)
    minutes = midnight * 1440 + int(hour or 0) * 60 + int(minute or 0) - east
    return (minutes * 60 + int(second or 0)) * _SECOND + int((fraction or "0")[:6].ljust(6, "0"))
