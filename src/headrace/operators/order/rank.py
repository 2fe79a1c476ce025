"""Number the tuples of a window in the order of some expressions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.expressions.expression import Expr
from headrace.model.rank import Ranking, RankOrder, format_order
from headrace.model.time import format_duration
from headrace.operators.keyed_spec import KeyedSpec
from headrace.operators.order.complete_windows import CompleteWindows
from headrace.operators.text import listed
from headrace.operators.windows.slices import firsts, group_numbers


class Rank(KeyedSpec, frozen=True, tag="rank"):
    """Each tuple with its place among those that agree in `by` and are in the same window of `size` microseconds.

    Windows are aligned; with size 1 they are instants. Of tuples that `order` does not tell apart, row_number puts the
    earlier one first, then goes by the columns named in `ties`. Windows that begin before `since` are left out.
    """

    size: int
    by: tuple[Expr, ...]
    order: tuple[RankOrder, ...]
    function: Ranking
    name: str
    ties: tuple[str, ...]
    since: int | UnsetType = UNSET  # not NULL, so that others are called as ever

    def build(self) -> RankOperator:
        return RankOperator(self)

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = f" of each {listed(self.by)}" if self.by else ""
        window = "" if self.size == 1 else f" in {format_duration(self.size)}"
        return f"{self.function}{per}{window} by {format_order(self.order)}"


class RankOperator(CompleteWindows):
    """The running half of `Rank`."""

    def __init__(self, spec: Rank) -> None:
        super().__init__(spec.size, spec.by, spec.order, spec.ties, spec.since)
        self._spec = spec

    def computed(self, ordered: pl.DataFrame) -> list[pl.Series]:
        groups = group_numbers(ordered, self.groups)
        start = firsts(groups)
        position = np.arange(ordered.height)
        match self._spec.function:
            case "row_number":
                place = position - start
            case "rank":  # that of the first tuple with the same values
                place = firsts(group_numbers(ordered, self.places)) - start
            case "dense_rank":
                values = group_numbers(ordered, self.places)
                place = values - values[start]
        return [pl.Series(self._spec.name, place + 1, dtype=pl.Int64)]
