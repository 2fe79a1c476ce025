"""Runs a graph in this process, element by element, without engine, buckets or host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import polars as pl

from headrace.catalog.definitions import Stream
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import SEQ, TS
from headrace.model.time import BEGIN, END
from headrace.operators.endpoints import Output, Scan
from headrace.operators.operator import Operator
from headrace.testing.oracle.rows import Row, rows_of
from headrace.testing.streams import page

#: Returns what is left of a page on an arc.
Keep: TypeAlias = Callable[[Arc, Page], Page]


def run_graph(
    graph: Graph,
    streams: Sequence[Stream],
    histories: Mapping[str, Sequence[Row]],
    *,
    size: int = 1,
    forgetful: bool = False,
    keep: Keep | None = None,
) -> list[Row]:
    """Return all results once the streams have ended, in the order in which they come.

    Pages of `size` tuples are taken from the streams in turn, each followed by the bound that the stream's skew
    permits. `forgetful` saves and restores all operators after every page; `keep` may drop tuples on an arc.
    """
    run = _Run(graph, keep)
    bounds: dict[str, Element] = {}
    for stream, element in _turns(streams, histories, size):
        run.enter(stream, element)
        if isinstance(element, Punctuation):
            bounds[stream] = element
        if forgetful:
            run.restart()
            for known, bound in bounds.items():  # as every micro-batch tells all bounds anew
                run.enter(known, bound)
    return run.results


class _Run:
    def __init__(self, graph: Graph, keep: Keep | None) -> None:
        self.keep = keep
        self.vertices = graph.by_id()
        self.readers = graph.readers()
        self.operators: dict[VertexId, Operator] = {item.id: item.spec.build() for item in graph}
        self.results: list[Row] = []

    def enter(self, stream: str, element: Element) -> None:
        for item in self.vertices.values():
            if isinstance(item.spec, Scan) and item.spec.stream == stream:
                self.push(item.id, 0, _narrowed(element, item.spec))

    def push(self, vertex: VertexId, port: int, element: Element) -> None:
        operator = self.operators[vertex]
        if self.keep is not None and isinstance(element, Page) and self.vertices[vertex].inputs:
            element = self.keep((vertex, port), element)
        if isinstance(element, Page) and isinstance(self.vertices[vertex].spec, Output):
            self.results += rows_of(element.rows.iter_rows(named=True))
        for out in list(operator.on_element(port, element)):
            for reader, reader_port in self.readers[vertex]:
                self.push(reader, reader_port, out)

    def restart(self) -> None:
        for name, old in self.operators.items():
            new = self.vertices[name].spec.build()
            new.restore({chunk: Page.decode(Page(frame).encode()).rows for chunk, frame in old.state().items()})
            self.operators[name] = new


def _turns(
    streams: Sequence[Stream], histories: Mapping[str, Sequence[Row]], size: int
) -> Iterator[tuple[str, Element]]:
    newest: dict[str, int] = {}
    longest = max((len(histories[stream.name]) for stream in streams), default=0)
    for start in range(0, longest, size):
        for stream in streams:
            rows = histories[stream.name][start : start + size]
            if rows:
                yield stream.name, page(stream.schema, rows)
                newest[stream.name] = max(newest.get(stream.name, BEGIN), *(row.ts for row in rows))
                yield stream.name, Punctuation(newest[stream.name] - stream.skew)
    for stream in streams:
        yield stream.name, Punctuation(END)


def _narrowed(element: Element, scan: Scan) -> Element:
    """Keep only the columns that the scan needs."""
    if not isinstance(element, Page):
        return element
    hidden = [TS, SEQ] if scan.seq else [TS]
    return Page(element.rows.select(pl.col(*scan.columns, *hidden)))
