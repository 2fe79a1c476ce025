"""Text, continued: what is computed row by row, and replacements by regular expression."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

import polars as pl

from headrace.model.expressions.regular_expressions import check_pattern, reference
from headrace.model.limits import GROWN_TEXT
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each, rows
from headrace.operators.expressions.kernels.patterns import checked

#: Digits after the point that Java writes at most.
_DIGITS = 340


def _initcap(text: str) -> str:
    """Return each word, after a blank, with a capital first letter and small ones after it."""
    return " ".join(_capital(word[:1]) + word[1:].lower() for word in text.split(" "))


def _capital(letter: str) -> str:
    upper = letter.upper()
    return upper if len(upper) == len(letter) else letter  # there is no capital ß


def _chr(n: int) -> str:
    return "" if n < 0 else chr(n & 0xFF)


def _repeat(args: Arguments) -> pl.Expr:
    count = args.number(1)
    if count is None:
        return args.null()
    return each(lambda text, _: repeated(text, count), args, [Type.STRING, Type.BIGINT])


def repeated(text: str, count: int) -> str | None:
    """Return a text so many times; NULL if it would be too long."""
    return text * max(0, count) if len(text) * count <= GROWN_TEXT else None


def _translate(args: Arguments) -> pl.Expr:
    source, target = args.text(1), args.text(2)
    if source is None or target is None:
        return args.null()
    table: dict[int, str | None] = {}
    for position, character in enumerate(source):
        table.setdefault(ord(character), target[position] if position < len(target) else None)
    return each(lambda text, *_: text.translate(table), args, [Type.STRING])


def _concat_ws(args: Arguments) -> pl.Expr:
    separator = args.text(0)
    if separator is None:
        return args.null()
    parts = [args.get(i, Type.STRING) for i in range(1, len(args))]
    return pl.concat_str(parts, separator=separator, ignore_nulls=True) if parts else pl.lit("")


def _substring_index(text: str, separator: str, count: int) -> str:
    """Return the text before the count-th separator, or if count is negative after it, counted from the end."""
    if not separator or count == 0:
        return ""
    position = -1 if count > 0 else len(text)
    for _ in range(abs(count)):
        position = text.find(separator, position + 1) if count > 0 else _before(text, separator, position)
        if position < 0:
            return text
    return text[:position] if count > 0 else text[position + len(separator) :]


def _before(text: str, separator: str, position: int) -> int:
    """Find the last separator that begins before a position, also if it overlaps with one there."""
    return text.rfind(separator, 0, position - 1 + len(separator)) if position > 0 else -1


def _find_in_set(text: str, listed: str) -> int:
    if "," in text:
        return 0
    parts = listed.split(",")
    return parts.index(text) + 1 if text in parts else 0


def _levenshtein(left: str, right: str) -> int:
    previous = list(range(len(right) + 1))
    for row, a in enumerate(left, start=1):
        current = [row]
        for column, b in enumerate(right, start=1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (a != b)))
        previous = current
    return previous[-1]


def _regexp_replace(args: Arguments) -> pl.Expr:
    pattern, replacement = _not_empty(args), args.text(2)
    if pattern is None or replacement is None:
        return args.null()
    return args.get(0, Type.STRING).str.replace_all(pattern, reference(replacement))


def _not_empty(args: Arguments) -> str | None:
    pattern = args.text(1)
    return None if pattern is None else check_pattern(pattern, may_be_empty=False)


def _regexp_count(args: Arguments) -> pl.Expr:
    pattern = _not_empty(args)
    return args.null() if pattern is None else args.get(0, Type.STRING).str.count_matches(pattern).cast(pl.Int64)


def _regexp_substr(args: Arguments) -> pl.Expr:
    pattern = checked(args)
    return args.null() if pattern is None else args.get(0, Type.STRING).str.extract(pattern, 0)


def _regexp_extract_all(args: Arguments) -> pl.Expr:
    pattern, group = args.text(1), 1 if len(args) == 2 else args.number(2)
    if pattern is None or group is None:
        return args.null()
    search = re.compile(pattern)
    return rows(lambda text, *_: [found[group] or "" for found in search.finditer(text)], args)


def _format_number(args: Arguments) -> pl.Expr:
    digits = args.number(1)
    if digits is None or digits < 0:
        return args.null()
    return rows(lambda value, _: format_number(value, min(digits, _DIGITS)), args)


def format_number(value: int | float | Decimal, digits: int) -> str:
    """Write a number as Java's DecimalFormat does: its shortest digits, unless more than so many are rounded."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    shortest = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    exponent = shortest.as_tuple().exponent
    exact = Decimal(value) if isinstance(exponent, int) and -exponent > digits else shortest
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN, Context(prec=800)):,f}"


TEXTS: dict[str, Kernel] = {
    "initcap": lambda args: each(_initcap, args, [Type.STRING]),
    "ascii": lambda args: each(lambda text: ord(text[0]) if text else 0, args, [Type.STRING]),
    "chr": lambda args: each(_chr, args, [Type.BIGINT]),
    "repeat": _repeat,
    "translate": _translate,
    "concat_ws": _concat_ws,
    "substring_index": lambda args: each(_substring_index, args, [Type.STRING, Type.STRING, Type.BIGINT]),
    "find_in_set": lambda args: each(_find_in_set, args, [Type.STRING]),
    "levenshtein": lambda args: each(_levenshtein, args, [Type.STRING]),
    "bit_length": lambda args: args.get(0, Type.BINARY).bin.size().cast(pl.Int64) * 8,
    "octet_length": lambda args: args.get(0, Type.BINARY).bin.size().cast(pl.Int64),
    "regexp_replace": _regexp_replace,
    "regexp_extract_all": _regexp_extract_all,
    "format_number": _format_number,
    "regexp_count": _regexp_count,
    "regexp_substr": _regexp_substr,
}
