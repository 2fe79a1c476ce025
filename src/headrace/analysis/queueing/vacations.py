"""Operators with external input that share a processor: M/G/1 with setups and vacations.

While the processor works elsewhere the operator is on vacation. A gated operator serves the tuples that it finds when
it gets the processor, or at most `limit` of them; an exhaustive one serves until none is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.analysis.queueing.limited import visits
from headrace.analysis.queueing.moments import Moments

Discipline: TypeAlias = Literal["gated", "exhaustive"]


@dataclass(frozen=True, slots=True)
class VacationQueue:
    """Means of a round, from one end of a vacation to the next, and of a tuple's wait."""

    empty: float  # q0: the share of vacations at whose end nothing waits
    busy: float
    served: float
    round: float
    wait: float

    @property
    def cycle(self) -> float:
        """Return the mean seconds between two visits that found a tuple."""
        return self.round / (1 - self.empty) if self.empty < 1 else math.inf


def vacation_queue(
    rate: float,
    service: Moments,
    setup: Moments,
    vacation: Moments,
    discipline: Discipline = "gated",
    limit: int | None = None,
) -> VacationQueue:
    """Solve one operator whose vacations are known."""
    rho = rate * service.mean
    if rho >= 1:
        return VacationQueue(0.0, math.inf, math.inf, math.inf, math.inf)
    if limit is not None and rate > 0:
        empty, served, wait = visits(rate, service, setup, vacation, limit)
        busy = served * service.mean
        return VacationQueue(empty, busy, served, busy + (1 - empty) * setup.mean + vacation.mean, wait)
    if rate == 0:
        empty = 1.0
    elif discipline == "exhaustive":
        empty = vacation.transform(rate)  # (5.44)
    else:
        empty = _gated_empty(rate, service, setup, vacation)
    away = (1 - empty) * setup.mean + vacation.mean
    own = rate * service.square / (2 * (1 - rho))
    if away == 0:
        wait = own
    elif discipline == "exhaustive":
        residual = vacation.square + 2 * setup.mean * vacation.mean + (1 - empty) * setup.square
        wait = own + residual / (2 * away)  # (5.42, E-8)
    else:
        residual = vacation.square + (1 - empty) * (setup.square + 2 * setup.mean * vacation.mean)
        wait = own + (setup.mean + rho * vacation.mean) / (1 - rho) + residual / (2 * away)  # (5.43, E-9)
    # (5.30, 5.46), (5.38) and their sum with the time away (E-7)
    return VacationQueue(empty, rho / (1 - rho) * away, rate / (1 - rho) * away, away / (1 - rho), wait)


def _gated_empty(rate: float, service: Moments, setup: Moments, vacation: Moments) -> float:
    """Follow generation by generation back the arrivals during the service of earlier arrivals (5.45)."""
    eta, product, hidden = 0.0, 1.0, 0.0
    for _ in range(100_000):
        theta = rate - rate * eta
        setup_, vacation_ = setup.transform(theta), vacation.transform(theta)
        hidden += vacation_ * (1 - setup_) * product
        product *= setup_ * vacation_
        if 1 - eta < 1e-15 or product < 1e-12 or 1 - setup_ * vacation_ < 1e-14:
            break
        eta = service.transform(theta)
    return min(1.0, product / (1 - hidden)) if hidden < 1 else 0.0
