"""Operators that have a processor of their own: M/D/1, M/M/1 and M/G/1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.analysis.queueing.moments import Moments


@dataclass(frozen=True, slots=True)
class Queue:
    """What a stand-alone queue does in steady state: tuples in the system, and seconds in it and in its queue."""

    utilization: float
    number: float
    sojourn: float
    wait: float
    number_variance: float = math.nan
    sojourn_variance: float = math.nan

    @property
    def waiting(self) -> float:
        """Return the tuples that wait, without the one in service."""
        return self.number - self.utilization


def deterministic(rate: float, mu: float) -> Queue:
    """Solve M/D/1: a select with one condition, a project; `mu` tuples per second can be served."""
    rho = rate / mu
    if rho >= 1:
        return _unstable(rho)
    number = rho + rho**2 / (2 * (1 - rho))  # (5.3a)
    number_variance = (rho - 3 / 2 * rho**2 + 5 / 6 * rho**3 - rho**4 / 12) / (1 - rho) ** 2  # (5.3b)
    wait = rho / (2 * mu * (1 - rho))  # (5.4a)
    sojourn_variance = (rho / 3 - rho**2 / 12) / (mu**2 * (1 - rho) ** 2)  # (5.4b)
    return Queue(rho, number, 1 / mu + wait, wait, number_variance, sojourn_variance)


def exponential(rate: float, mu: float) -> Queue:
    """Solve M/M/1, roughly a select with several conditions."""
    rho = rate / mu
    if rho >= 1:
        return _unstable(rho)
    sojourn = 1 / (mu * (1 - rho))  # (5.6)
    return Queue(rho, rho / (1 - rho), sojourn, sojourn - 1 / mu, rho / (1 - rho) ** 2, sojourn**2)  # (5.5, 5.6)


def general(rate: float, service: Moments) -> Queue:
    """Solve M/G/1, by Pollaczek and Khinchine."""
    rho = rate * service.mean
    if rho >= 1:
        return _unstable(rho)
    wait = rate * service.square / (2 * (1 - rho))
    return Queue(rho, rho + rate * wait, service.mean + wait, wait)


def _unstable(rho: float) -> Queue:
    return Queue(rho, math.inf, math.inf, math.inf, math.inf, math.inf)
