"""Whether a join of streams without a common key runs in a grid, or step by step with exchanges in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from headrace.graph.graph import Graph
from headrace.model.grid import Grid
from headrace.operators.specs import Join, MultiJoin
from headrace.plan import nodes

#: What it costs to exchange a joined row, in copies of a tuple, as measured on Spark.
EXCHANGED = 1.25
#: The weight of the busiest input is at most so many times that of the least busy one.
_GREATEST = 64


class GridChoice:
    """Chooses for the joins of one query; it is a `ChooseGrid`.

    `others` are the graphs of the query that it replaces and of those that it reads: what they have, it shares.
    """

    def __init__(
        self,
        mode: Literal["auto", "on", "off"],
        buckets: int,
        rates: Callable[[], Mapping[str, float]],
        others: Iterable[Graph],
    ) -> None:
        self._mode, self._buckets, self._rates = mode, buckets, rates
        specs = [vertex.spec for graph in others for vertex in graph]
        self._boxes = {_box_key(spec): spec.grid for spec in specs if isinstance(spec, MultiJoin) and spec.grid}
        self._joins = {_join_key(spec) for spec in specs if isinstance(spec, Join)}

    def __call__(self, box: nodes.MultiJoin, written: nodes.Join) -> tuple[int, ...]:
        """Return the weights of the inputs in a grid, nothing if the joins are made one by one."""
        if _box_key(box) in self._boxes:
            return self._boxes[_box_key(box)]
        if self._mode == "off" or _join_key(written) in self._joins:
            return ()
        measured = self._rates()
        rates = [_rate(part, measured) for part in box.inputs]
        known = [rate for rate in rates if rate is not None]
        if len(known) < len(rates):
            known = [1.0] * len(rates)
        weights = _weights(known)
        if self._mode == "on" or self._pays(box, weights, known):
            return weights
        return ()

    def _pays(self, box: nodes.MultiJoin, weights: tuple[int, ...], rates: list[float]) -> bool:
        """Return whether copies should cost no more than exchanges; rates that are not known are alike."""
        grid = Grid(weights, tuple(_ports(members) for members in box.classes))
        copies = sum(rate * (grid.copies((port,), self._buckets) - 1) for port, rate in enumerate(rates))
        return copies <= EXCHANGED * exchanged(grid, rates)


def exchanged(grid: Grid, rates: list[float]) -> float:
    """Estimate how many joined rows per second would be exchanged, if inputs are joined one by one in their order.

    Nothing is known of how many keys agree. On average a tuple of the busiest stream so far should find one partner.
    """
    rows, lies_by = 0.0, {number for number, having in enumerate(grid.dimensions) if 0 in having}
    for port in range(1, len(rates)):
        own = {number for number, having in enumerate(grid.dimensions) if port in having}
        before = {n for n, having in enumerate(grid.dimensions) if set(having) & set(range(port))}
        shared = own & before
        if port > 1 and not shared & lies_by:
            rows += max(rates[:port])
        lies_by = shared
    return rows


def _ports(members: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(port for port, expr in enumerate(members) if expr is not None)


def _weights(rates: list[float]) -> tuple[int, ...]:
    """Return rates as small numbers that tell them apart: powers of two."""
    least = max(min(rates), max(rates) / _GREATEST, 1e-9)
    return tuple(1 << max(0, round(rate / least).bit_length() - 1) for rate in rates)


def _rate(node: nodes.Node, rates: Mapping[str, float]) -> float | None:
    """Return how many tuples come to an input per second at most, if that is known: of a stream, perhaps filtered."""
    while isinstance(node, nodes.Filter | nodes.Project):
        node = node.input
    return rates.get(node.name) if isinstance(node, nodes.Scan) else None


def _box_key(box: nodes.MultiJoin | MultiJoin) -> tuple[Any, ...]:
    return box.labels, box.classes, box.extents


def _join_key(join: nodes.Join | Join) -> tuple[Any, ...]:
    return join.keys, join.residual, join.left_extent, join.right_extent
