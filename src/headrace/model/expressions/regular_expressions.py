"""Regular expressions and replacements that functions take as constants."""

from __future__ import annotations

import re

import polars as pl

from headrace.errors import NotSupported, TypeFault

_REFERENCE = re.compile(r"\\(.)|\$(\d)|(\$|\\)")


def check_pattern(pattern: str, *, may_be_empty: bool = True) -> str:
    """Return a pattern after trying it.

    One that matches the empty text (`may_be_empty`) is found at other places by Java than by the column library.
    """
    try:
        is_empty = pl.Series([""]).str.contains(pattern).item()
    except pl.exceptions.ComputeError as error:
        reason = next(
            (line.removeprefix("error: ") for line in str(error).splitlines() if line.startswith("error: ")),
            "it cannot be parsed",
        )
        raise NotSupported(
            f"regular expression {pattern!r}: {reason}", hint="look-around and back-references do not exist here"
        ) from error
    if is_empty and not may_be_empty:
        raise NotSupported(
            f"the regular expression {pattern!r} matches the empty text", hint="write for example x+ instead of x*"
        )
    return pattern


def reference(replacement: str) -> str:
    """Write $1 of Java as ${1}; a backslash takes the next character as it is."""

    def written(match: re.Match[str]) -> str:
        if match[1] is not None:
            return str(match[1]).replace("$", "$$")
        if match[2] is not None:
            return f"${{{match[2]}}}"
        raise TypeFault(
            f"{match[0]!r} in the replacement {replacement!r} stands before no group",
            hint="write $1 for the first group, and \\$ for the character itself",
        )

    return _REFERENCE.sub(written, replacement)
