"""When to begin and to end shedding: a small state machine from one estimate of the load to the next.

The load is that of the streams as they come, before anything is dropped. What was chosen last ends first, and only once
the rest would do without it by a margin, so a load that hovers around the limit does not switch shedders on and off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.analysis.shedding.allocation import NOTHING, Shed, allocate, needed
from headrace.analysis.shedding.places import Place

#: By so much the load must lie below the limit before anything is given back.
MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class ActiveSheds:
    """What is shed now, in the order in which it was chosen, and the share of the processor that is missing even so."""

    sheds: tuple[Shed, ...] = ()
    shortfall: float = 0.0


def decide(
    plan: ActiveSheds, load: float, places: Iterable[Place], *, limit: float = 1.0, margin: float = MARGIN
) -> ActiveSheds:
    """Decide what to shed from now on, given what is shed, the load of all input, and the places that there are now."""
    known = {place.label: place for place in places}
    sheds = [_renewed(shed, known[shed.place.label]) for shed in plan.sheds if shed.place.label in known]
    sheds = [shed for shed in sheds if shed.freed > 0]
    net = load - _freed(sheds)
    if net > limit:
        return _more(sheds, known.values(), net - limit)
    if sheds and net < limit - margin:
        return ActiveSheds(tuple(_less(sheds, load, limit, margin)))
    return ActiveSheds(tuple(sheds))


def _more(sheds: list[Shed], places: Iterable[Place], excess: float) -> ActiveSheds:
    """Drop more where something is dropped already, then at further places."""
    for index, shed in enumerate(sheds):
        if excess <= NOTHING:
            break
        share = min(shed.place.error, shed.share + excess / (shed.place.rate * shed.place.cost))
        raised = Shed(shed.place, share)
        excess -= raised.freed - shed.freed
        sheds[index] = raised
    if excess <= NOTHING:
        return ActiveSheds(tuple(sheds))
    taken = {shed.place.label for shed in sheds}
    more = allocate(excess, [place for place in places if place.label not in taken])
    return ActiveSheds((*sheds, *more.sheds), more.shortfall)


def _less(sheds: list[Shed], load: float, limit: float, margin: float) -> list[Shed]:
    """End what was chosen last if the others suffice; else reduce it to what is needed plus half of the margin."""
    *others, last = sheds
    remaining = load - _freed(others)
    if remaining < limit - margin:
        return others
    return [*others, Shed(last.place, min(last.share, needed(last.place, remaining - limit + margin / 2)))]


def _renewed(shed: Shed, place: Place) -> Shed:
    """Return the same share at a place as it is now."""
    return Shed(place, min(shed.share, place.error))


def _freed(sheds: Sequence[Shed]) -> float:
    return sum(shed.freed for shed in sheds)
