"""Repetition on columns: a start, the tuples of one middle, an end, all of different inputs.

The next end closes a start, so each start has at most one end, and its middles are a run of those of its key. Starts,
ends and runs are found by searching in tuples that are sorted by key and time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from headrace.errors import InternalError
from headrace.model.events.event import Mode, Primitive, Repetition, Within
from headrace.model.events.output import Aggregated, Count, Ended, Output, Pick, Started
from headrace.model.schema import SEQ, TS
from headrace.model.time import END
from headrace.operators.arrays import KEY, Ints, gather, stable_order
from headrace.operators.events.chain import KeyedInputs
from headrace.operators.events.detection import Detection
from headrace.operators.events.inputs import numbered, part_of
from headrace.operators.events.results import OCCURRENCE, aggregated, aggregates_of
from headrace.operators.joins.sequence_match import number_rows, places_before
from headrace.operators.joins.sequence_state import Predecessors
from headrace.operators.operator import State

_START, _MIDDLE, _END = range(3)
_CLOSING = (Mode.RECENT, Mode.PROXIMAL, Mode.CONTINUOUS)


def is_filled(spec: Detection) -> bool:
    """Return whether an event is such a repetition: within a time, and without conditions but those of keys."""
    event = spec.event.event if isinstance(spec.event, Within) else None
    if not isinstance(event, Repetition) or len(event.middles) != 1 or any(event.links):
        return False
    parts = (event.start, *event.middles, event.end)
    instants = [part for part in parts if isinstance(part, Primitive) and part.start is None]
    return (
        len(instants) == len({part.port for part in instants}) == 3
        and spec.context.mode in _CLOSING
        and not spec.context.retentions
        and not spec.conditions
    )


class Filled(KeyedInputs):
    """Starts that no end has closed, and the middles since."""

    def __init__(self, spec: Detection) -> None:
        super().__init__(spec)
        if not isinstance(spec.event, Within) or not isinstance(spec.event.event, Repetition):
            raise InternalError("not a repetition within a time")
        self._span = spec.event.span
        ((self._least, self._most),) = spec.event.event.counts
        self._is_latest = spec.context.mode is not Mode.CONTINUOUS
        self._names = [part.name for part in self._parts]
        self._aggregates = {self._names.index(part): made for part, made in aggregates_of(spec.outputs).items()}
        self._starts, self._middles = Predecessors(), Predecessors()

    def state(self) -> State:
        stores = (self._starts.state(), self._middles.state())
        return numbered("store", stores) | self._inputs.state()

    def restore(self, state: State) -> None:
        self._inputs.restore(state)
        self._starts.restore(part_of(state, "store0/"))
        self._middles.restore(part_of(state, "store1/"))

    def held(self) -> int:
        return self._inputs.held() + len(self._starts) + len(self._middles)

    def _stores(self) -> Sequence[Predecessors]:
        return self._starts, self._middles

    def _detect(self, bound: int) -> pl.DataFrame | None:
        starts, middles, ends = (self._rows(part, bound) for part in range(3))
        if starts is not None:
            self._starts.add(starts)
        if middles is not None:
            self._middles.add(middles)
        detected = None if ends is None or not len(self._starts) else self._closed(ends)
        if starts is not None and self._is_latest and bound < END:
            self._replace(starts)
        self._forget(bound)
        return detected

    def _closed(self, ends: pl.DataFrame) -> pl.DataFrame | None:
        """Close the starts that have an end; return what is detected of them."""
        end_keys = ends[KEY].to_numpy()
        touched = np.flatnonzero(np.isin(self._starts.keys, end_keys))
        if not len(touched):
            return None
        starts = self._starts.take(touched)
        near = np.flatnonzero(np.isin(self._middles.keys, end_keys))
        middles = self._middles.take(near) if len(near) else None
        start_ids, end_ids, middle_ids = self._groups(starts, ends, middles)
        by_start, by_end, by_middle = (stable_order(ids) for ids in (start_ids, end_ids, middle_ids))
        start_ids, end_ids, middle_ids = start_ids[by_start], end_ids[by_end], middle_ids[by_middle]
        start_ts, end_ts = starts[TS].to_numpy()[by_start], ends[TS].to_numpy()[by_end]
        middle_ts = np.empty(0, np.int64) if middles is None else middles[TS].to_numpy()[by_middle]
        first = places_before(end_ids, end_ts, start_ids, start_ts, inclusive=True)
        has_end = first < len(end_ids)
        has_end[has_end] = end_ids[first[has_end]] == start_ids[has_end]
        closed = np.flatnonzero(has_end)
        self._starts.drop(touched[by_start[closed]])
        if self._is_latest:  # of those with the same end the last
            closed = closed[np.append(first[closed[1:]] != first[closed[:-1]], True)] if len(closed) else closed
        until = end_ts[first[closed]]
        within = until - start_ts[closed] <= self._span
        closed, until = closed[within], until[within]
        low = places_before(middle_ids, middle_ts, start_ids[closed], start_ts[closed], inclusive=True)
        high = places_before(middle_ids, middle_ts, start_ids[closed], until, inclusive=False)
        number = high - low
        filled = (number >= self._least) & (number <= (np.iinfo(np.int64).max if self._most is None else self._most))
        closed, low, high = closed[filled], low[filled], high[filled]
        if not len(closed):
            return None
        at_end = by_end[first[closed]]
        order = stable_order(at_end)
        rows = (starts, middles, ends)
        return self._results(rows, by_start[closed[order]], at_end[order], low[order], high[order], by_middle)

    def _results(
        self,
        rows: tuple[pl.DataFrame, pl.DataFrame | None, pl.DataFrame],
        at_start: Ints,
        at_end: Ints,
        low: Ints,
        high: Ints,
        by_middle: Ints,
    ) -> pl.DataFrame:
        """Return a row for each start with its end and the middles from `low` to `high`, as sorted `by_middle`."""
        starts, middles, ends = rows
        number = high - low
        runs = np.repeat(low - np.append(0, np.cumsum(number)[:-1]), number) + np.arange(int(number.sum()))
        places = {_START: at_start, _END: at_end, _MIDDLE: by_middle[runs]}
        tuples: dict[int, pl.DataFrame] = {_START: gather(starts, at_start), _END: gather(ends, at_end)}
        if middles is not None:
            tuples[_MIDDLE] = gather(middles, places[_MIDDLE])
        values = {
            part: aggregated(made, self._of_part(part, tuples.get(part), number), len(number))
            for part, made in self._aggregates.items()
        }
        newest = np.cumsum(number) - 1
        columns = [self._column(output, tuples, values, number, newest) for output in self._spec.outputs]
        return pl.DataFrame([*columns, tuples[_END][TS]])

    def _of_part(self, part: int, rows: pl.DataFrame | None, number: Ints) -> pl.DataFrame | None:
        """Return the tuples of a part under their own names, with the number of their occurrence."""
        if rows is None:
            return None
        head = f"{self._names[part]}."
        own = [rows[name].alias(name.removeprefix(head)) for name in rows.columns if name.startswith(head)]
        occurrence = np.repeat(np.arange(len(number)), number) if part == _MIDDLE else np.arange(len(number))
        own = [column for column in own if column.name != TS]
        seq = pl.int_range(rows.height, dtype=pl.Int64, eager=True).alias(SEQ)
        return pl.DataFrame([*own, rows[TS], seq, pl.Series(OCCURRENCE, occurrence, dtype=pl.Int64)])

    def _column(
        self,
        output: Output,
        tuples: Mapping[int, pl.DataFrame],
        values: Mapping[int, pl.DataFrame],
        number: Ints,
        newest: Ints,
    ) -> pl.Series:
        match output:
            case Pick(name=name, part=part, column=column):
                place = self._names.index(part)
                if place != _MIDDLE:
                    return tuples[place][f"{part}.{column}"].alias(name)
                type_ = next(field.type for field in self._spec.schema if field.name == name)
                if place not in tuples or not tuples[place].height:
                    return pl.Series(name, [None] * len(number), dtype=type_.polars)
                shown = tuples[place][f"{part}.{column}"].gather(pl.Series(np.maximum(newest, 0)))
                nothing = pl.Series(name, [None], dtype=shown.dtype)
                return shown.zip_with(pl.Series(number > 0), nothing.new_from_index(0, len(number))).alias(name)
            case Count(name=name, part=part):
                counts = number if self._names.index(part) == _MIDDLE else np.ones(len(number), np.int64)
                return pl.Series(name, counts, dtype=pl.Int64)
            case Aggregated(name=name, part=part, call=call):
                return values[self._names.index(part)][call.name].alias(name)
            case Started(name=name):
                return tuples[_START][TS].cast(pl.Datetime("us")).alias(name)
            case Ended(name=name):
                return tuples[_END][TS].cast(pl.Datetime("us")).alias(name)

    def _groups(
        self, starts: pl.DataFrame, ends: pl.DataFrame, middles: pl.DataFrame | None
    ) -> tuple[Ints, Ints, Ints]:
        """Return numbers that are equal iff the keys are."""
        frames = [starts, ends, starts.clear() if middles is None else middles]
        if self._is_exact or not self._inputs.key_names:
            ids = [frame[KEY].to_numpy() for frame in frames]
            return ids[0], ids[1], ids[2]
        numbers = number_rows(pl.concat([frame.select(self._inputs.key_names) for frame in frames]))
        first, second = starts.height, starts.height + ends.height
        return numbers[:first], numbers[first:second], numbers[second:]

    def _replace(self, new: pl.DataFrame) -> None:
        """Drop the starts that later ones of their key have replaced."""
        places = np.flatnonzero(np.isin(self._starts.keys, new[KEY].to_numpy()))
        if not len(places):
            return
        names = [] if self._is_exact else self._inputs.key_names
        ids = number_rows(self._starts.take(places).select(names)) if names else self._starts.keys[places]
        order = stable_order(ids)
        again = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        self._starts.drop(places[order[again]])

    def _forget(self, bound: int) -> None:
        """Drop starts that no end at the bound or later can close, and middles before the oldest start of their key."""
        if bound >= END:
            self._starts.drop(np.arange(len(self._starts)))
            self._middles.drop(np.arange(len(self._middles)))
            return
        self._starts.drop(np.arange(np.searchsorted(self._starts.ts, bound - self._span, "left")))
        if not len(self._middles):
            return
        keys, first = np.unique(self._starts.keys, return_index=True)
        place = np.minimum(np.searchsorted(keys, self._middles.keys), max(0, len(keys) - 1))
        if not len(keys):
            self._middles.drop(np.arange(len(self._middles)))
            return
        used = (keys[place] == self._middles.keys) & (self._middles.ts > self._starts.ts[first[place]])
        self._middles.drop(np.flatnonzero(~used))
