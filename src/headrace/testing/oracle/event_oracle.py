"""What the definitions of event operators share: context, tuples, conditions, and which occurrences still count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, Mode, primitives
from headrace.model.expressions.expression import Expr, columns
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.occurrences import Occurrence, by_end, names_in, operands_of, scope_of
from headrace.testing.oracle.rows import Row


class EventOracle:
    """The tuples of one key, and the context and conditions under which an event is detected among them.

    `define` returns the occurrences of an event by the definition of its operator, in any order.
    """

    def __init__(
        self,
        define: Callable[[EventOracle, Event, int | None], list[Occurrence]],
        context: Context,
        histories: Mapping[str, Sequence[Row]],
        conditions: Sequence[Expr],
        until: int,
    ) -> None:
        self._define = define
        self.context, self.mode = context, context.mode
        self.histories, self.conditions, self.until = histories, conditions, until

    def all(self, event: Event, span: int | None) -> list[Occurrence]:
        """Return the occurrences of an event within a span of time, in the order in which they end."""
        return by_end([occurrence for occurrence in self._define(self, event, span) if occurrence.end < self.until])

    def union(self, parts: list[Occurrence], end: int) -> Occurrence:
        """Return the occurrence that consists of these parts."""
        rows = tuple(row for part in parts for row in part.rows)
        start = end if self.context.point else min(part.start for part in parts)
        return Occurrence(start, end, min(part.begin for part in parts), rows)

    def hold(
        self, event: Event, parts: list[Occurrence], *, with_: Event | None = None, without: Event | None = None
    ) -> bool:
        """Say whether the conditions hold that belong to this operator and whose parts are all there."""
        own = names_in(event)
        below = [names_in(operand) for operand in operands_of(event)]
        scope = scope_of([row for part in parts for row in part.rows])
        for term in self.conditions:
            named = {name.partition(".")[0] for name in columns(term)}
            if not named <= own or any(named <= names for names in below):
                continue
            if (with_ is not None and not named & names_in(with_)) or (
                without is not None and named & names_in(without)
            ):
                continue
            if all(name in scope for name in columns(term)) and value_of(term, scope) is not True:
                return False
        return True

    def usable(self, operand: Event, occurrence: Occurrence, now: int, span: int | None) -> bool:
        """Say whether an occurrence of an operand is young enough to be part of one that ends now."""
        retention = self.context.kept_of(operand)
        young = retention is None or retention.age is None or now - occurrence.end <= retention.age
        return young and occurrence.lasts(now, span)

    def kept(self, operand: Event, earlier: list[Occurrence]) -> list[Occurrence]:
        """Return the newest of each kind."""
        return [
            occurrence
            for place, occurrence in enumerate(earlier)
            if not self._replaced(operand, occurrence, earlier[place + 1 :])
        ]

    def _replaced(self, operand: Event, occurrence: Occurrence, later: Sequence[Occurrence]) -> bool:
        retention = self.context.kept_of(operand)
        latest = 1 if self.mode in (Mode.RECENT, Mode.PROXIMAL) else None
        keep = retention.keep if retention is not None and retention.keep is not None else latest
        if keep is None:
            return False
        return sum(self._kind(operand, newer) == self._kind(operand, occurrence) for newer in later) >= keep

    def _kind(self, operand: Event, occurrence: Occurrence) -> list[Any]:
        kinds = [(part.name, self.context.retention(part.name)) for part in primitives(operand)]
        rows = [
            (occurrence.newest(name), column)
            for name, retention in kinds
            if retention is not None
            for column in retention.by
        ]
        if isinstance(operand, events.Alias) and (own := self.context.retention(operand.name)) is not None:
            qualified = (column.partition(".") for column in own.by)
            rows += [(occurrence.newest(part), column) for part, _, column in qualified]
        return [None if row is None else row.values[column] for row, column in rows]
