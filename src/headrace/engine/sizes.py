"""The measured size of tuples: the mean over samples of what each vertex produces."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import polars as pl

from headrace.graph.graph import VertexId
from headrace.model.page import Element, Page

#: Bytes of a tuple before any was measured.
ASSUMED_BYTES = 64.0
#: A vertex is measured with its first page and with every so many pages after it, each time on so many tuples.
_EVERY, _SAMPLE = 16, 128
#: The weight of the newest sample.
_NEWEST = 0.25
#: Bytes that a text takes besides its characters.
_TEXT_BYTES = 16
#: Bytes of the types whose size depends on nothing else.
_WIDTHS: Mapping[type[pl.DataType], float] = {
    pl.Boolean: 0.125,
    pl.Int8: 1,
    pl.UInt8: 1,
    pl.Int16: 2,
    pl.UInt16: 2,
    pl.Int32: 4,
    pl.UInt32: 4,
    pl.Float32: 4,
    pl.Date: 4,
    pl.Int64: 8,
    pl.UInt64: 8,
    pl.Float64: 8,
    pl.Datetime: 8,
    pl.Duration: 8,
    pl.Time: 8,
}


class TupleSizes:
    """Bytes of a tuple by the vertex that produces it."""

    def __init__(self) -> None:
        self._bytes: dict[VertexId, float] = {}
        self._pages: dict[VertexId, int] = {}

    def __getitem__(self, vertex: VertexId) -> float:
        return self._bytes.get(vertex, ASSUMED_BYTES)

    def forget_others(self, vertices: Container[VertexId]) -> None:
        """Forget all vertices but these."""
        self._bytes = {name: size for name, size in self._bytes.items() if name in vertices}
        self._pages = {name: count for name, count in self._pages.items() if name in vertices}

    def sample(self, vertex: VertexId, elements: Iterable[Element]) -> None:
        """Measure some of the pages that a vertex produces."""
        for element in elements:
            if isinstance(element, Page) and len(element):
                count = self._pages.get(vertex, 0)
                self._pages[vertex] = count + 1
                if count % _EVERY == 0:
                    new, old = tuple_bytes(element.rows), self._bytes.get(vertex)
                    self._bytes[vertex] = new if old is None else old + _NEWEST * (new - old)


def tuple_bytes(rows: pl.DataFrame) -> float:
    """Return the mean size of the first tuples: what they would take on their own, whatever buffers they share."""
    sample = rows.head(_SAMPLE)
    return sum(_value_bytes(column) for column in sample.iter_columns())


def _value_bytes(column: pl.Series) -> float:
    width = _WIDTHS.get(type(column.dtype))
    if width is not None:
        return width
    if column.dtype == pl.String:
        return _TEXT_BYTES + int(column.str.len_bytes().sum()) / len(column)
    return column.rechunk().estimated_size() / len(column)
