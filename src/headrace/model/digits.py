"""DECIMAL columns and their digits: the values without their point, as 128-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

import polars as pl
import pyarrow as pa

from headrace.model.types import MOST_DIGITS, DecimalType

#: Results below this can be computed with 128 bits, a tie and a sign included.
SAFE = 2**126
WIDE = pl.Int128()
_EXACT = Context(prec=1100)
#: Integers up to here, and powers of ten up to 22, are exact as DOUBLE: their quotient is the nearest DOUBLE.
_EXACT_DOUBLE, _EXACT_POWER = 2**53, 22
#: Numbers as people write them, which the library reads exactly if it need not round.
_PLAIN = r"^[+-]?([0-9]+(\.[0-9]{0,%d})?|\.[0-9]{1,%d})$"


def to_column(digits: pl.Series, type_: DecimalType) -> pl.Series:
    """Return DECIMALs from their digits (128-bit integers); NULL where these are more than the type has."""
    limit = pl.lit(10**type_.precision - 1, dtype=WIDE)
    x = pl.col(digits.name)
    kept = digits.to_frame().select(
        pl.when((x <= limit) & (x >= opposite(limit))).then(x).cast(pl.Decimal(MOST_DIGITS, 0))
    )
    whole = kept.to_series().to_arrow()
    # the same integers with the point elsewhere
    array = pa.Array.from_buffers(
        pa.decimal128(type_.precision, type_.scale), len(whole), whole.buffers(), offset=whole.offset
    )
    column = pl.from_arrow(array)
    assert isinstance(column, pl.Series)
    return column.rename(digits.name)


def to_digits(column: pl.Series) -> pl.Series:
    """Return the digits of DECIMALs as 128-bit integers."""
    return column.to_physical().cast(WIDE)


def from_integers(values: list[int | None], type_: DecimalType) -> pl.Series:
    """Return DECIMALs from digits as Python holds them, however many."""
    limit = 10**type_.precision
    fitting = [value if value is not None and -limit < value < limit else None for value in values]
    return to_column(pl.Series(fitting, dtype=WIDE), type_)


def rescaled(digits: pl.Series, scale: int, type_: DecimalType) -> pl.Series:
    """Return numbers with `scale` digits after the point as DECIMALs of a type, rounded."""
    power = type_.scale - scale
    if power > 0 and largest(digits) * 10**power >= SAFE:
        return from_integers([None if x is None else x * 10**power for x in digits.to_list()], type_)
    return to_column(digits.to_frame().select(shifted(pl.col(digits.name), power)).to_series(), type_)


def parsed(text: str | float, scale: int) -> int | None:
    """Return the digits of a number as it is written; None if it is none."""
    if isinstance(text, str) and "_" in text:
        return None  # Python takes 1_000
    try:
        value = Decimal(text) if isinstance(text, str) else Decimal(repr(text))
    except ArithmeticError:
        return None
    if not value.is_finite() or value.adjusted() > 2 * MOST_DIGITS:
        return None
    return int(value.scaleb(scale, _EXACT).quantize(Decimal(1), rounding=ROUND_HALF_UP, context=_EXACT))


def digits_of(value: Decimal, scale: int) -> int:
    """Return the digits of one value."""
    return int(value.scaleb(scale, _EXACT))


def with_point(digits: int, scale: int) -> Decimal:
    """Return the number whose digits these are."""
    return Decimal(digits).scaleb(-scale, _EXACT)


def largest(digits: pl.Series) -> int:
    """Return the greatest number without its sign."""
    low, high = digits.min(), digits.max()
    return max(abs(int(low)), abs(int(high))) if low is not None and high is not None else 0  # type: ignore[arg-type]


def shifted(x: pl.Expr, power: int) -> pl.Expr:
    """Return x times 10 to a power, rounded."""
    if power >= 0:
        return x * ten(power) if power else x
    return quotient(x, ten(-power)) if -power <= MOST_DIGITS else x * 0


def opposite(x: pl.Expr) -> pl.Expr:
    """Return -x, which the library does not have for 128 bits."""
    return pl.lit(0, dtype=WIDE) - x


def ten(power: int) -> pl.Expr:
    """Return a power of ten as a constant."""
    return pl.lit(10**power, dtype=WIDE)


def quotient(x: pl.Expr, y: pl.Expr) -> pl.Expr:
    """Return x / y, rounded half away from zero; NULL for y = 0."""
    n, d = x.abs(), y.abs()
    whole = n // d
    rest = n - whole * d
    rounded = whole + (rest >= d - rest).cast(WIDE)
    return pl.when((x < 0) != (y < 0)).then(opposite(rounded)).otherwise(rounded)


def from_text(text: pl.Series, type_: DecimalType) -> pl.Series:
    """Return the DECIMALs that texts write, rounded; NULL for what is no number or too large."""
    text = text.str.strip_chars()
    plain = text.str.contains(_PLAIN % (type_.scale, max(type_.scale, 1))).fill_null(True)
    if plain.all():
        return text.cast(type_.polars, strict=False)
    known = {value: parsed(value, type_.scale) for value in text.unique().drop_nulls().to_list()}
    return from_integers([None if value is None else known[value] for value in text.to_list()], type_)


def from_floats(numbers: pl.Series, type_: DecimalType) -> pl.Series:
    """Return DOUBLEs as DECIMALs: the shortest text of a number counts, as in Spark."""
    values = numbers.cast(pl.Float64).to_list()
    return from_integers([None if value is None else parsed(value, type_.scale) for value in values], type_)


def to_floats(column: pl.Series) -> pl.Series:
    """Return the nearest DOUBLEs of DECIMALs."""
    digits, dtype = to_digits(column), column.dtype
    assert isinstance(dtype, pl.Decimal)
    if largest(digits) <= _EXACT_DOUBLE and dtype.scale <= _EXACT_POWER:
        # the library would multiply by the inverse of the power, which is not exact
        floats = pl.Series(column.name, digits.fill_null(0).cast(pl.Float64).to_numpy() / 10.0**dtype.scale)
        return floats.set(column.is_null(), None) if column.null_count() else floats
    return column.cast(pl.String).cast(pl.Float64)


def to_integers(column: pl.Series, dtype: pl.DataType, *, factor: int = 1) -> pl.Series:
    """Return DECIMALs times a factor as integers, without their fraction; NULL for what does not fit."""
    kind = column.dtype
    assert isinstance(kind, pl.Decimal)
    digits = to_digits(column)
    if largest(digits) * factor >= SAFE:
        values: Sequence[int | None] = [
            None if value is None else abs(value) * factor // 10**kind.scale * (-1 if value < 0 else 1)
            for value in digits.to_list()
        ]
        limit = 2**63
        fitting = [value if value is not None and -limit <= value < limit else None for value in values]
        return pl.Series(fitting, dtype=pl.Int64).cast(dtype, strict=False)
    x = pl.col(digits.name) * pl.lit(factor, dtype=WIDE)
    whole = x.abs() // ten(kind.scale)
    return (
        digits.to_frame()
        .select(pl.when(x < 0).then(opposite(whole)).otherwise(whole).cast(dtype, strict=False))
        .to_series()
    )
