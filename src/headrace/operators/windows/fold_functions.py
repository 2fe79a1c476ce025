"""Functions that the steps of aggregates in SQL call, on single values; NULL is None."""

from __future__ import annotations

import math
from typing import Any

from headrace.errors import OperatorFault
from headrace.model.limits import FOLD_ROWS, GROWN_TEXT

#: Numbers from here on, and below its opposite, do not fit into BIGINT.
MOST = 2**63


def _wrap(value: int) -> int:
    return value if -MOST <= value < MOST else (value + MOST) % (2 * MOST) - MOST


def _to_int(value: float | None, limit: int) -> int | None:
    if value is None or not math.isfinite(value):
        return None
    number = math.trunc(value)
    return number if -limit <= number < limit else None


def _and(*terms: bool | None) -> bool | None:
    return False if any(term is False for term in terms) else None if None in terms else True


def _or(*terms: bool | None) -> bool | None:
    return True if any(term is True for term in terms) else None if None in terms else False


def _not(term: bool | None) -> bool | None:
    return None if term is None else not term


def _same(x: Any, y: Any) -> bool:
    return (x is None and y is None) if x is None or y is None else bool(_equal(x, y))


def _equal(x: Any, y: Any) -> bool:
    return bool(x == y) or (x != x and y != y)


def _in(x: Any, *choices: Any) -> bool | None:
    if x is None:
        return None
    if any(choice is not None and _equal(x, choice) for choice in choices):
        return True
    return None if None in choices else False


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _nullif(x: Any, y: Any) -> Any:
    return None if x is None or (y is not None and _equal(x, y)) else x


def _greatest(*values: Any) -> Any:
    known = [value for value in values if value is not None]
    return max(known, key=_key) if known else None


def _least(*values: Any) -> Any:
    known = [value for value in values if value is not None]
    return min(known, key=_key) if known else None


def _key(value: Any) -> tuple[bool, Any]:
    return (True, 0) if value != value else (False, value)


def _divide(x: float | None, y: float | None) -> float | None:
    return None if x is None or y is None or y == 0 else x / y


def _quotient(x: int | None, y: int | None) -> int | None:
    if x is None or y is None or y == 0:
        return None
    return _wrap(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))


def _remainder(x: Any, y: Any) -> Any:
    if x is None or y is None or y == 0:
        return None
    if isinstance(x, float) or isinstance(y, float):
        return math.fmod(x, y) if math.isfinite(x) else math.nan
    return abs(x) % abs(y) * (1 if x >= 0 else -1)


def _sign(x: float | None) -> float | None:
    return None if x is None else math.nan if x != x else float((x > 0) - (x < 0))


def _floor(x: float | None) -> int | None:
    return None if x is None or not math.isfinite(x) else math.floor(x)


def _ceil(x: float | None) -> int | None:
    return None if x is None or not math.isfinite(x) else math.ceil(x)


def _sqrt(x: float | None) -> float | None:
    return None if x is None else math.sqrt(x) if x >= 0 else math.nan


def _length(x: str | None) -> int | None:
    return None if x is None else len(x)


def _joined(*texts: str) -> str | None:
    return "".join(texts) if sum(map(len, texts)) <= GROWN_TEXT else None


def _check_rows(rows: list[Any], name: str) -> None:
    """Refuse a table that doubles with every tuple, before it takes all memory."""
    if len(rows) > FOLD_ROWS:
        raise OperatorFault(
            f"the table {name} of an aggregate has more than {FOLD_ROWS:,} rows",
            hint=f"limit it: TABLE {name}(...) KEEP 100 ROWS",
        )


CALLS = {
    "and": "and_", "or": "or_", "not": "not_", "<=>": "same", "in": "in_", "coalesce": "coalesce", "nullif": "nullif",
    "greatest": "greatest", "least": "least", "/": "divide", "%": "remainder", "div": "quotient", "sign": "sign",
    "floor": "floor", "ceil": "ceil", "sqrt": "sqrt", "length": "length",
}  # fmt: skip
#: Functions that steps can apply.
KNOWN = frozenset({"+", "-", "*", "neg", "abs", "=", "<>", "<", "<=", ">", ">=", "is_null", "||", *CALLS})
HELPERS: dict[str, Any] = {
    "__builtins__": {"float": float, "abs": abs, "len": len},
    "wrap": _wrap,
    "wrap_maybe": lambda value: None if value is None else _wrap(value),
    "to_int": _to_int, "and_": _and, "or_": _or, "not_": _not, "same": _same, "in_": _in,
    "coalesce": _coalesce, "nullif": _nullif, "greatest": _greatest, "least": _least, "divide": _divide,
    "remainder": _remainder, "quotient": _quotient, "sign": _sign, "floor": _floor, "ceil": _ceil, "sqrt": _sqrt,
    "length": _length, "joined": _joined, "check_rows": _check_rows,
}  # fmt: skip
