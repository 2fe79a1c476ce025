"""The duration of micro-batches: a fixed part, and a part in proportion to the longest chain of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

#: The weight of earlier micro-batches decays by this factor with each new one.
_KEPT = 0.95
#: The cost of work is only learned if the work of micro-batches deviates by more than this share of its mean.
_EVEN = 0.15
#: The shortest fixed part (seconds), and the limits of the cost of a second of tasks.
_MIN_FIXED, _MIN_COST, _MAX_COST = 0.02, 0.7, 2.0


class Work(Struct, frozen=True):
    """The work of the tasks of a micro-batch: busy seconds of all, and the seconds they take in parallel."""

    busy: float
    span: float


def work_of(phases: Sequence[Sequence[float]], cores: int) -> Work:
    """Return the work of tasks in phases, each of which begins when the one before has ended.

    A phase takes as long as its longest task, or as all its tasks take on all cores.
    """
    busy = sum(map(sum, phases))
    return Work(busy, sum(max(max(tasks), sum(tasks) / cores) for tasks in phases if tasks))


class Machine(Struct, frozen=True):
    """A line through the durations of recent micro-batches over their spans, as sums with decaying weights."""

    cost: float = 1.0  # seconds of a micro-batch for each second of its span
    weight: float = 0.0
    busy: float = 0.0
    span: float = 0.0
    seconds: float = 0.0
    span_squared: float = 0.0
    product: float = 0.0

    @property
    def fixed(self) -> float:
        """Return the seconds that a micro-batch takes regardless of its work."""
        return max(_MIN_FIXED, (self.seconds - self.cost * self.span) / self.weight) if self.weight else _MIN_FIXED

    @property
    def speed(self) -> float:
        """Return the busy seconds per second of a micro-batch, without its fixed part."""
        return (self.busy / self.span if self.span > 0 else 1.0) / self.cost

    def after(self, seconds: float, work: Work) -> Machine:
        """Return the machine with one more micro-batch."""
        weight = _KEPT * self.weight + 1.0
        total = _KEPT * self.seconds + seconds
        span = _KEPT * self.span + work.span
        squared = _KEPT * self.span_squared + work.span**2
        product = _KEPT * self.product + work.span * seconds
        spread = squared * weight - span**2
        cost = self.cost
        if spread > (_EVEN * span) ** 2:
            cost = min(_MAX_COST, max(_MIN_COST, (product * weight - span * total) / spread))
        return Machine(cost, weight, _KEPT * self.busy + work.busy, span, total, squared, product)

    def room(self, seconds: float) -> float:
        """Return the busy seconds that fit into a micro-batch of this duration."""
        return max(0.0, seconds - self.fixed) * self.speed
