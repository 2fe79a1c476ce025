"""Names in text: those of types, and the known name that a misspelled one is most like."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from headrace.model.types import MOST_DIGITS, DataType, DecimalType, Type

TYPE_NAMES: dict[str, DataType] = {
    "BOOLEAN": Type.BOOLEAN, "BOOL": Type.BOOLEAN,
    "TINYINT": Type.INT, "SMALLINT": Type.INT, "INT": Type.INT, "INTEGER": Type.INT,
    "BIGINT": Type.BIGINT, "LONG": Type.BIGINT,
    "FLOAT": Type.FLOAT, "REAL": Type.FLOAT, "DOUBLE": Type.DOUBLE, "DOUBLE PRECISION": Type.DOUBLE,
    "STRING": Type.STRING, "TEXT": Type.STRING, "VARCHAR": Type.STRING, "CHAR": Type.STRING,
    "DATE": Type.DATE, "TIMESTAMP": Type.TIMESTAMP, "TIMESTAMPTZ": Type.TIMESTAMP,
    "TIMESTAMP_NTZ": Type.TIMESTAMP, "TIMESTAMP_LTZ": Type.TIMESTAMP, "TIMESTAMPNTZ": Type.TIMESTAMP,
    "TIMESTAMPLTZ": Type.TIMESTAMP,
    "INTERVAL": Type.INTERVAL, "BINARY": Type.BINARY, "BYTES": Type.BINARY, "VARBINARY": Type.BINARY,
}  # fmt: skip


#: Names of the type DECIMAL, and its digits if none are written.
DECIMAL_NAMES = ("DECIMAL", "DEC", "NUMERIC")
DEFAULT_DECIMAL = DecimalType(10, 0)


def decimal_type(precision: int, scale: int) -> DecimalType:
    """Return DECIMAL(precision, scale); ValueError if there is no such type."""
    if not 1 <= precision <= MOST_DIGITS:
        raise ValueError(f"a DECIMAL has 1 to {MOST_DIGITS} digits, not {precision}")
    if not 0 <= scale <= precision:
        raise ValueError(f"DECIMAL({precision},{scale}) would have more digits after the point than digits")
    return DecimalType(precision, scale)


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, whatever the case; None if none differs in a few letters only."""
    written = name.lower()
    by_lower = {candidate.lower(): candidate for candidate in known}
    candidates = difflib.get_close_matches(written, by_lower, n=1, cutoff=0.75)
    candidates += [candidate for candidate in by_lower if _differ_in_one_letter(written, candidate)]
    return by_lower[candidates[0]] if candidates else None


def did_you_mean(
    name: str, known: Iterable[str], *, elsewhere: Mapping[str, str] | None = None, otherwise: str | None = None
) -> str | None:
    """Return a hint for an unknown name: that of `elsewhere`, else the nearest known name, else `otherwise`.

    `elsewhere` has hints for the words of other systems.
    """
    hint = (elsewhere or {}).get(name)
    if hint is not None:
        return hint
    candidate = near(name, known)
    return otherwise if candidate is None else f"did you mean {candidate!r}?"


def _differ_in_one_letter(a: str, b: str) -> bool:
    return len(a) == len(b) > 2 and sum(x != y for x, y in zip(a, b, strict=True)) == 1
