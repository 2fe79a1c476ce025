"""Whether a new query may run: would every promise that MUST hold still hold with it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.forecast.network import Network
from headrace.analysis.forecast.solver import forecast
from headrace.analysis.forecast.verification import Check, verify
from headrace.model.qos import Qos


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a query may be admitted: the promises that would be broken with it, and what to say about them."""

    admitted: bool
    broken: tuple[Check, ...]
    reason: str


def admit(network: Network, query: str, promise: Qos, others: Mapping[str, Qos]) -> Verdict:
    """Whether a new query can run beside the others without breaking what MUST hold; `network` is the model with it."""
    seen = forecast(network)
    if not seen.stable:
        return Verdict(
            False,
            (),
            f"with {query} the processor would be needed {seen.utilisation:.0%}, {seen.excess:.0%} more than there is",
        )
    checks = [check for name, qos in {**others, query: promise}.items() for check in verify(seen, name, qos)]
    broken = tuple(check for check in checks if not check.holds and check.promise.is_must)
    if not broken:
        return Verdict(True, (), f"all promises hold; the processor would be used {seen.utilisation:.0%}")
    named = ", ".join(f"{check.measure} of {check.query}" for check in broken)
    return Verdict(False, broken, f"with {query} the promised {named} would not be kept")
