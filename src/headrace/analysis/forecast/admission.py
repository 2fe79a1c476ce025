"""Whether a new query may run: would every promise that MUST hold still hold with it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.forecast.network import Network
from headrace.analysis.forecast.solver import Forecast, forecast
from headrace.analysis.forecast.verification import Check, verify
from headrace.model.qos import Qos


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a query is admitted, the promises that it would break, and the reason in words."""

    admitted: bool
    broken: tuple[Check, ...]
    reason: str


def admit(network: Network, query: str, promise: Qos, others: Mapping[str, Qos]) -> Verdict:
    """Decide whether a new query can run beside others without breaking MUST promises; `network` includes it."""
    predicted = forecast(network)
    if not predicted.stable:
        return Verdict(
            False,
            (),
            f"{query} would raise the load of the processor to {predicted.utilization:.0%}, "
            f"{predicted.excess:.0%} more than available",
        )
    checks = [check for name, qos in {**others, query: promise}.items() for check in verify(predicted, name, qos)]
    broken = tuple(check for check in checks if not check.holds and check.promise.is_must)
    if not broken:
        return Verdict(True, (), f"all promises hold; the processor would be used {predicted.utilization:.0%}")
    named = ", ".join(f"{check.measure} of {check.query}" for check in broken)
    return Verdict(False, broken, f"{query} would break the promised {named}")


def admit_by_results(network: Network, query: str, promises: Mapping[str, Qos]) -> Verdict:
    """Decide the same if only a throughput MUST be kept: is there time for the results, if there is input for them?"""
    predicted = forecast(network)
    checks = [check for name, qos in promises.items() for check in verify(predicted, name, qos)]
    broken = tuple(check for check in checks if check.promise.is_must and is_starved(check, predicted))
    if not broken:
        return Verdict(True, (), f"the processor would be used {predicted.utilization:.0%}")
    named = ", ".join(check.query for check in broken)
    return Verdict(
        False,
        broken,
        f"{query} would raise the load of the processor to {predicted.utilization:.0%}, which breaks the promised "
        f"throughput of {named}",
    )


def is_starved(check: Check, predicted: Forecast) -> bool:
    """Return whether a throughput is broken by the load; where there is too little input, no processor would help."""
    unlimited = check.predicted * max(1.0, predicted.utilization)
    return check.measure == "throughput" and check.predicted < check.promised <= unlimited
