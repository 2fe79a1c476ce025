"""Conditions for joins, as users write them in Python."""

from __future__ import annotations


def is_even(value: int) -> bool:
    """Return whether a value is even; takes about ten microseconds, like a look at a text or a model."""
    return sum(map(value.__and__, [1] * 200)) == 0


def is_round(value: int) -> bool:
    """Return whether a value is a multiple of ten; takes no time worth mentioning."""
    return value % 10 == 0
