"""Occurrences as rows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.model.events.output import Count, Ended, Output, Pick, Started
from headrace.model.schema import TS
from headrace.model.types import Type
from headrace.operators.events.conditions import Parts, series
from headrace.operators.events.detection import Detection
from headrace.operators.events.occurrence import Occurrence, newest


class Results:
    """Builds the output columns of detections."""

    def __init__(self, spec: Detection, parts: Parts) -> None:
        self._outputs = spec.outputs
        self._parts = parts

    def rows(self, occurrences: Sequence[Occurrence]) -> pl.DataFrame:
        """Return one row for each occurrence, stamped with its end."""
        stamps = pl.Series(TS, [occurrence.end for occurrence in occurrences], dtype=pl.Int64)
        return pl.DataFrame([*(self._column(output, occurrences) for output in self._outputs), stamps])

    def _column(self, output: Output, occurrences: Sequence[Occurrence]) -> pl.Series:
        match output:
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
