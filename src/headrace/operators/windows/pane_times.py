"""Where panes and the windows that are made of them begin and end."""

from __future__ import annotations

import math
from typing import TypeVar

import polars as pl

from headrace.model.window import Cumulative, Landmark, Panes, Range

#: Start of a partial's pane, Int64.
PANE = "__pane"

_T = TypeVar("_T", int, pl.Expr)


def pane_length(window: Panes) -> int:
    """Return how long a pane of a window is."""
    match window:
        case Range(size=size, slide=slide):
            return math.gcd(size, slide)
        case Landmark(slide=slide):
            return slide
        case Cumulative(step=step):
            return step


def floor(time: _T, length: int, origin: int) -> _T:
    """Return the greatest time <= `time` that is a multiple of `length` after the origin."""
    return (time - origin) // length * length + origin


def ceiling(time: int, length: int, origin: int) -> int:
    """Return the least time >= `time` that is a multiple of `length` after the origin."""
    return -((origin - time) // length) * length + origin


def last_end(bound: _T, window: Range) -> _T:
    """Return the greatest window end <= bound."""
    return floor(bound - window.size, window.slide, window.offset) + window.size


def next_end(bound: _T, window: Range) -> _T:
    """Return the least window end > bound."""
    return last_end(bound, window) + window.slide
