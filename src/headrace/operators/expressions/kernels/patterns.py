"""LIKE and regular expressions; patterns are constants."""

from __future__ import annotations

import polars as pl

from headrace.errors import NotSupported
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
    pattern = _checked(args)
    return args.null() if pattern is None else args.get(0, Type.STRING).str.contains(pattern)


def regexp_extract(args: Arguments) -> pl.Expr:
    """Return a group of the first match."""
    pattern, group = _checked(args), 1 if len(args) == 2 else args.number(2)
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


def _checked(args: Arguments) -> str | None:
    pattern = args.text(1)
    if pattern is not None:
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.ComputeError as error:
            reason = next(
                (line.removeprefix("error: ") for line in str(error).splitlines() if line.startswith("error: ")),
                "it cannot be parsed",
            )
            raise NotSupported(
                f"regular expression {pattern!r}: {reason}", hint="look-around and back-references do not exist here"
            ) from error
    return pattern
