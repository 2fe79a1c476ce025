"""What generated columns hold: small specifications such as 'uniform(1, 40)' and drawing from them.

uniform(low, high), normal(mean, deviation), zipf(n, exponent) (ranks 1 to n), choice(a, b, c), constant(x), sequence,
and null(share, specification) that leaves out a share of the values.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.connectors.formats.conversion import convert
from headrace.connectors.options import near
from headrace.errors import QueryError, TypeFault
from headrace.model.digits import rescaled
from headrace.model.time import SECOND
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type


@dataclass(frozen=True, slots=True)
class Uniform:
    """Numbers between two bounds, both included for integers."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Normal:
    """Numbers around a mean."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Zipf:
    """Ranks from 1 to n, the first ones most often."""

    n: int
    exponent: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values, equally often."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """The tuple's number."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The tuple's event time."""


@dataclass(frozen=True, slots=True)
class Null:
    """Another specification with a share of the values left out."""

    share: float
    of: Values


Values: TypeAlias = Uniform | Normal | Zipf | Choice | Sequence | Moment | Null

_CALL = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_FORMS = (
    "uniform(low, high), normal(mean, deviation), zipf(n, s), choice(a, b), constant(x), sequence, null(share, ...)"
)
_KINDS = ("uniform", "normal", "zipf", "choice", "constant", "sequence", "null")


def parse_values(text: str, type_: DataType) -> Values:
    """Read a specification for a column of a type; QueryError if it is none."""
    call = _CALL.fullmatch(text)
    kind, inner = (call[1], call[2] or "") if call else (text, "")
    arguments = [part.strip() for part in inner.split(",")] if inner.strip() else []
    try:
        match kind, arguments:
            case "uniform", [low, high]:
                return _numeric(Uniform(float(low), float(high)), type_, text, ordered=float(low) <= float(high))
            case "normal", [mean, deviation]:
                return _numeric(Normal(float(mean), float(deviation)), type_, text, ordered=float(deviation) >= 0)
            case "zipf", [n, exponent]:
                return _numeric(Zipf(int(n), float(exponent)), type_, text, ordered=0 < int(n) <= 10_000_000)
            case "choice", [_, *_]:
                return _literal(Choice(tuple(_unquote(item) for item in arguments)), type_, text)
            case "constant", [_, *_]:
                return _literal(Choice((_unquote(inner),)), type_, text)
            case "sequence", []:
                return _numeric(Sequence(), type_, text, ordered=True)
            case "null", [share, _, *_] if 0 <= float(share) <= 1:
                return Null(float(share), parse_values(inner.split(",", 1)[1].strip(), type_))
            case _:
                hint = f"the forms are {_FORMS}"
                raise QueryError(
                    f"{text!r} is not a value specification", hint=hint if kind in _KINDS else near(kind, _KINDS)
                )
    except ValueError as error:
        raise QueryError(f"{text!r} is not a value specification: {error}") from None


def default_values(type_: DataType) -> Values:
    """Return the values of a column without a specification."""
    match type_:
        case Type.BOOLEAN:
            return Choice(("true", "false"))
        case Type.INT:
            return Uniform(0, 99)
        case Type.BIGINT:
            return Sequence()
        case Type.FLOAT | Type.DOUBLE | DecimalType():
            return Uniform(0, 1)
        case Type.STRING:
            return Choice(("a", "b", "c", "d", "e", "f", "g", "h"))
        case Type.DATE | Type.TIMESTAMP:
            return Moment()
        case Type.INTERVAL:
            return Uniform(0, 60)
        case Type.BINARY:
            return Choice(("AA==", "AQ=="))
        case Type.NULL | ArrayType() | MapType() | StructType():
            return Null(1, Choice(("",)))


def number_of_values(text: str | None, type_: DataType) -> float | None:
    """Return how many different values a column with this specification (None: its default) has; None: not known."""
    return _number(default_values(type_) if text is None else parse_values(text, type_), type_)


def _number(values: Values, type_: DataType) -> float | None:
    match values:
        case Uniform(low, high):
            return float(int(high) - int(low) + 1) if type_.is_integer else math.inf
        case Zipf(n, _):
            return float(n)
        case Choice(items):
            return float(len(set(items)))
        case Sequence() | Moment():
            return math.inf
        case Null(_, of):
            return _number(of, type_)
        case Normal():
            return None


def draw(
    values: Values, type_: DataType, rng: np.random.Generator, first: int, moments: npt.NDArray[np.int64]
) -> pl.Series:
    """Return a value for each of the tuples numbered from `first` on whose event times are `moments`."""
    count = len(moments)
    match values:
        case Null(share, of):
            missing = rng.random(count) < share
            return draw(of, type_, rng, first, moments).set(pl.Series(missing), None)
        case Choice(items):
            return _items(items, type_).gather(rng.integers(0, len(items), count))
        case Moment():
            return pl.Series(moments).cast(pl.Datetime("us")).cast(type_.polars)
        case _:
            return _carry(_numbers(values, rng, first, count, whole=type_.is_integer), type_)


def seconds(values: Values, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Draw spans of microseconds from a specification in seconds; none is below 0."""
    spans = draw(values, Type.DOUBLE, rng, 0, np.zeros(count, dtype=np.int64)).fill_null(0).to_numpy()
    micros: npt.NDArray[np.int64] = np.maximum(spans * SECOND, 0).astype(np.int64)
    return micros


