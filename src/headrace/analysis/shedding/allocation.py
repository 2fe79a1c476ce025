"""How much to shed where: the places that free most for their error first, the last only as far as needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.analysis.shedding.places import Place

#: Less than this share of the processor is an error of rounding.
NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Shed:
    """A place and the share of the tuples of its path to drop there.

    `share` counts those that would come if nothing was dropped before.
    """

    place: Place
    share: float

    @property
    def freed(self) -> float:
        return self.place.freed(self.share)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What to shed, in the order in which it was chosen, and the share of the processor that is missing even so."""

    sheds: tuple[Shed, ...]
    shortfall: float = 0.0


def allocate(excess: float, places: Iterable[Place]) -> Allocation:
    """Free this share of the processor at the least error: the best places first (a fractional knapsack)."""
    return _take(excess, sorted(places, key=lambda place: -place.weight))


def shares(sheds: Sequence[Shed]) -> Mapping[str, float]:
    """Return by place the share to drop of what arrives there, after what the same path dropped before it."""
    before = {shed.place.label: shed.share for shed in sheds}
    return {
        shed.place.label: min(
            1.0, shed.share / max(1e-12, 1.0 - sum(before.get(label, 0.0) for label in shed.place.above))
        )
        for shed in sheds
    }


def _take(excess: float, places: Sequence[Place]) -> Allocation:
    sheds: list[Shed] = []
    for place in places:
        if excess <= NOTHING:
            break
        most = place.freed(place.error)
        if most <= 0:
            continue
        share = place.error if most < excess else needed(place, excess)
        sheds.append(Shed(place, share))
        excess -= place.freed(share)
    return Allocation(tuple(sheds), excess if excess > NOTHING else 0.0)


def needed(place: Place, freed: float) -> float:
    """Return the share to drop at a place to free this much, including the cost of the shedder."""
    return min(place.error, (freed + place.rate * place.test) / (place.rate * place.cost))
