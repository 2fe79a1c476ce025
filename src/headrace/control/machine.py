"""How long micro-batches take on this machine: a fixed part, and so much for each second that tasks are busy."""

from __future__ import annotations

from msgspec import Struct

#: How much of what was learned is kept from one micro-batch to the next.
_KEPT = 0.95
#: If the work of micro-batches deviates by less than this share of its mean, nothing can be told from it about what work costs.
_EVEN = 0.15
#: What a micro-batch takes at least, and within what bounds a busy second can be (in parallel, or with as much again that is not seen).
_LEAST, _CHEAPEST, _DEAREST = 0.02, 0.1, 3.0


class Machine(Struct, frozen=True):
    """A line through the durations of the last micro-batches over the busy seconds in them; sums with weights that fade."""

    cost: float = 0.5  # seconds of a micro-batch for each second that a task is busy; 1 / 2 where two run side by side
    weight: float = 0.0
    busy: float = 0.0
    seconds: float = 0.0
    busy_squared: float = 0.0
    product: float = 0.0

    @property
    def fixed(self) -> float:
        """Seconds that a micro-batch takes whatever it does."""
        return max(_LEAST, (self.seconds - self.cost * self.busy) / self.weight) if self.weight else _LEAST

    def after(self, seconds: float, busy: float) -> Machine:
        """With one more micro-batch."""
        weight, sum_busy, sum_seconds = _KEPT * self.weight + 1.0, _KEPT * self.busy + busy, _KEPT * self.seconds + seconds
        squared, product = _KEPT * self.busy_squared + busy * busy, _KEPT * self.product + busy * seconds
        spread = squared * weight - sum_busy**2
        cost = self.cost
        if spread > (_EVEN * sum_busy) ** 2:
            cost = min(_DEAREST, max(_CHEAPEST, (product * weight - sum_busy * sum_seconds) / spread))
        return Machine(cost, weight, sum_busy, sum_seconds, squared, product)

    def room(self, seconds: float) -> float:
        """How much work fits in a micro-batch that is to take so long."""
        return max(0.0, seconds - self.fixed) / self.cost
