"""Occurrences of events, and lists of them that wait for others; what the oracle of events is written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.events.event import Event, primitives
from headrace.model.schema import TS
from headrace.testing.oracle.rows import Row


@dataclass(frozen=True, eq=False)
class Occurrence:
    """An occurrence of an event: the interval that operators see, when it began, and its tuples with their parts."""

    start: int
    end: int
    begin: int
    rows: tuple[tuple[str, Row], ...]

    def newest(self, part: str) -> Row | None:
        """Return the newest tuple of a part; of several with the same timestamp, the last one."""
        mine = [row for name, row in self.rows if name == part]
        latest = max((row.ts for row in mine), default=0)
        return [row for row in mine if row.ts == latest][-1] if mine else None

    def lasts(self, now: int, span: int | None) -> bool:
        """Say whether an occurrence that ends now and contains this one lies within a span of time (None: any)."""
        return span is None or now - self.begin <= span


class Waiting:
    """Occurrences that wait for others, in the order in which they ended.

    `keep` returns those of a list that are kept when the last of them was added. Occurrences that are removed make room
    for others.
    """

    def __init__(self, keep: Callable[[list[Occurrence]], list[Occurrence]], coming: list[Occurrence]) -> None:
        self._keep, self.coming = keep, coming
        self.waiting: list[Occurrence] = []

    def before(self, instant: int) -> list[Occurrence]:
        """Return the occurrences that wait at an instant, of those that ended earlier."""
        ended = [occurrence for occurrence in self.coming if occurrence.end < instant]
        self.coming = [occurrence for occurrence in self.coming if occurrence.end >= instant]
        for newly_ended in ended:
            self.waiting = self._keep([*self.waiting, newly_ended])
        return list(self.waiting)

    def remove(self, gone: list[Occurrence]) -> None:
        """Let these wait no longer."""
        self.waiting = [occurrence for occurrence in self.waiting if occurrence not in gone]


def arrivals(operands: Sequence[list[Occurrence]]) -> list[tuple[int, Occurrence]]:
    """Return the occurrences of all operands in the order in which they end, each with the number of its operand."""
    together = [(operand, occurrence) for operand, occurrences in enumerate(operands) for occurrence in occurrences]
    return sorted(together, key=lambda pair: pair[1].end)


def by_end(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """Sort occurrences by the time at which they end."""
    return sorted(occurrences, key=lambda occurrence: occurrence.end)


def scope_of(rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
    """Return the columns of all parts by qualified name; of a part with several tuples, those of the newest."""
    scope: dict[str, Any] = {}
    for part, row in sorted(rows, key=lambda pair: pair[1].ts):
        scope |= {f"{part}.{name}": value for name, value in row.values.items()} | {f"{part}.{TS}": row.ts}
    return scope


def names_in(event: Event) -> set[str]:
    """Return the names of the parts of an event."""
    return {part.name for part in primitives(event)}


def operands_of(event: Event) -> list[Event]:
    """Return the events that an operator combines."""
    fields = [getattr(event, name) for name in event.__struct_fields__]
    return [
        operand
        for field in fields
        for operand in (field if isinstance(field, tuple) else (field,))
        if isinstance(operand, Event)
    ]
