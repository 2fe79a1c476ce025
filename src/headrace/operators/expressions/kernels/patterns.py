"""LIKE and regular expressions; patterns are constants."""

from __future__ import annotations

import polars as pl

from headrace.model.expressions.regular_expressions import check_pattern
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel


def like(flags: str) -> Kernel:
    """Return the kernel of LIKE with flags of a regular expression."""

    def kernel(args: Arguments) -> pl.Expr:
        pattern = args.text(1)
        return (
            args.null()
            if pattern is None
            else args.get(0, Type.STRING).str.contains(rf"(?{flags})\A{_translate(pattern)}\z")
        )

    return kernel


def rlike(args: Arguments) -> pl.Expr:
    """Return whether a pattern matches somewhere."""
    pattern = checked(args)
    return args.null() if pattern is None else args.get(0, Type.STRING).str.contains(pattern)


def regexp_extract(args: Arguments) -> pl.Expr:
    """Return a group of the first match."""
    pattern, group = checked(args), 1 if len(args) == 2 else args.number(2)
    if pattern is None or group is None:
        return args.null()
    text = args.get(0, Type.STRING)
    return pl.coalesce(text.str.extract(pattern, group), pl.when(text.is_not_null()).then(pl.lit("")))


def _translate(pattern: str) -> str:
    parts, escaped = [], False
    for i, character in enumerate(pattern):
        if escaped:
            parts.append(pl.escape_regex(character))
            escaped = False
        elif character == "\\" and i + 1 < len(pattern):
            escaped = True
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or pl.escape_regex(character))
    return "".join(parts)


def checked(args: Arguments) -> str | None:
    """Return the pattern, argument 1, after trying it; None for NULL."""
    pattern = args.text(1)
    return None if pattern is None else check_pattern(pattern)
