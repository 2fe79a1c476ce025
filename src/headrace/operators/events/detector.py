"""The general detector: a node per operator of the expression, instant by instant, for each key by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from headrace.elements.event_rewrite import own_names
from headrace.elements.page import Element, Page, Punctuation
from headrace.elements.schema import TS
from headrace.elements.time import BEGIN, END
from headrace.operators.evaluate import compile_predicate
from headrace.operators.events.alarms import Alarms
from headrace.operators.events.compile import compile_event
from headrace.operators.events.conditions import Parts
from headrace.operators.events.histories import Histories, Key
from headrace.operators.events.intake import Intake
from headrace.operators.events.node import death, is_timed, next_timer, run
from headrace.operators.events.occurrence import Memory, Occurrence, Occurrences, Row
from headrace.operators.events.results import Results
from headrace.operators.hashing import hash_columns
from headrace.operators.operator import Operator, State

if TYPE_CHECKING:
    from headrace.operators.events.detect import Detect

#: The tuples of one key by instant and part.
Arrivals: TypeAlias = dict[int, dict[int, Occurrences]]


class Detector(Operator):
    """Tuples that wait for the frontier, and what is remembered of earlier ones."""

    def __init__(self, spec: Detect) -> None:
        self._parts = Parts(spec.event, spec.schemas, spec.needed())
        self._root, stores = compile_event(spec.event, spec.context, self._parts, spec.conditions)
        self._is_timed = is_timed(self._root)
        self._intake = Intake(spec)
        self._histories = Histories(stores)
        self._results = Results(spec, self._parts)
        shared = len({part.port for part in self._parts.events}) < len(self._parts.events)
        self._masks = [compile_predicate(own_names(part.mask)) if shared and part.mask is not None else None for part in self._parts.events]
        #: For each key when something happens by itself, and when all that is remembered will be of no use.
        self._timers, self._deaths = Alarms(), Alarms()

    def on_page(self, port: int, page: Page) -> Iterator[Element]:
        self._intake.add(port, page)
        return iter(())

    def on_punctuation(self, port: int, mark: Punctuation) -> Iterator[Element]:
        bound = self._intake.advance(port, mark.bound)
        if bound is None:
            return
        found = self._detect(bound)
        if found:
            yield Page(self._results.rows(found))
        yield Punctuation(bound)

    def state(self) -> State:
        return self._histories.state() | self._intake.state()

    def restore(self, state: State) -> None:
        self._histories.restore(state)
        self._intake.restore(state)
        for key, memory in self._histories:
            self._timers.set(key, self._timer(memory, END))
            self._deaths.set(key, death(self._root, memory))

    def held(self) -> int:
        return len(self._histories) + self._intake.held()

    def due(self) -> int | None:
        least = min(self._intake.oldest(), self._timers.least())
        return None if least >= END else least + 1

    def _detect(self, bound: int) -> Occurrences:
        """What ends below the bound, in timestamp order."""
        arrivals, hashes = self._arrivals(bound)
        for key in self._timers.below(bound):
            arrivals.setdefault(key, {})
        found: Occurrences = []
        for key, instants in arrivals.items():
            memory = self._histories.open(key, hashes.get(key, 0))
            found += self._replay(memory, instants, bound)
            self._histories.close(key)
            self._timers.set(key, self._timer(memory, END if bound < END else BEGIN))
            self._deaths.set(key, death(self._root, memory))
        for key in self._deaths.below(bound):
            self._histories.clear(key)
        found.sort(key=lambda each: each.end)
        return found

    def _replay(self, memory: Memory, instants: Arrivals, bound: int) -> Occurrences:
        """Go through the instants of one key, and those between at which something happens by itself."""
        root, found = self._root, Occurrences()
        # When all is over, what has no end of its own ends with the last tuple.
        last = END if bound < END else max(instants, default=BEGIN)
        for now in sorted(instants):
            while (timer := self._timer(memory, last)) < now:
                found += run(root, memory, timer, {})
            found += run(root, memory, now, instants[now])
        while (timer := self._timer(memory, last)) < bound:
            found += run(root, memory, timer, {})
        return found

    def _timer(self, memory: Memory, last: int) -> int:
        return next_timer(self._root, memory, last) if self._is_timed else END

    def _arrivals(self, bound: int) -> tuple[dict[Key, Arrivals], dict[Key, int]]:
        """The tuples below the bound by key, and the hashes of the keys."""
        found: dict[Key, Arrivals] = {}
        hashes: dict[Key, int] = {}
        taken = {port: self._intake.take(port, bound) for port in sorted({part.port for part in self._parts.events})}
        names = self._intake.key_names
        for number, part in enumerate(self._parts.events):
            rows = taken[part.port]
            mask = self._masks[number]
            rows = rows if rows is None or mask is None else rows.filter(mask)
            if rows is None or rows.height == 0:
                continue
            values = rows.select(pl.col(field.name).to_physical() for field in self._parts.kept[number]).rows()
            values = values or [()] * rows.height  # a frame without columns has no rows
            keys: list[Key] = [()] * rows.height
            if names:
                keys = list(map(_comparable, rows.select(pl.col(names).to_physical()).rows()))
                hashes.update(zip(keys, hash_columns([rows[name] for name in names]).tolist(), strict=True))
            for key, ts, row in zip(keys, rows[TS].to_list(), values, strict=True):
                one = Occurrence(ts, ts, ts, (Row(number, ts, row),))
                found.setdefault(key, {}).setdefault(ts, {}).setdefault(number, []).append(one)
        return found, hashes


def _comparable(key: Key) -> Key:
    """A key that equals itself, which NaN does not."""
    return tuple("NaN" if value != value else value for value in key)
