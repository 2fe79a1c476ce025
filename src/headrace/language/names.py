"""What types are called in text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from headrace.model.types import Type

TYPE_NAMES: dict[str, Type] = {
    "BOOLEAN": Type.BOOLEAN, "BOOL": Type.BOOLEAN,
    "TINYINT": Type.INT, "SMALLINT": Type.INT, "INT": Type.INT, "INTEGER": Type.INT,
    "BIGINT": Type.BIGINT, "LONG": Type.BIGINT,
    "FLOAT": Type.FLOAT, "REAL": Type.FLOAT, "DOUBLE": Type.DOUBLE, "DOUBLE PRECISION": Type.DOUBLE,
    "STRING": Type.STRING, "TEXT": Type.STRING, "VARCHAR": Type.STRING, "CHAR": Type.STRING,
    "DATE": Type.DATE, "TIMESTAMP": Type.TIMESTAMP, "TIMESTAMPTZ": Type.TIMESTAMP, "TIMESTAMP_NTZ": Type.TIMESTAMP, "TIMESTAMP_LTZ": Type.TIMESTAMP,
    "TIMESTAMPNTZ": Type.TIMESTAMP, "TIMESTAMPLTZ": Type.TIMESTAMP,
    "INTERVAL": Type.INTERVAL, "BINARY": Type.BINARY, "BYTES": Type.BINARY, "VARBINARY": Type.BINARY,
}  # fmt: skip


def near(name: str, known: Iterable[str]) -> str | None:
    """Of the known names the one most like `name`, whatever the case; None if none is like it."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str | None = None) -> str | None:
    """A hint that names the nearest known name."""
    found = near(name, known)
    return otherwise if found is None else f"did you mean {found!r}?"
