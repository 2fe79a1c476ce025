"""TIMESTAMPDIFF(unit, start, end) and TIMESTAMPADD(unit, n, t): whole units of time between instants."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import NotSupported, Span, TypeFault
from headrace.language.names import did_you_mean
from headrace.model.expressions.expression import Expr, Literal
from headrace.model.time import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, WEEK
from headrace.model.types import Type
from headrace.plan.binding.expressions.function import apply

_UNITS = {
    "microsecond": MICROSECOND,
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": WEEK,
}
_DIFFERENCES = ("timestampdiff", "datediff", "date_diff")
_SUMS = ("timestampadd", "dateadd", "date_add")


def unit_of(function: str, words: Sequence[str], span: Span | None) -> int | None:
    """Return the unit that the first of three arguments names, in microseconds; None if the function has no unit."""
    name = function.lower()
    if name not in (*_DIFFERENCES, *_SUMS) or (len(words) != 3 and not name.startswith("timestamp")):
        return None
    if len(words) != 3:
        raise TypeFault(f"{function} takes 3 arguments, not {len(words)}", span=span, hint=_hint(name))
    unit = words[0].lower().removeprefix("sql_tsi_").removesuffix("s")
    if unit in ("month", "quarter", "year"):
        raise NotSupported(
            f"{function} cannot count in {unit}s, which have no fixed length",
            span=span,
            hint="write months_between(end, start) or add_months(d, n)",
        )
    if unit not in _UNITS:
        otherwise = f"units are {', '.join(_UNITS)}"
        raise TypeFault(
            f"{words[0] or 'the first argument'!r} is not a unit of {function}",
            span=span,
            hint=did_you_mean(unit, _UNITS, otherwise=otherwise),
        )
    return _UNITS[unit]


def shifted(function: str, unit: int, args: Sequence[Expr], span: Span | None) -> Expr:
    """Count the whole units between two instants, toward zero, or add units to an instant."""
    length = Literal(unit, Type.BIGINT)
    if function.lower() in _DIFFERENCES:
        start, end = (apply("unix_micros", (arg,), span, written=function) for arg in args)
        return apply("div", (apply("-", (end, start), span), length), span)
    micros = apply("unix_micros", (args[1],), span, written=function)
    moved = apply("+", (micros, apply("*", (args[0], length), span, written=function)), span)
    return apply("timestamp_micros", (moved,), span, written=function)


def _hint(name: str) -> str:
    return f"{name}(MINUTE, start, end)" if name in _DIFFERENCES else f"{name}(MINUTE, 5, t)"
