"""How many tuples come for each parcel of keys, by route."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headrace.commands.parcel_groups import ParcelGroup
from headrace.model.time import SECOND
from headrace.worker.wire import Report

#: The weight of a new count against all before it.
_WEIGHT = 0.3
#: Parcels of which so few tuples a second come are forgotten.
_LEAST = 0.01


class ParcelLoads:
    """Tuples a second by parcel, averaged over micro-batches that were counted; the newest count for most.

    Ingest tasks report the heaviest parcels of each route, and how many tuples all have.
    """

    def __init__(self) -> None:
        self._rates: dict[str, dict[int, float]] = {}
        self._totals: dict[str, float] = {}
        self._counted_at: int | None = None  # the time of the micro-batch before

    def add(self, reports: Sequence[Report]) -> None:
        """Take in the counts of a micro-batch, if it has any."""
        time = max((report.time for report in reports), default=0)
        before, self._counted_at = self._counted_at, time
        counts: dict[str, Counter[int]] = {}
        totals: Counter[str] = Counter()
        for task in (task for report in reports for task in report.tasks):
            for route, counted in task.parcels.items():
                counts.setdefault(route, Counter()).update(dict(counted.heaviest))
                totals[route] += counted.total
        if not totals or before is None or time <= before:
            return
        seconds = (time - before) / SECOND
        for route, total in totals.items():
            known = route in self._totals
            self._totals[route] = _mixed(self._totals.get(route, 0.0), total / seconds, known=known)
            rates = self._rates.get(route, {})
            mixed = {
                parcel: _mixed(rates.get(parcel, 0.0), counts[route][parcel] / seconds, known=known)
                for parcel in {*rates, *counts[route]}
            }
            self._rates[route] = {parcel: rate for parcel, rate in mixed.items() if rate >= _LEAST}
        for route in self._totals.keys() - totals.keys():  # it is silent, or gone with its query
            self._fade(route)

    def _fade(self, route: str) -> None:
        self._totals[route] *= 1 - _WEIGHT
        rates = {parcel: rate * (1 - _WEIGHT) for parcel, rate in self._rates[route].items()}
        self._rates[route] = {parcel: rate for parcel, rate in rates.items() if rate >= _LEAST}
        if self._totals[route] < _LEAST:
            del self._totals[route], self._rates[route]

    def by_port(self, ports: Sequence[Sequence[str]], parcel: int) -> list[float]:
        """Return the tuples a second of a parcel that come to each port, given the routes of each."""
        return [sum(self._rates.get(route, {}).get(parcel, 0.0) for route in routes) for routes in ports]

    def heaviest_port(self, ports: Sequence[Sequence[str]], parcel: int) -> int:
        """Return the port to which most tuples of a parcel come; the first if none do."""
        rates = self.by_port(ports, parcel)
        return rates.index(max(rates))

    def of(self, group: ParcelGroup) -> tuple[Mapping[int, float], float]:
        """Return the tuples a second of the parcels of a group that are known, and those of all."""
        rates: Counter[int] = Counter()
        for route in group.routes:
            rates.update(self._rates.get(route, {}))
        return rates, sum(self._totals.get(route, 0.0) for route in group.routes)


def _mixed(before: float, now: float, *, known: bool) -> float:
    return before + _WEIGHT * (now - before) if known else now
