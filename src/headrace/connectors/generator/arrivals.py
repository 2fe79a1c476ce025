"""When generated tuples arrive: arrival processes whose every stretch can be made on its own.

Generator time is cut into cells of fixed length, each with its own seed, so that the tuples of a cell are the same
whoever asks, in whatever order. Times are microseconds from the generator's beginning.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.model.time import MILLISECOND, SECOND

Times: TypeAlias = npt.NDArray[np.int64]
_Edges: TypeAlias = npt.NDArray[np.float64]

#: Tuples in a cell, about; cells are shorter than ten seconds and longer than ten milliseconds.
_CELL = 16_384
#: Shapes of the Pareto lengths of ON and OFF periods, and the mean length over the smallest: a / (a - 1).
ON_SHAPE, OFF_SHAPE = 1.4, 1.2
_ON_MEAN, _OFF_MEAN = 3.5, 6.0
_PERIODS = 256  # periods of a flow that are drawn together


@dataclass(frozen=True, slots=True)
class Constant:
    """Evenly spaced tuples."""

    rate: float


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent tuples: exponential gaps."""

    rate: float
    seed: int


@dataclass(frozen=True, slots=True)
class Bursty:
    """Poisson arrivals during `on` microseconds, then none during `off`; `rate` is the mean over both."""

    rate: float
    seed: int
    on: int
    off: int


@dataclass(frozen=True, slots=True)
class SelfSimilar:
    """The sum of ON/OFF flows with Pareto period lengths of at least `on` and `off`; exponential gaps in ON."""

    rate: float
    seed: int
    flows: int
    on: int
    off: int

    @property
    def duty(self) -> float:
        """Return the share of time a flow is ON: 3.5 b_on / (3.5 b_on + 6 b_off), 0.368 for equal b."""
        return _ON_MEAN * self.on / (_ON_MEAN * self.on + _OFF_MEAN * self.off)


Process: TypeAlias = Constant | Poisson | Bursty | SelfSimilar


def cell_length(process: Process) -> int:
    """Return how much generator time a cell takes."""
    return max(10 * MILLISECOND, min(10 * SECOND, round(_CELL / process.rate * SECOND)))


def count(process: Process, cell: int) -> int:
    """Return how many tuples arrive in a cell."""
    match process:
        case Constant():
            low, high = _constant_range(process, cell)
            return high - low
        case Poisson() | Bursty():
            return int(_rng(process.seed, cell).poisson(_expected(process, cell)))
        case SelfSimilar():
            return int(_flow_counts(process, cell, _rng(process.seed, cell))[2].sum())


def times(process: Process, cell: int) -> Times:
    """Return when the tuples of a cell arrive, ascending."""
    length = cell_length(process)
    match process:
        case Constant(rate):
            low, high = _constant_range(process, cell)
            return _inside(np.floor(np.arange(low, high) * (SECOND / rate)), cell, length)
        case Poisson(_, seed):
            rng = _rng(seed, cell)
            return np.sort(rng.integers(0, length, rng.poisson(_expected(process, cell)))) + cell * length
        case Bursty(_, seed, on, off):
            rng = _rng(seed, cell)
            number = rng.poisson(_expected(process, cell))
            low, high = _on_time(process, cell * length), _on_time(process, (cell + 1) * length)
            within = np.sort(rng.integers(low, max(high, low + 1), number))
            return within // on * (on + off) + within % on
        case SelfSimilar(_, seed):
            rng = _rng(seed, cell)
            begins, ends, counts = _flow_counts(process, cell, rng)
            spread = np.repeat(begins, counts) + rng.random(int(counts.sum())) * np.repeat(ends - begins, counts)
            return _inside(np.sort(spread), cell, length)


def _rng(seed: int, cell: int) -> np.random.Generator:
    return np.random.default_rng((seed, 1, cell))


def _inside(moments: _Edges, cell: int, length: int) -> Times:
    """Round to whole microseconds without carrying a tuple into the next cell."""
    whole: Times = np.clip(moments.astype(np.int64), cell * length, (cell + 1) * length - 1)
    return whole


