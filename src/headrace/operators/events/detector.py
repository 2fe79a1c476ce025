"""The general detector: a node per operator of the expression, instant by instant, for each key by itself."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.model.time import BEGIN, END
from headrace.operators.capabilities import Choose
from headrace.operators.events.by_key import Arrivals, arrivals, key_columns
from headrace.operators.events.compile import compile_event
from headrace.operators.events.conditions import Parts
from headrace.operators.events.detection import Detection
from headrace.operators.events.histories import Histories, Key
from headrace.operators.events.inputs import InputsOperator
from headrace.operators.events.masks import begins, mask_tests
from headrace.operators.events.node import climb, death, is_timed, next_timer, path, run, stop
from headrace.operators.events.occurrence import Memory, Occurrences
from headrace.operators.events.results import Results
from headrace.operators.events.timers import Timers
from headrace.operators.operator import State
from headrace.operators.partitioning import Keys
from headrace.operators.state.given import given_up


class Detector(InputsOperator):
    """Tuples that wait for the frontier, and what is remembered of earlier ones."""

    def __init__(self, spec: Detection) -> None:
        self._parts = Parts(spec.event, spec.schemas, spec.needed())
        self._root, stores = compile_event(spec.event, spec.context, self._parts, spec.conditions)
        self._is_timed = is_timed(self._root)
        super().__init__(spec)
        self._key_exprs = spec.keys[0]
        self._histories = Histories(stores, lambda memory: (self._timer(memory, END), death(self._root, memory)))
        self._results = Results(spec, self._parts)
        self._begins = [None if part.start is None else begins(part.start) for part in self._parts.events]
        self._point = spec.context.point
        shared = len({part.port for part in self._parts.events}) < len(self._parts.events)
        self._kept = [[field.name for field in fields] for fields in self._parts.kept]
        self._paths = [path(self._root, number) for number in range(len(self._parts.events))]
        self._tests = [test if shared else None for test in mask_tests(spec.event)]
        #: For each key when something happens by itself, and when all that is remembered will be of no use.
        self._timers, self._deaths = Timers(), Timers()

    def state(self) -> State:
        return self._histories.state() | self._inputs.state()

    def restore(self, state: State) -> None:
        self._histories.restore(state)
        self._inputs.restore(state)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        kept = self._inputs.kept_keys(0, keys)
        types = [key.type for key in self._key_exprs]
        history, gone = self._histories.give(lambda found: choose(key_columns(found, types), kept))
        for key in gone:
            self._timers.set(key, END)
            self._deaths.set(key, END)
        return given_up(history=history) | self._inputs.give(keys, choose)

    def take(self, given: State) -> None:
        self._inputs.take_in(given)
        if "history" in given:
            self._histories.take_in(given["history"])

    def held(self) -> int:
        return len(self._histories) + self._inputs.held()

    def due(self) -> int | None:
        least = min(self._inputs.oldest(), self._timers.least(), self._histories.timer())
        return None if least >= END else least + 1

    def _detect(self, bound: int) -> pl.DataFrame | None:
        for key, memory in self._histories.wake(bound):
            self._set_times(key, memory, bound)
        waiting = dict.fromkeys(self._timers.below(bound))
        detected: Occurrences = []
        for arrived in arrivals(
            self._taken(bound), self._kept, self._inputs.key_names, self._begins, point=self._point
        ):
            waiting.pop(arrived.key, None)
            detected += self._replay(arrived, bound)
        for key in waiting:
            detected += self._replay(Arrivals(key, 0, (), (), []), bound)
        for key in self._deaths.below(bound):
            self._histories.clear(key)
        detected.sort(key=lambda occurrence: occurrence.end)
        return self._results.rows(detected) if detected else None

    def _replay(self, arrived: Arrivals, bound: int) -> Occurrences:
        """Go through the instants of one key, and those between at which something happens by itself."""
        memory = self._histories.open(arrived.key, arrived.hash)
        detected: Occurrences = []
        if self._is_timed or len(set(arrived.instants)) < len(arrived.instants):
            self._replay_together(memory, arrived, bound, detected)
        else:
            for now, part, occurrence in zip(arrived.instants, arrived.parts, arrived.tuples, strict=True):
                detected += climb(self._paths[part], memory, now, [occurrence])
        self._histories.close(arrived.key)
        self._set_times(arrived.key, memory, bound)
        return detected

    def _replay_together(self, memory: Memory, arrived: Arrivals, bound: int, detected: Occurrences) -> None:
        root = self._root
        # When all is over, what has no end of its own ends with the last tuple.
        last = END if bound < END else max(arrived.instants, default=BEGIN)
        for now, parts in arrived.together().items():
            while (timer := self._timer(memory, last)) < now:
                detected += run(root, memory, timer, {})
            if len(parts) == 1 and timer > now:
                part, tuples = next(iter(parts.items()))
                detected += climb(self._paths[part], memory, now, tuples)
            else:
                detected += run(root, memory, now, parts)
        while (timer := self._timer(memory, last)) < bound:
            if bound >= END:
                stop(root, memory, last)
            detected += run(root, memory, timer, {})

    def _timer(self, memory: Memory, last: int) -> int:
        return next_timer(self._root, memory, last) if self._is_timed else END

    def _set_times(self, key: Key, memory: Memory, bound: int) -> None:
        self._timers.set(key, self._timer(memory, END if bound < END else BEGIN))
        self._deaths.set(key, death(self._root, memory))

    def _taken(self, bound: int) -> list[tuple[int, pl.DataFrame]]:
        """Return the tuples below the bound, part by part."""
        taken = {port: self._inputs.take(port, bound) for port in sorted({part.port for part in self._parts.events})}
        by_part: list[tuple[int, pl.DataFrame]] = []
        for number, part in enumerate(self._parts.events):
            rows, test = taken[part.port], self._tests[number]
            rows = rows if rows is None or test is None else rows.filter(test)
            if rows is not None and rows.height:
                by_part.append((number, rows))
        return by_part
