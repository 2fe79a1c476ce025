"""Reads the options of a query: `(latency '500 ms' MUST, error 0.15, shed SMALLEST speed, ordered)`.

Values are kept as written. The class of a promise, such as MUST, is kept under `name.class`, the percentile of a
latency under `latency.percentile`, the column to shed by under `shed.attribute` and `shed.center`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from sqlglot.tokenizer_core import TokenType

from headrace.errors import NameFault, Span, SyntaxFault
from headrace.language.names import did_you_mean
from headrace.language.reader import Reader
from headrace.language.syntax.names import Name
from headrace.model.keep import KEEP
from headrace.model.option import Option
from headrace.model.qos import METRICS, OPTIONS, qos_of

_CLASSES = (("MUST",), ("BEST", "EFFORT"), ("DONT", "CARE"))
_PERCENTILE = re.compile(r"P\d+")
NONE = "NONE"


class Options(NamedTuple):
    """Values by name, and where those that were written with a name stand."""

    values: dict[str, Option]
    spans: dict[str, Span]


def read_options(reader: Reader) -> Options:
    """Read the options of CREATE QUERY ... WITH."""
    return _options(reader, (*OPTIONS, "ordered", "early", "force", "late_binding", KEEP), removable=False)


def read_promises(reader: Reader) -> Options:
    """Read the options of ALTER QUERY ... SET; NONE removes a promise, and `force` makes one that may not hold."""
    return _options(reader, (*OPTIONS, "force"), removable=True)


def read_effort(reader: Reader) -> Options:
    """Read the options of CREATE RULE ... WITH: how often an action is tried, for how long, and a promise."""
    return _options(reader, ("timeout", "tries", "cascade", "force", "latency", "late_binding"), removable=False)


def result_order(options: Mapping[str, Option]) -> bool | str:
    """Return whether results come in timestamp order.

    'merge' if unions merge their inputs instead of sorting the results.
    """
    chosen = options.get("ordered", False)
    if isinstance(chosen, bool):
        return chosen
    if str(chosen).lower() == "merge":
        return "merge"
    raise NameFault(f"results cannot be ordered by {chosen!r}", hint="write WITH (ordered) or WITH (ordered merge)")


def _options(reader: Reader, known: tuple[str, ...], *, removable: bool) -> Options:
    options: dict[str, Option] = {}
    spans: dict[str, Span] = {}
    reader.expect("(")
    while not reader.accept(")"):
        name = reader.name("the name of an option")
        key = name.text.lower()
        if key not in known:
            otherwise = f"options are {', '.join(known)}"
            raise NameFault(
                f"option {name.text!r} does not exist",
                span=name.span,
                hint=did_you_mean(key, known, otherwise=otherwise),
            )
        if key in options:
            raise _twice(name, key)
        start = reader.position
        options.update(_option(reader, name, removable))
        spans[key] = (
            Span(reader.tokens[start].start, reader.tokens[reader.position - 1].end + 1)
            if start < reader.position
            else name.span
        )
        if reader.word() != ")":
            reader.expect(",")
    return Options(options, spans)


def _twice(name: Name, key: str) -> SyntaxFault:
    if key != "latency":
        return SyntaxFault(f"option {key!r} is given twice", span=name.span, hint="give it once")
    return SyntaxFault(
        "a query promises one latency: the mean, or one percentile",
        span=name.span,
        hint="keep the stricter one, such as latency p99 '2 s' MUST; a query on its results can promise the other: "
        "CREATE QUERY name WITH (latency p50 '1 s') AS SELECT * FROM query INTO MEMORY",
    )


def _option(reader: Reader, name: Name, removable: bool) -> dict[str, Option]:
    key = name.text.lower()
    reader.accept("=")
    start = reader.position
    if (removable or key == KEEP) and reader.accept(NONE):
        return {key: NONE}
    percentile = _percentile(reader) if key == "latency" else None
    value = reader.option()
    values: dict[str, Option] = {key: True if value is None else value}
    if percentile is not None:
        values["latency.percentile"] = percentile
    for words in _CLASSES if key in METRICS else ():
        if reader.accept(*words):
            values[f"{key}.class"] = " ".join(words)
    if key == "shed" and value is not None and reader.word() not in (")", ","):
        values["shed.attribute"] = reader.name("the attribute to shed by").text
        if reader.word() not in (")", ",") and (center := reader.option()) is not None:
            values["shed.center"] = center
    try:
        qos_of(values)
    except ValueError as error:
        span = (
            Span(reader.tokens[start].start, reader.tokens[reader.position - 1].end + 1)
            if start < reader.position
            else name.span
        )
        raise SyntaxFault(f"{key}: {error}", span=span) from error
    return values


def _percentile(reader: Reader) -> str | None:
    """Read p99 or p99.9, if it comes next; the tokenizer takes the latter apart."""
    if not _PERCENTILE.fullmatch(reader.word()):
        return None
    parts: list[str] = []
    while reader.token is not None and reader.token.token_type != TokenType.STRING and reader.word() not in (")", ","):
        parts.append(reader.token.text)
        reader.position += 1
    return "".join(parts)
