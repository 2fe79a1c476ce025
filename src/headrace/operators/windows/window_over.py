"""Aggregates over frames of the tuples of a complete window: OVER in any order, ahead as well as back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Expr
from headrace.model.frame import PlaceFrame
from headrace.model.rank import RankOrder, format_order
from headrace.model.schema import SEQ, TS
from headrace.model.time import format_duration
from headrace.model.window import AggregateCall, of_nothing
from headrace.operators.arrays import Array
from headrace.operators.keyed_spec import KeyedSpec
from headrace.operators.order.complete_windows import CompleteWindows
from headrace.operators.text import calls_text, listed
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.slices import firsts, fold_slices, group_numbers, lasts, merge_prefixes


class WindowOver(KeyedSpec, frozen=True, tag="window_over"):
    """Each tuple with aggregates of its frame, among the tuples that agree in `by` and are in the same window.

    Windows of `size` microseconds are aligned; with size 1 they are instants. Of tuples that `order` does not tell
    apart the earlier one is first, then the columns `ties` decide. Windows that begin before `since` are left out.
    """

    size: int
    by: tuple[Expr, ...]
    order: tuple[RankOrder, ...]
    frame: PlaceFrame
    calls: tuple[AggregateCall, ...]
    ties: tuple[str, ...]
    since: int | UnsetType = UNSET

    def build(self) -> WindowOverOperator:
        return WindowOverOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" of each {listed(self.by)}" if self.by else ""
        window = "" if self.size == 1 else f" in {format_duration(self.size)}"
        order = f" by {format_order(self.order)}" if self.order else ""
        return f"{calls_text(self.calls)}{per}{window}{order} over {self.frame}"


class WindowOverOperator(CompleteWindows):
    """The running half of `WindowOver`."""

    def __init__(self, spec: WindowOver) -> None:
        super().__init__(spec.size, spec.by, spec.order, spec.ties, spec.since)
        self._frame, self._aggregates = spec.frame, Aggregates((), spec.calls)

    def computed(self, ordered: pl.DataFrame) -> list[pl.Series]:
        groups = group_numbers(ordered, self.groups)
        starts, stops = self._slices(ordered, groups)
        # the place, not the timestamp, says what is first, last, or comes next
        place = pl.int_range(pl.len(), dtype=pl.Int64)
        rows = self._aggregates.read(ordered).with_columns(place.alias(TS), place.alias(SEQ))
        filled = np.flatnonzero(stops > starts)
        partials = self._partials(rows, groups, starts[filled], stops[filled])
        values = None if partials is None else self._aggregates.finals(partials)
        return [self._column(call, values, filled, ordered.height) for call in self._aggregates.calls]

    def _slices(self, ordered: pl.DataFrame, groups: Array) -> tuple[Array, Array]:
        """Return the first position of each frame, and the one behind its last."""
        first, behind, frame = firsts(groups), lasts(groups) + 1, self._frame
        peers = group_numbers(ordered, self.places) if frame.peers else np.arange(ordered.height)
        starts = first if frame.start is None else np.maximum(firsts(peers) + frame.start, first)
        stops = behind if frame.end is None else np.minimum(lasts(peers) + 1 + frame.end, behind)
        if frame.nth is not None:
            starts = starts + frame.nth - 1
            stops = np.minimum(stops, starts + 1)
        return starts, stops

    def _partials(self, rows: pl.DataFrame, groups: Array, starts: Array, stops: Array) -> pl.DataFrame | None:
        """Return partials of rows[start:stop] for each pair; equal and growing stretches are computed once."""
        if not len(starts):
            return None
        frame = self._frame
        if frame.nth is None and (frame.start is None) != (frame.end is None):
            single = self._aggregates.fold(rows, [SEQ])
            if frame.start is None:
                return merge_prefixes(self._aggregates, single, groups)[stops - 1]
            backward = merge_prefixes(self._aggregates, single.reverse(), groups[-1] - groups[::-1])
            return backward[rows.height - 1 - starts]
        pairs, place = np.unique(np.stack([starts, stops], axis=1), axis=0, return_inverse=True)
        return fold_slices(self._aggregates, rows, pairs[:, 0], pairs[:, 1])[place.ravel()]

    def _column(self, call: AggregateCall, values: pl.DataFrame | None, filled: Array, height: int) -> pl.Series:
        """Return the values of a call, with what it is over nothing for the other tuples."""
        dtype = call.type.polars
        if values is not None and len(filled) == height:
            return values[call.name]
        nothing = pl.Series(call.name, [of_nothing(call)], dtype=dtype)
        known = nothing if values is None else pl.concat([nothing, values[call.name]])
        place = np.zeros(height, np.int64)
        place[filled] = np.arange(1, len(filled) + 1)
        return known[place]
