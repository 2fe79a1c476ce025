"""Input streams of simulations: Poisson arrivals, bursts of simultaneous tuples, periodic bounds.

Every tuple has a column `x`, uniform below 1 (or `below`), with which selections keep a share. Its timestamp is the
time at which it enters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.graph.graph import VertexId
from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.model.types import Type
from headrace.operators.specs import Filter
from headrace.testing.simulation.engine import Arrival


def poisson(
    source: VertexId, rate: float, seconds: float, chance: np.random.Generator, *, below: float = 1.0
) -> list[Arrival]:
    """Generate `rate` independent tuples per second on average."""
    return bursts(source, rate, 1, seconds, chance, below=below)


def bursts(
    source: VertexId, rate: float, size: int, seconds: float, chance: np.random.Generator, *, below: float = 1.0
) -> list[Arrival]:
    """Generate `rate` tuples per second on average, `size` at a time; bursts are independent."""
    times = np.cumsum(chance.exponential(size / rate, _enough(rate / size * seconds)))
    return at_times(source, np.repeat(times[times < seconds] * SECOND, size), chance, below=below)


def at_times(
    source: VertexId, times: npt.NDArray[np.float64], chance: np.random.Generator, *, below: float = 1.0
) -> list[Arrival]:
    """Generate a tuple at each time, in microseconds; each is a page of its own, because operators take pages."""
    stamps = times.astype(np.int64)
    frame = pl.DataFrame({"x": below * chance.random(len(stamps)), TS: stamps})
    return [Arrival(stamp, source, Page(frame[row : row + 1])) for row, stamp in enumerate(stamps.tolist())]


def keep(share: float) -> Filter:
    """Return a selection that passes a share of the input; the n-th of a chain with share s is `keep(s**n)`."""
    return Filter(Call("<", (Column("x", Type.DOUBLE), Literal(share, Type.DOUBLE)), Type.BOOLEAN))


def _enough(expected: float) -> int:
    """Return a number of gaps that is sure to fill the time."""
    return int(expected + 10 * expected**0.5 + 20)