def _numbers(
    values: Uniform | Normal | Zipf | Sequence, rng: np.random.Generator, first: int, count: int, *, whole: bool
) -> npt.NDArray[Any]:
    match values:
        case Uniform(low, high):
            return rng.integers(int(low), int(high), count, endpoint=True) if whole else rng.uniform(low, high, count)
        case Normal(mean, deviation):
            return rng.normal(mean, deviation, count)
        case Zipf(n, exponent):
            return np.searchsorted(_zipf(n, exponent), rng.random(count), side="right") + 1
        case Sequence():
            return np.arange(first, first + count)


def _carry(numbers: npt.NDArray[Any], type_: DataType) -> pl.Series:
    """Return numbers as a column: rounded for integers, seconds for spans and instants."""
    match type_:
        case Type.INT | Type.BIGINT:
            return pl.Series(np.rint(numbers).astype(np.int64) if numbers.dtype.kind == "f" else numbers).cast(
                type_.polars, wrap_numerical=True
            )
        case DecimalType(scale=scale):
            digits = np.rint(numbers * 10.0 ** min(scale, 15))
            return rescaled(pl.Series(digits).cast(pl.Int128), min(scale, 15), type_)
        case Type.INTERVAL | Type.TIMESTAMP:
            return pl.Series((numbers * SECOND).astype(np.int64)).cast(type_.polars)
        case _:
            return pl.Series(numbers).cast(type_.polars)


@functools.lru_cache(maxsize=16)
def _zipf(n: int, exponent: float) -> npt.NDArray[np.float64]:
    weights = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    edges: npt.NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    edges[-1] = 1.0
    return edges


def _items(items: tuple[str, ...], type_: DataType) -> pl.Series:
    return convert(pl.Series(items, dtype=pl.String), type_)


def _numeric(values: Values, type_: DataType, text: str, *, ordered: bool) -> Values:
    if not ordered:
        raise QueryError(f"{text!r} has numbers out of order or out of range")
    if not type_.is_numeric and type_ not in (Type.STRING, Type.INTERVAL, Type.TIMESTAMP):
        raise TypeFault(
            f"{text!r} generates numbers, but the column is {type_.value}", hint="use choice(...) or constant(...)"
        )
    return values


def _literal(values: Choice, type_: DataType, text: str) -> Values:
    if _items(values.items, type_).null_count():
        raise TypeFault(f"{text!r} contains a value that is not of type {type_.value}")
    return values


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
