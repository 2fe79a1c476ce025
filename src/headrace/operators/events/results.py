"""Occurrences as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from headrace.model.events.output import Aggregated, Count, Ended, Output, Pick, Started
from headrace.model.schema import SEQ, TS
from headrace.model.types import ArrayType, Type
from headrace.model.window import AggregateCall
from headrace.operators.events.conditions import Parts, series
from headrace.operators.events.detection import Detection
from headrace.operators.events.occurrence import Occurrence, newest
from headrace.operators.windows.aggregates import Aggregates

#: The number of the occurrence that a tuple belongs to.
OCCURRENCE = "__occurrence"


class Results:
    """Builds the output columns of detections."""

    def __init__(self, spec: Detection, parts: Parts) -> None:
        self._outputs = spec.outputs
        self._parts = parts
        self._aggregates = {parts.names.index(part): made for part, made in aggregates_of(spec.outputs).items()}

    def rows(self, occurrences: Sequence[Occurrence]) -> pl.DataFrame:
        """Return one row for each occurrence, stamped with its end."""
        stamps = pl.Series(TS, [occurrence.end for occurrence in occurrences], dtype=pl.Int64)
        values = {part: self._aggregated(part, occurrences) for part in self._aggregates}
        return pl.DataFrame([*(self._column(output, occurrences, values) for output in self._outputs), stamps])

    def _aggregated(self, part: int, occurrences: Sequence[Occurrence]) -> pl.DataFrame:
        """Return the aggregates over the tuples of a part, a row for each occurrence; it may have no such tuple."""
        tuples = [(i, row) for i, occurrence in enumerate(occurrences) for row in occurrence.rows if row.part == part]
        columns = [
            series(field.name, [row.values[place] for _, row in tuples], field.type)
            for place, field in enumerate(self._parts.kept[part])
        ]
        columns += [
            pl.Series(TS, [row.ts for _, row in tuples], dtype=pl.Int64),
            pl.Series(SEQ, range(len(tuples)), dtype=pl.Int64),
            pl.Series(OCCURRENCE, [i for i, _ in tuples], dtype=pl.Int64),
        ]
        return aggregated(self._aggregates[part], pl.DataFrame(columns), len(occurrences))

    def _column(
        self, output: Output, occurrences: Sequence[Occurrence], values: Mapping[int, pl.DataFrame]
    ) -> pl.Series:
        match output:
            case Aggregated(name=name, part=part_name, call=call):
                return values[self._parts.names.index(part_name)][call.name].alias(name)
            case Pick(name=name, part=part_name, column=column):
                part = self._parts.names.index(part_name)
                place = self._parts.place(part, column)
                rows = [newest(occurrence.rows, part) for occurrence in occurrences]
                return series(
                    name, [None if row is None else row.values[place] for row in rows], self._parts.type(part, column)
                )
            case Count(name=name, part=part_name):
                part = self._parts.names.index(part_name)
                return pl.Series(
                    name,
                    [sum(row.part == part for row in occurrence.rows) for occurrence in occurrences],
                    dtype=pl.Int64,
                )
            case Started(name=name):
                return series(name, [occurrence.begin for occurrence in occurrences], Type.TIMESTAMP)
            case Ended(name=name):
                return series(name, [occurrence.end for occurrence in occurrences], Type.TIMESTAMP)


def aggregates_of(outputs: Sequence[Output]) -> dict[str, Aggregates]:
    """Return the aggregates over the tuples of each part that has some."""
    calls: dict[str, list[AggregateCall]] = {}
    for output in outputs:
        if isinstance(output, Aggregated):
            calls.setdefault(output.part, []).append(output.call)
    return {part: Aggregates((), tuple(mine)) for part, mine in calls.items()}


def aggregated(aggregates: Aggregates, tuples: pl.DataFrame | None, number: int) -> pl.DataFrame:
    """Return the aggregates over the tuples of so many occurrences, a row for each, which may have none."""
    known: list[pl.DataFrame] = []
    present: set[int] = set()
    if tuples is not None and tuples.height:
        partials = aggregates.fold(aggregates.read(tuples, pl.col(OCCURRENCE)), [OCCURRENCE])
        known.append(aggregates.finals(partials).with_columns(partials[OCCURRENCE]))
        present = set(partials[OCCURRENCE].to_list())
    missing = sorted(set(range(number)) - present)
    values = [
        pl.Series(call.name, [_of_nothing(call)] * len(missing), dtype=call.type.polars) for call in aggregates.calls
    ]
    empty = pl.DataFrame([*values, pl.Series(OCCURRENCE, missing, dtype=pl.Int64)])
    return pl.concat([*known, empty]).sort(OCCURRENCE)


def _of_nothing(call: AggregateCall) -> object:
    """Return the value of an aggregate over no tuples."""
    if call.function in ("count", "count_distinct", "approx_count_distinct"):
        return 0
    return [] if isinstance(call.type, ArrayType) and call.function in ("collect_list", "collect_set") else None
