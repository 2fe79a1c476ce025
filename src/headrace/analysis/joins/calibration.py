"""What joins of several inputs really cost on a machine, learned from the time that they take.

A look knows how many rows were stored, searched and matched, how many searches there were, and the time of all of it.
The price of each part follows from many looks by least squares, relative to the time of each look. One factor for all
prices explains most of it: it is found first. The price of one part departs from that factor only as far as looks with
another mix of parts demand it, so looks that are alike, or noise, change the factor alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from headrace.analysis.joins.join_facts import Tally
from headrace.optimizer.joins.cost import Costs

#: The parts of the work whose prices are learned.
PARTS = ("store", "search", "match", "step")
#: The weight of the newest look in the factor. The weight that earlier looks keep in the prices of parts, and that of
#: the assumption that the factor explains all.
_NEWEST, _KEPT, _ALIKE = 0.3, 0.97, 0.1
#: How far the factor, and the price of one part beside it, may depart from what was measured elsewhere.
_FACTOR, _PART = 20.0, 4.0

Row = tuple[float, ...]
_NONE: Row = (0.0,) * len(PARTS)


class Calibration(Struct, frozen=True):
    """The factor of all prices, a mean that fades, and sums over looks from which prices of parts follow.

    A part is the share of the time of a look that it should have taken, if the factor explained all.
    """

    factor: float | None = None
    parts: Row = _NONE
    products: tuple[Row, ...] = (_NONE,) * len(PARTS)

    def after(self, expected: Sequence[float], busy: float) -> Calibration:
        """Return the calibration after a look: seconds that the parts were expected to take, and that all took."""
        total = sum(expected)
        if busy <= 0 or total <= 0:
            return self
        seen = min(max(busy / total, 1 / _FACTOR), _FACTOR)
        factor = seen if self.factor is None else self.factor + _NEWEST * (seen - self.factor)
        shares = np.asarray(expected) / total * (factor / seen)
        parts = _KEPT * np.asarray(self.parts) + shares
        products = _KEPT * np.asarray(self.products) + np.outer(shares, shares)
        return Calibration(factor, tuple(parts.tolist()), tuple(map(tuple, products.tolist())))

    def factors(self) -> dict[str, float]:
        """Return the factor of each part: least squares of 1 = shares * (1 + departures), which have a price."""
        if self.factor is None:
            return dict.fromkeys(PARTS, 1.0)
        products = np.asarray(self.products)
        rest = np.asarray(self.parts) - products.sum(axis=1)
        departures = np.linalg.solve(products + _ALIKE * np.eye(len(PARTS)), rest)
        limited = np.clip(1.0 + departures, 1.0 / _PART, _PART)
        return {part: self.factor * float(share) for part, share in zip(PARTS, limited, strict=True)}

    def costs(self, base: Costs) -> Costs:
        """Return the prices of this machine; what the join does not see, it changes by the common factor."""
        by_part, factor = self.factors(), self.factor or 1.0
        return replace(
            base,
            store=base.store * by_part["store"],
            search=base.search * by_part["search"],
            candidate=base.candidate * by_part["match"],
            match=base.match * by_part["match"],
            step=base.step * by_part["step"],
            stored_byte=base.stored_byte * factor,
            derived_byte=base.derived_byte * factor,
        )


def parts_of(tally: Tally, costs: Costs) -> Row:
    """Return the seconds that each part of what was counted should have taken."""
    searched = sum(rows for rows, _ in tally.steps.values())
    matched = sum(rows for _, rows in tally.steps.values())
    searches = sum(tally.pages[int(port)] for name in tally.steps for port in name.partition(">")[0].split("."))
    return (
        tally.stored * costs.store,
        searched * costs.search,
        matched * (costs.match + costs.candidate),
        searches * costs.step,
    )
