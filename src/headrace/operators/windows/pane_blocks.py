"""Merged blocks of 2, 4, 8, ... neighboring panes, so that a window of many panes is made of few blocks.

Blocks are built of panes that are complete, each once, from the blocks of half their length; a window of n panes is
then at most 2 log n blocks. They follow from the panes and are no state: after a restart they are built again when a
window closes.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.model.time import BEGIN
from headrace.operators.state.run_tree import RunTree
from headrace.operators.state.runs import Runs

#: With fewer panes in a window, blocks do not pay.
_LEAST_PANES = 8


class PaneBlocks:
    """The rows of windows over `panes`, by the column `pane`.

    Panes are `length` long and begin at multiples of it after the `origin`; a window has `count` of them.
    """

    def __init__(
        self,
        panes: RunTree,
        pane: str,
        *,
        length: int,
        count: int,
        merge: Callable[[pl.DataFrame], pl.DataFrame],
        origin: int = 0,
    ) -> None:
        self._panes, self._pane, self._length, self._merge = panes, pane, length, merge
        self._origin = origin
        self._height = count.bit_length() - 1 if count >= _LEAST_PANES else 0
        self.forget()

    def forget(self) -> None:
        """Start again after the panes were replaced."""
        self._levels: list[Runs | RunTree] = [
            self._panes,
            *(Runs("blocks", self._pane, None) for _ in range(self._height)),
        ]
        self._built = [BEGIN] * (self._height + 1)

    def build(self, bound: int) -> None:
        """Merge what is complete when no tuple before `bound` can come any more."""
        least, origin = self._panes.least(), self._origin
        for level in range(1, self._height + 1):
            length = self._length << level
            first = (least - origin) // length * length + origin
            start, stop = max(self._built[level], first), (bound - origin) // length * length + origin
            if start < stop:
                rows = self._levels[level - 1].between(start, stop)
                if rows:
                    begun = (pl.col(self._pane) - origin) // length * length + origin
                    self._levels[level].append(self._merge(pl.concat(rows).with_columns(begun)))
                self._built[level] = stop

    def between(self, start: int, stop: int) -> list[pl.DataFrame]:
        """Return partials that make up the panes from `start` to `stop`, whole panes that `build` has seen complete."""
        partials: list[pl.DataFrame] = []
        length, origin = self._length, self._origin
        for level in range(self._height):
            longer = 2 * length
            inner_start = -((origin - start) // longer) * longer + origin
            inner_stop = (stop - origin) // longer * longer + origin
            if inner_start >= inner_stop:
                return partials + self._levels[level].between(start, stop)
            partials += self._levels[level].between(start, inner_start) + self._levels[level].between(inner_stop, stop)
            start, stop, length = inner_start, inner_stop, longer
        return partials + self._levels[self._height].between(start, stop)

    def expire(self, horizon: int) -> None:
        """Drop the panes before the horizon, and the blocks that hold nothing else."""
        for level, runs in enumerate(self._levels):
            runs.expire(horizon - (self._length << level) + self._length)
