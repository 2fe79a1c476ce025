"""Instants as texts in a format of their own."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.model.expressions.date_formats import instant_reader, strftime_format
from headrace.model.time import DAY
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each


def _date_format(args: Arguments) -> pl.Expr:
    pattern = args.text(1)
    return args.null() if pattern is None else args.get(0, Type.TIMESTAMP).dt.strftime(strftime_format(pattern))


def _parse(wrap: Callable[[int], int]) -> Kernel:
    """Make a kernel that reads a text in a format; `wrap` makes the value of the instant."""

    def kernel(args: Arguments) -> pl.Expr:
        pattern = args.text(1)
        if pattern is None:
            return args.null()
        read = instant_reader(pattern)

        def value(text: str, _: str) -> int | None:
            instant = read(text)
            return None if instant is None else wrap(instant)

        return each(value, args, [Type.STRING])

    return kernel


FORMATS: dict[str, Kernel] = {
    "date_format": _date_format,
    "parse_timestamp": _parse(lambda instant: instant),
    "parse_date": _parse(lambda instant: instant // DAY),
}
