"""Pages on their way from an ingest task to the buckets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.commands.allotments import PARCELS_PER_BUCKET, Allotment
from headrace.engine.shedding.shedders import Shedders
from headrace.graph.graph import Vertex, VertexId
from headrace.graph.place import counted_as, route_of
from headrace.model.grid import strides
from headrace.model.page import Page
from headrace.operators.arrays import stable_order
from headrace.operators.endpoints import GridPort
from headrace.operators.expressions.evaluate import evaluate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.specs import Receive
from headrace.worker.compression import compress
from headrace.worker.dealing import Dealer
from headrace.worker.wire import Kind, ParcelCounts, Row, Stage

#: The tuples of so many parcels are reported for each route, those with most.
MOST_COUNTED = 512
#: The size of a page of rows with lists, about.
MOST_BYTES = 2 << 20


class Router:
    """The pages of one task, gathered by route and divided among buckets by the keys of the route.

    `in_use` are those among which keys are divided by their hash. `allotments` say where parcels are that are not where
    the hash puts them. The tuples of parcels are counted if `counts` says so. `ends` names the outputs of the
    routes that lead to nothing else: `stage` may take their pages and return notes of where they are.
    """

    def __init__(
        self,
        task: int,
        routes: Sequence[Vertex],
        buckets: Sequence[int],
        *,
        in_use: Sequence[int] = (),
        allotments: Mapping[str, Allotment],
        counts: bool = False,
        page: int,
        ends: Mapping[VertexId, Sequence[VertexId]],
        stage: Stage | None,
        shedders: Shedders,
    ) -> None:
        self._task, self._buckets, self._page = task, buckets, page
        self._ends, self._stage, self._shedders = ends, stage, shedders
        self._routes = {vertex.id: vertex.spec for vertex in routes if isinstance(vertex.spec, Receive)}
        self._by_origin: dict[VertexId, list[VertexId]] = {}
        for name, spec in self._routes.items():
            self._by_origin.setdefault(spec.origin, []).append(name)
        used = {spec.allotment for spec in self._routes.values()}
        # those of queries that are gone may name buckets that are
        self._tables = {name: at.table(buckets) for name, at in allotments.items() if name in used}
        self._dealers = {
            name: Dealer(allotments[spec.allotment], spec.port, buckets, task)
            for name, spec in self._routes.items()
            if spec.port is not None and spec.allotment in allotments and allotments[spec.allotment].splits
        }
        self._waiting: dict[VertexId, list[pl.DataFrame]] = {}
        self._sizes: dict[VertexId, int] = {}
        self._sent = 0  # pages and staged files
        self._in_use = in_use or buckets
        self._by_hash = places_among(buckets, self._in_use)
        self._is_counting = counts
        self._counts: dict[str, npt.NDArray[np.int64]] = {}  # by parcel
        self.copies: dict[VertexId, int] = {}  # tuples of split parcels that were sent more than once, by route

    def add(self, origin: VertexId, page: Page) -> None:
        """Add a page of a vertex to all of its routes; it has none if every query that reads it is being stopped."""
        for name in self._by_origin.get(origin, ()):
            rest = page
            if self._shedders.active and (name, 0) in self._shedders.settings:
                rest = self._shedders.screen((name, 0), page)
                if not len(rest):
                    continue
            self._waiting.setdefault(name, []).append(rest.rows)
            self._sizes[name] = self._sizes.get(name, 0) + len(rest)

    def full(self) -> Iterator[Row]:
        """Yield the pages of full routes; those that may be staged wait, so that a task leaves one file."""
        for name in [name for name, size in self._sizes.items() if size >= self._page]:
            if self._stage is None or name not in self._ends:
                yield from self._send(name)

    def flush(self) -> Iterator[Row]:
        """Yield all pages that wait."""
        for name in list(self._waiting):
            yield from self._send(name)

    def _send(self, name: VertexId) -> Iterator[Row]:
        frames = self._waiting.pop(name)
        self._sizes.pop(name)
        notes = self._staged(name, frames)
        if notes is not None:
            yield from notes
            return
        rows = frames[0] if len(frames) == 1 else pl.concat(frames)
        for buckets, part in self._divide(name, rows, self._routes[name]):
            for piece in part.iter_slices(_rows_of_a_page(part, self._page)):
                payload = compress(Page(piece).encode())
                for bucket in buckets:
                    yield Row(bucket, Kind.PAGE, name, self._next_part(), piece.height, payload)

    def _staged(self, name: VertexId, frames: list[pl.DataFrame]) -> list[Row] | None:
        """Return notes of where the results are, if every query at the end of the route could stage them."""
        ends = self._ends.get(name, ())
        if self._stage is None or not ends:
            return None
        part, bucket = self._next_part(), self._in_use[self._task % len(self._in_use)]
        pages = [Page(frame) for frame in frames]
        notes: list[Row] = []
        for end in ends:
            staged = self._stage(bucket, end, pages, part)
            if staged is None:
                return None  # a file without a note is never put into place
            notes += staged
        return notes

    def _next_part(self) -> int:
        """Return the number of the next row, by which rows of several tasks are in the same order in every replay."""
        self._sent += 1
        return self._task << 32 | self._sent

    def parcels(self) -> dict[str, ParcelCounts]:
        """Return how many tuples went by each route whose tuples are counted."""
        counted = {}
        for name, counts in self._counts.items():
            heaviest = np.argsort(-counts, kind="stable")[:MOST_COUNTED]
            pairs = zip(heaviest.tolist(), counts[heaviest].tolist(), strict=True)
            counted[name] = ParcelCounts(int(counts.sum()), [(parcel, count) for parcel, count in pairs if count])
        return counted

    def _count(self, name: VertexId, hashes: npt.NDArray[np.uint64]) -> None:
        """Count tuples by parcel, once for all allotments of the same keys that have as many parcels."""
        parcels, counted = self._parcels(name), counted_as(route_of(name), self._parcels(name))
        others = (other for other in self._routes if other < name)
        if not any(counted_as(route_of(other), self._parcels(other)) == counted for other in others):
            counts = np.bincount((hashes % np.uint64(parcels)).astype(np.int64), minlength=parcels)
            self._counts[counted] = counts + self._counts.get(counted, 0)

    def _parcels(self, name: VertexId) -> int:
        """Return into how many parcels the keys of a route are divided."""
        table = self._tables.get(self._routes[name].allotment)
        return PARCELS_PER_BUCKET * len(self._in_use) if table is None else len(table)

    def _divide(
        self, name: VertexId, rows: pl.DataFrame, route: Receive
    ) -> Iterator[tuple[tuple[int, ...], pl.DataFrame]]:
        """Yield the rows of a route in parts, each with the buckets that it goes to."""
        table = self._tables.get(route.allotment, self._by_hash)
        if route.keys == () or len(self._buckets) == 1:
            yield (self._buckets[table[0]],), rows
        elif route.grid is not None:
            yield from _deal(rows, route.grid, [self._buckets[place] for place in dict.fromkeys(table.tolist())])
        elif route.keys is None:
            yield (self._in_use[(self._task + self._sent) % len(self._in_use)],), rows
        else:
            hashes = hash_columns(evaluate(rows, route.keys))
            if self._is_counting:
                self._count(name, hashes)
            chosen, places = self._places(name, hashes, table)
            if chosen is not None and len(chosen) > len(hashes):
                self.copies[name] = self.copies.get(name, 0) + len(chosen) - len(hashes)
            for bucket, part in divide(rows if chosen is None else rows[chosen], places, self._buckets):
                yield (bucket,), part

    def _places(
        self, name: VertexId, hashes: npt.NDArray[np.uint64], table: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64]]:
        """Return which tuples go where: their numbers (None: all, once), and the places of their buckets."""
        dealer = self._dealers.get(name)
        if dealer is None:
            return None, places_of(hashes, table)
        return dealer.send((hashes % np.uint64(len(table))).astype(np.int64))


def _rows_of_a_page(rows: pl.DataFrame, most: int) -> int:
    """Return how many rows a page gets; of rows with long lists fewer, because large buffers are slow to get."""
    if not any(dtype.is_nested() for dtype in rows.dtypes):
        return most
    return max(1, min(most, MOST_BYTES * rows.height // max(1, int(rows.estimated_size()))))


def _deal(rows: pl.DataFrame, at: GridPort, buckets: Sequence[int]) -> Iterator[tuple[tuple[int, ...], pl.DataFrame]]:
    """Split rows by the first of their cells in a grid; they go to the buckets of all of their cells."""
    sizes = at.grid.sizes(len(buckets))
    first = np.zeros(rows.height, np.int64)
    for key, size, stride in zip(at.keys, sizes, strides(sizes), strict=True):
        if key is not None and size > 1:
            first += (hash_columns(evaluate(rows, (key,))) % np.uint64(size)).astype(np.int64) * stride
    offsets = at.grid.offsets(at.port, len(buckets))
    for cell, part in divide(rows, first, range(math.prod(sizes))):
        yield tuple(buckets[cell + offset] for offset in offsets), part


def places_among(buckets: Sequence[int], in_use: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return for each bucket in use, by whose number hashes are divided, its place among all."""
    places = {bucket: place for place, bucket in enumerate(buckets)}
    return np.array([places[bucket] for bucket in in_use], dtype=np.int64)


def places_of(hashes: npt.NDArray[np.uint64], table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each hash of keys the place of its bucket, by a table of parcels."""
    return table[(hashes % np.uint64(len(table))).astype(np.int64)]


def divide(
    rows: pl.DataFrame, places: npt.NDArray[np.int64], buckets: Sequence[int]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Split rows by the place of their bucket in `buckets`, keeping their order within it."""
    order = stable_order(places)
    ends = np.append(0, np.cumsum(np.bincount(places, minlength=len(buckets))))
    sorted_rows = rows[order]
    for place, bucket in enumerate(buckets):
        if ends[place] < ends[place + 1]:
            yield bucket, sorted_rows[int(ends[place]) : int(ends[place + 1])]
