"""How long micro-batches take on this machine: a fixed part, and so much for each second that tasks are busy."""

from __future__ import annotations

from msgspec import Struct

#: The fixed part is the shortest of so many micro-batches; what a busy second costs is a moving average with this weight of the newest.
_RECENT, _NEWEST = 50, 0.2
#: Micro-batches with less work than this (seconds) tell nothing of what work costs.
_LITTLE = 0.02
#: Before anything was seen.
_RATIO, _FIXED = 1.0, 0.1


class Machine(Struct, frozen=True):
    """What was learned of the machine; `shortest` are the newest durations of micro-batches (seconds)."""

    durations: tuple[float, ...] = ()
    ratio: float | None = None

    @property
    def fixed(self) -> float:
        """Seconds that a micro-batch takes whatever it does."""
        return min(self.durations, default=_FIXED)

    @property
    def cost(self) -> float:
        """Seconds of a micro-batch for each second that a task is busy; less than 1 where several run side by side."""
        return _RATIO if self.ratio is None else self.ratio

    def after(self, seconds: float, busy: float) -> Machine:
        """With one more micro-batch."""
        durations = (*self.durations, seconds)[-_RECENT:]
        ratio = self.ratio
        if busy > _LITTLE:
            seen = max(0.0, seconds - min(durations)) / busy
            ratio = seen if ratio is None else ratio + _NEWEST * (seen - ratio)
        return Machine(durations, ratio)

    def seconds(self, busy: float) -> float:
        """How long a micro-batch with so much work would take."""
        return self.fixed + self.cost * busy

    def room(self, seconds: float) -> float:
        """How much work fits in a micro-batch that is to take so long."""
        return max(0.0, seconds - self.fixed) / self.cost if self.cost else float("inf")

    def load(self, work: float, seconds: float) -> float:
        """The load if so much work comes in a second and micro-batches are to take so long: above 1 they cannot."""
        room = self.room(seconds)
        return work * seconds / room if room else float("inf")
