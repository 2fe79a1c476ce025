"""Operators that serve at most n tuples a visit: M/G/1 with setups, vacations and a limit.

There is no formula for the mean. The numbers of tuples at the beginnings of visits are a Markov chain whose steps are
known: a visit takes min(n, x) of the x tuples that it finds, and meanwhile others come. It is solved for as many states
as matter. The wait follows from what the tuples leave behind when they go, which is what arrivals find.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from headrace.analysis.queueing.moments import Moments

#: Chains with more states are not solved: so long a queue has no steady state that anybody would wait for.
MOST_STATES = 2048
#: The probability of the last states that is neglected.
TAIL = 1e-9

_Array = npt.NDArray[np.float64]


def visits(rate: float, service: Moments, setup: Moments, vacation: Moments, limit: int) -> tuple[float, float, float]:
    """Return the share of visits that find nothing, the mean number served in a visit, and the mean wait.

    Infinite if more comes in a round than a visit serves.
    """
    rho = rate * service.mean
    if rho >= 1 or rate * (setup.mean + vacation.mean) >= limit * (1 - rho):
        return 0.0, float(limit), math.inf
    states = 64
    while True:
        found = _found(rate, service, setup, vacation, limit, states)
        if found[-states // 16 :].sum() < TAIL or states >= MOST_STATES:
            break
        states *= 2
    x = np.arange(states)
    taken = np.minimum(x, limit)
    served = float(found @ taken)
    # tuple j of a visit leaves x - j behind, and what came during the setup and j services
    behind = taken * x - taken * (taken + 1) / 2 * (1 - rho) + rate * setup.mean * taken
    sojourn = float(found @ behind) / (rate * served)
    return float(found[0]), served, sojourn - service.mean


def _found(rate: float, service: Moments, setup: Moments, vacation: Moments, limit: int, states: int) -> _Array:
    """Return the probabilities of the numbers of tuples that visits find."""
    arguments = rate * (1 - np.exp(-2j * np.pi * np.arange(2 * states) / (2 * states)))
    away, own = _transform(vacation, arguments), _transform(service, arguments)
    ready = _transform(setup, arguments)
    chain = np.zeros((states, states))
    chain[0] = _folded(_probabilities(away), states)
    for x in range(1, states):
        taken = min(x, limit)
        came = _probabilities(away * ready * own**taken)
        chain[x] = _folded(np.concatenate([np.zeros(x - taken), came]), states)
    system = chain.T - np.eye(states)
    system[-1] = 1.0
    wanted = np.zeros(states)
    wanted[-1] = 1.0
    return np.clip(np.linalg.solve(system, wanted), 0.0, 1.0)


def _transform(time: Moments, s: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    """Return `Moments.transform` at complex points."""
    if time.mean == 0.0:
        return np.ones_like(s)
    spread = time.variance / time.mean
    if spread <= 1e-9 * time.mean:
        return np.exp(-s * time.mean)
    return np.exp(-time.mean / spread * np.log1p(s * spread))


def _probabilities(generating: npt.NDArray[np.complex128]) -> _Array:
    """Return the probabilities of which these are the values of the generating function around the unit circle."""
    return np.clip(np.fft.ifft(generating).real, 0.0, 1.0)


def _folded(probabilities: _Array, states: int) -> _Array:
    """Put what is beyond the last state into it."""
    kept = np.zeros(states)
    size = min(states, len(probabilities))
    kept[:size] = probabilities[:size]
    kept[-1] += max(0.0, 1.0 - kept.sum())
    return kept
