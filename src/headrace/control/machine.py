"""How long micro-batches take on this machine: a fixed part, and so much for each second of their longest chain of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

#: How much of what was learned is kept from one micro-batch to the next.
_KEPT = 0.95
#: If the work of micro-batches deviates by less than this share of its mean, nothing can be told from it about what work costs.
_EVEN = 0.15
#: What a micro-batch takes at least, and within what bounds a second of its tasks can be.
_LEAST, _CHEAPEST, _DEAREST = 0.02, 0.7, 2.0


class Work(Struct, frozen=True):
    """What the tasks of a micro-batch did: seconds that all of them were busy, and seconds that they need side by side."""

    busy: float
    span: float


def work_of(stages: Sequence[Sequence[float]], cores: int) -> Work:
    """The work of tasks, stage by stage: one begins when the one before has ended, and takes as long as its longest task or all on all cores."""
    busy = sum(map(sum, stages))
    return Work(busy, sum(max(max(tasks), sum(tasks) / cores) for tasks in stages if tasks))


class Machine(Struct, frozen=True):
    """A line through the durations of the last micro-batches over the spans of their work; sums with weights that fade."""

    cost: float = 1.0  # seconds of a micro-batch for each second of its span
    weight: float = 0.0
    busy: float = 0.0
    span: float = 0.0
    seconds: float = 0.0
    span_squared: float = 0.0
    product: float = 0.0

    @property
    def fixed(self) -> float:
        """Seconds that a micro-batch takes whatever it does."""
        return max(_LEAST, (self.seconds - self.cost * self.span) / self.weight) if self.weight else _LEAST

    @property
    def speed(self) -> float:
        """How many busy seconds pass in a second of a micro-batch beside its fixed part."""
        return (self.busy / self.span if self.span > 0 else 1.0) / self.cost

    def after(self, seconds: float, work: Work) -> Machine:
        """With one more micro-batch."""
        weight, seconds_, span = (
            _KEPT * self.weight + 1.0,
            _KEPT * self.seconds + seconds,
            _KEPT * self.span + work.span,
        )
        squared, product = _KEPT * self.span_squared + work.span**2, _KEPT * self.product + work.span * seconds
        spread = squared * weight - span**2
        cost = self.cost
        if spread > (_EVEN * span) ** 2:
            cost = min(_DEAREST, max(_CHEAPEST, (product * weight - span * seconds_) / spread))
        return Machine(cost, weight, _KEPT * self.busy + work.busy, span, seconds_, squared, product)

    def room(self, seconds: float) -> float:
        """How many busy seconds fit in a micro-batch that is to take so long."""
        return max(0.0, seconds - self.fixed) * self.speed
