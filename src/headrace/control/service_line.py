"""The work of an operator: a fixed part for each page, and a part for each tuple.

With a mean per tuple alone, a budget that cuts pages small makes tuples look expensive, cuts them smaller, and so on.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple

#: The weight of earlier micro-batches decays by this factor with each new one.
_KEPT = 0.9
#: The parts are told apart only if the tuples per page vary this much; until then the fixed part is assumed to be
#: `_PAGE` (seconds), and no more than `_MOST` of the work.
_VARYING, _PAGE, _MOST = 0.02, 150e-6, 0.5
#: The least share of the mean work per tuple that each tuple is taken to cause.
_LEAST = 0.02


class ServiceLine(Struct, frozen=True):
    """A plane through the busy seconds of micro-batches over their pages and tuples, as sums with decaying weights."""

    pages: float = 0.0
    tuples: float = 0.0
    busy: float = 0.0
    pages_squared: float = 0.0
    tuples_squared: float = 0.0
    pages_by_tuples: float = 0.0
    pages_by_busy: float = 0.0
    tuples_by_busy: float = 0.0

    @staticmethod
    def of(pages: int, tuples: int, busy: float) -> ServiceLine:
        """Return the line through one micro-batch."""
        return ServiceLine(pages, tuples, busy, pages**2, tuples**2, float(pages * tuples), pages * busy, tuples * busy)

    def plus(self, newer: ServiceLine) -> ServiceLine:
        """Return the line with newer micro-batches."""
        return ServiceLine(
            *(_KEPT * sum_before + added for sum_before, added in zip(astuple(self), astuple(newer), strict=True))
        )

    def parts(self) -> tuple[float, float]:
        """Return the seconds per page, and per tuple."""
        if not self.pages or not self.tuples:
            return 0.0, 0.0
        per_page = min(self._fitted(), (1.0 - _LEAST) * self.busy / self.pages)
        return per_page, (self.busy - per_page * self.pages) / self.tuples

    def _fitted(self) -> float:
        """Return the seconds per page by least squares, or what is assumed."""
        spread = self.pages_squared * self.tuples_squared - self.pages_by_tuples**2
        if spread <= _VARYING * self.pages_squared * self.tuples_squared:
            return min(_PAGE, _MOST * self.busy / self.pages)
        fitted = self.pages_by_busy * self.tuples_squared - self.tuples_by_busy * self.pages_by_tuples
        return max(0.0, fitted / spread)
