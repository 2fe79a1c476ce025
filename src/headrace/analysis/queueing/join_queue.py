"""A window join that has a processor of its own: M/(D1,D2)/1, two Poisson streams with a constant service time each."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.analysis.queueing.moments import Moments, constant
from headrace.analysis.queueing.queues import Queue


def join_service(
    *, hash_call: float, evaluation: float, output: float, other: float, buckets: float, upkeep: float = 0.0
) -> float:
    """Return the seconds to serve a tuple of one side while the `other` side holds this many tuples.

    `upkeep` is the share of admission and expiry.
    """
    return (2 * hash_call + output + evaluation * other / buckets) / (1 - upkeep)  # (5.7)


@dataclass(frozen=True, slots=True)
class JoinQueue:
    """Rates in tuples a second and service times in seconds, of the left and the right side."""

    rates: tuple[float, float]
    services: tuple[float, float]

    @property
    def rate(self) -> float:
        return sum(self.rates)

    @property
    def utilization(self) -> float:
        return sum(rate * service for rate, service in zip(self.rates, self.services, strict=True))

    @property
    def service(self) -> Moments:
        """Return the service time of a tuple of either side, in proportion to the rates."""
        if not self.rate:
            return constant(max(self.services))
        shares = [rate / self.rate for rate in self.rates]
        mean, square = (
            sum(share * service**power for share, service in zip(shares, self.services, strict=True))
            for power in (1, 2)
        )
        return Moments(mean, square)

    @property
    def wait(self) -> float:
        """Return the mean seconds in the queue."""
        if self.utilization >= 1:
            return math.inf
        squares = sum(rate * service**2 for rate, service in zip(self.rates, self.services, strict=True))
        return squares / (2 * (1 - self.utilization))  # (5.23b)

    def solve(self) -> Queue:
        """Compute means and variances."""
        rho = self.utilization
        if rho >= 1:
            return Queue(rho, math.inf, math.inf, math.inf, math.inf, math.inf)
        number = rho + self.rate * self.wait  # (5.8)
        sojourn = rho / self.rate + self.wait  # (5.23a)
        shares = self.distribution()
        factorial = sum(k * (k - 1) * share for k, share in enumerate(shares))
        return Queue(
            rho, number, sojourn, self.wait, factorial + number - number**2, factorial / self.rate**2 - sojourn**2
        )

    def distribution(self, *, rest: float = 1e-12) -> list[float]:
        """Return P(N = 0), P(N = 1), ... of tuples in the system, until the remaining probability is below `rest`."""
        rho = self.utilization
        if rho >= 1:
            return []
        # (5.16) by level crossing, which only adds: from below k to k or more as often as from k to below.
        # `more[m]` is the probability that m or more tuples come during a service; the c_k of the theorem are k! times
        # those of exactly k.
        none = self._arrivals(0)
        more = [1.0, 1.0 - none]
        shares = [1 - rho]
        total = shares[0]
        while 1 - total > rest and len(shares) < 20_000:
            k = len(shares)
            more.append(max(0.0, more[-1] - self._arrivals(k)))
            crossing = shares[0] * more[k] + sum(shares[j] * more[k - j + 1] for j in range(1, k))
            shares.append(crossing / none)
            total += shares[-1]
            if shares[-1] < rest * rest:
                break
        return shares

    def waits_at_most(self, seconds: float) -> float:
        """Return about the share of tuples that wait no longer."""
        return 1 - self.utilization * math.exp(self.decay() * seconds)  # (5.24)

    def wait_of(self, share: float) -> float:
        """Return about the wait that this share of tuples does not exceed; the converse of (5.24)."""
        if share <= 1 - self.utilization:
            return 0.0
        return math.log((1 - share) / self.utilization) / self.decay()

    def decay(self) -> float:
        """Return the negative root s0 of (5.28)."""

        def value(s: float) -> float:
            return (
                sum(rate * math.exp(-s * service) for rate, service in zip(self.rates, self.services, strict=True))
                - self.rate
                + s
            )

        if self.utilization >= 1:
            return 0.0
        low = -1.0 / max(self.services)
        while value(low) <= 0:  # left of the root the exponentials win
            low *= 2
        high = 0.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if value(middle) > 0 else (low, middle)
        return (low + high) / 2

    def _arrivals(self, k: int) -> float:
        probability = 0.0
        for rate, service in zip(self.rates, self.services, strict=True):
            mean = self.rate * service
            if rate > 0:  # in logarithms, since mean**k and k! overflow early
                probability += (
                    rate / self.rate * math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1))
                    if mean > 0
                    else float(k == 0) * rate / self.rate
                )
        return probability