def _constant_range(process: Constant, cell: int) -> tuple[int, int]:
    length = cell_length(process)
    return math.ceil(cell * length * process.rate / SECOND), math.ceil((cell + 1) * length * process.rate / SECOND)


def _expected(process: Poisson | Bursty, cell: int) -> float:
    length = cell_length(process)
    match process:
        case Poisson(rate):
            return rate * length / SECOND
        case Bursty(rate, _, on, off):
            spent = _on_time(process, (cell + 1) * length) - _on_time(process, cell * length)
            return rate * (on + off) / on * spent / SECOND


def _on_time(process: Bursty, time: int) -> int:
    """Return the time spent in ON before `time`."""
    whole, rest = divmod(time, process.on + process.off)
    return whole * process.on + min(rest, process.on)


def _flow_counts(
    process: SelfSimilar, cell: int, rng: np.random.Generator
) -> tuple[_Edges, _Edges, npt.NDArray[np.int64]]:
    """Return the ON periods of all flows within a cell and how many tuples each gives."""
    length = cell_length(process)
    periods = [
        _flow(process.seed, flow, process.on, process.off).periods(cell * length, (cell + 1) * length)
        for flow in range(process.flows)
    ]
    begins, ends = np.concatenate([p[0] for p in periods]), np.concatenate([p[1] for p in periods])
    rate = process.rate / (process.flows * process.duty)
    return begins, ends, rng.poisson(rate * (ends - begins) / SECOND)


class _Flow:
    """The alternating periods of one flow; only where each block of periods begins is remembered."""

    def __init__(self, seed: int, flow: int, on: int, off: int) -> None:
        self._key = (seed, flow, on, off)
        # A flow is met in the middle of its life: ON with the duty's probability, the rest of the period by the
        # residual distribution.
        rng = np.random.default_rng((seed, 2, flow))
        if rng.random() < _ON_MEAN * on / (_ON_MEAN * on + _OFF_MEAN * off):
            self._first_on = _residual(rng, on, ON_SHAPE)
            self._starts = [self._first_on + off * (1 + rng.pareto(OFF_SHAPE))]
        else:
            self._first_on = 0.0
            self._starts = [_residual(rng, off, OFF_SHAPE)]

    def periods(self, begin: int, end: int) -> tuple[_Edges, _Edges]:
        """Return the ON periods that touch [begin, end), cut to it."""
        while self._starts[-1] < end:
            self._starts.append(self._starts[-1] + float(_block(*self._key, len(self._starts) - 1)[2]))
        lows, highs = [np.zeros(1)], [np.full(1, self._first_on)]
        block = max(bisect.bisect_right(self._starts, begin) - 1, 0)
        while self._starts[block] < end:
            on, off, _ = _block(*self._key, block)
            lows.append(self._starts[block] + on)
            highs.append(self._starts[block] + off)
            block += 1
        low, high = np.maximum(np.concatenate(lows), begin), np.minimum(np.concatenate(highs), end)
        real = low < high
        return low[real], high[real]


@functools.lru_cache(maxsize=4096)
def _flow(seed: int, flow: int, on: int, off: int) -> _Flow:
    return _Flow(seed, flow, on, off)


@functools.lru_cache(maxsize=4096)
def _block(seed: int, flow: int, on: int, off: int, block: int) -> tuple[_Edges, _Edges, float]:
    """Begin and end of the ON periods of a block from its start, and the block's length."""
    rng = np.random.default_rng((seed, 3, flow, block))
    lengths = np.empty(2 * _PERIODS)
    lengths[0::2] = on * (1 + rng.pareto(ON_SHAPE, _PERIODS))
    lengths[1::2] = off * (1 + rng.pareto(OFF_SHAPE, _PERIODS))
    edges = np.concatenate((np.zeros(1), np.cumsum(lengths)))
    return edges[0:-1:2], edges[1::2], float(edges[-1])


def _residual(rng: np.random.Generator, least: int, shape: float) -> float:
    """Draw the rest of a Pareto period that is observed at a random moment."""
    if rng.random() < (shape - 1) / shape:
        return float(least * rng.random())
    return float(least * (1 + rng.pareto(shape - 1)))
