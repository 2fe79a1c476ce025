"""What would make a broken promise hold, and how far rates may grow until a promise breaks.

A faster processor or fewer tuples can make it hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.analysis.forecast.network import Network, faster, reached, thinned
from headrace.analysis.forecast.solver import Forecast, forecast
from headrace.analysis.forecast.verification import Check, check_of, verify
from headrace.model.qos import Qos

#: How a network is forecast: all together, or some queries first.
Solve: TypeAlias = Callable[[Network], Forecast]

_FASTEST = 1e6
_STEPS = 50  # of bisection: far more than the figures are worth


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make a broken promise hold; None where nothing of the kind would.

    `speed` is how many times as fast the processor must be, `shed` the share of the query's streams that must be
    dropped.
    """

    speed: float | None
    shed: float | None


def remedy(network: Network, check: Check, solve: Solve = forecast) -> Remedy:
    """Return the smallest speed-up, and the smallest share to shed, that make a promise hold."""
    return Remedy(smallest_speed(network, check, solve), smallest_shed(network, check, solve))


def smallest_speed(network: Network, check: Check, solve: Solve = forecast) -> float | None:
    """Return how many times as fast the processor must be for a promise to hold; below 1 if a slower one is enough."""

    def holds(speed: float) -> bool:
        return _again(faster(network, speed), check, solve).holds

    if not holds(_FASTEST):
        return None
    low, high = 1 / _FASTEST, _FASTEST
    if holds(low):
        return low
    for _ in range(_STEPS):  # by ratio: latency falls with speed
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def smallest_shed(network: Network, check: Check, solve: Solve = forecast) -> float | None:
    """Return the share of the query's streams that must be dropped for a promise to hold; 0 if none."""
    _, streams = reached(network, check.query)

    def holds(share: float) -> bool:
        return _again(thinned(network, streams, share), check, solve).holds

    def fits(share: float) -> bool:
        return solve(thinned(network, streams, share)).stable

    # Fewer tuples give more results only as long as there are more than can be served; for the rest the fewer the
    # better, but for none at all.
    most = _smallest(fits, 1 - 1e-9) if check.measure == "throughput" else 1 - 1e-9
    return None if most is None else _smallest(holds, most)


def shed_to(network: Network, check: Check, share: float, solve: Solve = forecast) -> float:
    """Return what would be predicted if this share of the query's streams were shed."""
    _, streams = reached(network, check.query)
    return _again(thinned(network, streams, share), check, solve).predicted


def largest_growth(network: Network, query: str, qos: Qos, solve: Solve = forecast) -> float:
    """Return the factor by which a query's rates can grow until one of its promises, or the processor, breaks.

    Below 1 if one is broken.
    """
    _, streams = reached(network, query)

    def holds(factor: float) -> bool:
        predicted = solve(thinned(network, streams, 1 - factor))
        return predicted.stable and all(
            check.holds for check in verify(predicted, query, qos) if check.measure != "throughput"
        )

    return _largest(holds)


def _smallest(holds: Callable[[float], bool], most: float) -> float | None:
    """Return the smallest share up to `most` from which a condition holds."""
    if holds(0.0):
        return 0.0
    if not holds(most):
        return None
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _largest(holds: Callable[[float], bool]) -> float:
    low, high = 1 / _FASTEST, _FASTEST
    if holds(high):
        return math.inf
    if not holds(low):
        return 0.0
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _again(network: Network, check: Check, solve: Solve) -> Check:
    return check_of(solve(network).queries[check.query], check.measure, check.promise)
