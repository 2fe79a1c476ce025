"""Which tuples are occurrences of a primitive event, and when these began."""

from __future__ import annotations

import polars as pl

from headrace.model.events.event import Event, Primitive, spans
from headrace.model.events.rewrite import own_names
from headrace.model.schema import TS
from headrace.operators.expressions.evaluate import compile_predicate


def begins(column: str | None) -> pl.Expr:
    """Return when an occurrence began: at its tuple's timestamp, unless a column tells."""
    return pl.col(TS) if column is None else pl.col(column).to_physical()


def mask_tests(event: Event) -> tuple[pl.Expr | None, ...]:
    """Return for each primitive event from left to right, what must hold over the columns of its port; None: nothing.

    Besides the mask: what lasted longer than a WITHIN around it allows can be of no occurrence, so it must not replace
    or prevent another.
    """
    return tuple(_admission(part, span) for part, span in spans(event) if isinstance(part, Primitive))


def _admission(part: Primitive, span: int | None) -> pl.Expr | None:
    tests = [] if part.mask is None else [compile_predicate(own_names(part.mask))]
    if part.start is not None and span is not None:
        tests.append(pl.col(TS) - begins(part.start) <= span)
    return pl.all_horizontal(tests) if tests else None
