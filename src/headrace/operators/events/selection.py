"""Those who wait for their partners: how long they are kept, and who of them is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.events.event import Mode
from headrace.model.time import END
from headrace.operators.events.occurrence import Occurrence, Occurrences, newest


@dataclass(frozen=True, slots=True)
class Keeping:
    """A limit on a store: the newest `count` that agree in the values at `by` (part, place), at most `age` old."""

    count: int | None = None
    by: tuple[tuple[int, int], ...] = ()
    age: int | None = None
    #: No occurrence that consists of what waits may last longer.
    span: int | None = None

    def alive(self, occurrence: Occurrence, now: int) -> bool:
        """Return whether something that ends now can use it."""
        return (self.span is None or now - occurrence.begin <= self.span) and (
            self.age is None or now - occurrence.end <= self.age
        )

    def death(self, occurrence: Occurrence) -> int:
        """Return the last instant at which it can be used."""
        return min(
            END if self.span is None else occurrence.begin + self.span,
            END if self.age is None else occurrence.end + self.age,
        )

    def expire(self, store: Occurrences, now: int) -> None:
        """Forget the oldest that nothing that ends now or later can use.

        Where a number is kept, that number is enough, and who replaces whom stays simple. One that began earlier than
        those before it may stay a little longer: whoever takes from a store asks who is alive.
        """
        if self.count is not None or not store or self.alive(store[0], now):
            return
        dead = next((i for i, occurrence in enumerate(store) if self.alive(occurrence, now)), len(store))
        del store[:dead]

    def add(self, store: Occurrences, new: Occurrence) -> None:
        """Take one in, in place of the oldest of its kind if there are too many."""
        store.append(new)
        if self.count is None:
            return
        kind = self._kind(new)
        alike = [i for i, occurrence in enumerate(store) if self._kind(occurrence) == kind]
        for i in reversed(alike[: -self.count]):
            del store[i]

    def _kind(self, occurrence: Occurrence) -> tuple[object, ...]:
        if not self.by:
            return ()
        rows = [(newest(occurrence.rows, part), place) for part, place in self.by]
        return tuple(None if row is None else row.values[place] for row, place in rows)


def choose(mode: Mode, fits: Sequence[bool]) -> tuple[list[list[int]], set[int]]:
    """Return the groups that make one occurrence each, given which waiting ones fit, and which are used up."""
    fitting = [i for i, fit in enumerate(fits) if fit]
    if not fitting:
        return [], set()
    match mode:
        case Mode.UNRESTRICTED | Mode.RECENT:
            return [[i] for i in fitting], set()
        case Mode.CONTINUOUS:
            return [[i] for i in fitting], set(fitting)
        case Mode.CUMULATIVE:
            return [fitting], set(fitting)
        case Mode.CHRONICLE:
            return [fitting[:1]], set(fitting[:1])
        case Mode.PROXIMAL:
            return [fitting[-1:]], set(fitting[-1:])


def remove(store: Occurrences, gone: set[int]) -> None:
    """Take the occurrences at these places out."""
    if gone:
        store[:] = [occurrence for i, occurrence in enumerate(store) if i not in gone]
