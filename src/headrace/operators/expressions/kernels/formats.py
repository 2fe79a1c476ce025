"""Instants as texts in a format of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from headrace.model.expressions.date_formats import instant_reader, lasting, strftime_format
from headrace.model.time import DAY
from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each

#: Instants are written one by one if fewer than so many in a row are written alike, on average.
_LEAST_RUN = 4


def _date_format(args: Arguments) -> pl.Expr:
    pattern = args.text(1)
    if pattern is None:
        return args.null()
    form, step = strftime_format(pattern), lasting(pattern)
    return args.get(0, Type.TIMESTAMP).map_batches(
        lambda instants: _write(instants, form, step), return_dtype=pl.String(), is_elementwise=True
    )


def _write(instants: pl.Series, form: str, step: int) -> pl.Series:
    """Write instants in a format; those in a row that are in the same step are written once."""
    if instants.null_count() or len(instants) < _LEAST_RUN or step == 1:
        return instants.dt.strftime(form)
    steps = (instants.to_physical() // step).to_numpy()
    starts = np.flatnonzero(np.append(True, steps[1:] != steps[:-1]))
    if len(starts) * _LEAST_RUN > len(steps):
        return instants.dt.strftime(form)
    texts = instants.gather(starts).dt.strftime(form)
    if len(starts) == 1:
        return texts.new_from_index(0, len(steps))
    return texts.gather(np.repeat(np.arange(len(starts)), np.diff(starts, append=len(steps))))


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
