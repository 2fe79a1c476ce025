"""The order in which a bucket takes the pages of a micro-batch, where a result depends on arrival (WITH PACE).

Which of two tuples of different streams arrived first is not known within a micro-batch. They are taken to have come in
step: each when its own stream had reached its newest timestamp so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headrace.engine.bounds.wakeup import upstream_sources
from headrace.graph.graph import Graph, VertexId
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.order.pace import Pace

#: Streams are in step up to this share of the tolerance.
_SHARE = 10


class Steps:
    """Which entrances of a graph are taken in step, and in steps of which length."""

    def __init__(self, graph: Graph) -> None:
        sources = upstream_sources(graph)
        paces = {vertex.id: vertex.spec for vertex in graph if isinstance(vertex.spec, Pace)}
        inputs = {name: sources[name] for name in paces if len(sources[name]) > 1}
        self.entrances = frozenset(source for names in inputs.values() for source in names)
        self.length = max(1, min((paces[name].tolerance for name in inputs), default=0) // _SHARE)

    def order(self, pages: Sequence[tuple[VertexId, Page]]) -> Sequence[tuple[VertexId, Page]]:
        """Return pages, those of several paced entrances cut and put in step; the tuples of each keep their order."""
        if len({name for name, page in pages if name in self.entrances and len(page)}) < 2:
            return pages
        others = [(name, page) for name, page in pages if name not in self.entrances]
        pieces: list[tuple[int, VertexId, Page]] = []
        newest: dict[VertexId, int] = {}
        for name, page in pages:
            if name in self.entrances and len(page):
                reached = np.maximum.accumulate(np.maximum(page.rows[TS].to_numpy(), newest.get(name, BEGIN)))
                newest[name] = int(reached[-1])
                steps = reached // self.length
                cuts = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(page)]
                pieces += [(int(steps[begin]), name, Page(page.rows[begin:end])) for begin, end in pairwise(cuts)]
        pieces.sort(key=lambda piece: piece[0])
        return [*others, *((name, page) for _, name, page in pieces)]
