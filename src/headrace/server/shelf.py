"""The shelf of a query: its newest results in memory, by micro-batch, bounded by rows, bytes and age.

The delivery leaves references to pages. A repeated micro-batch replaces itself. Followers ask for what came after a
micro-batch, so they miss nothing and see nothing twice, as long as the shelf still has it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from headrace.connectors.shelf import ShelfFiles
from headrace.model.keep import Keep
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.server.views.definitions import ShelfView

#: All shelves together hold so many bytes.
ALL_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Shelved:
    """The results of a micro-batch."""

    batch: int
    at: float  # seconds since 1970
    frame: pl.DataFrame
    size: int
    hidden: int  # rows that tasks wrote to files
    total: int = 0  # rows of the query that were delivered up to here, shown or not


class Shelf:
    """The newest results of one query; its owner holds the lock."""

    def __init__(self, query: str, schema: Schema, keep: Keep) -> None:
        self.query, self.schema, self.keep = query, schema, keep
        self.batches: OrderedDict[int, Shelved] = OrderedDict()
        self.rows = self.bytes = self.dropped = self.hidden = 0
        self.last: int | None = None  # the newest micro-batch that had results
        self.gone: int | None = None  # the newest micro-batch of which rows are missing
        self.delivered = 0  # rows so far, shown or not

    def put(self, entry: Shelved) -> None:
        """Take the results of a micro-batch."""
        old = self.batches.pop(entry.batch, None)
        if old is not None:  # it was repeated
            self._count(old, -1)
            self.hidden -= old.hidden
            self.delivered -= old.frame.height + old.hidden
        for later in [batch for batch in self.batches if batch > entry.batch]:
            self._count(self.batches.pop(later), -1)  # a new deployment began again at a lower number
        self.delivered += entry.frame.height + entry.hidden
        entry = replace(entry, total=self.delivered)
        self.hidden += entry.hidden
        self.last = entry.batch
        if entry.hidden:
            self.gone = entry.batch
        self.batches[entry.batch] = entry
        self._count(entry, 1)
        self.trim()

    def trim(self) -> None:
        """Let the oldest results go that there is no room for."""
        oldest_allowed = None if self.keep.seconds is None else time.time() - self.keep.seconds
        while self.batches:
            oldest = next(iter(self.batches.values()))
            too_old = oldest_allowed is not None and oldest.at < oldest_allowed
            too_many = (self.keep.rows is not None and self.rows - oldest.frame.height >= self.keep.rows) or (
                self.bytes > self.keep.bytes and len(self.batches) > 1
            )
            if self.keep.by is not None:
                too_many = too_old = self.bytes > self.keep.bytes and len(self.batches) > 1
            if not (too_old or too_many):
                return
            self.shorten()

    def shorten(self) -> None:
        """Let the oldest micro-batch go."""
        batch, entry = self.batches.popitem(last=False)
        self._count(entry, -1)
        self.dropped += entry.frame.height
        self.gone = batch if self.gone is None else max(self.gone, batch)

    def after(self, batch: int) -> list[Shelved]:
        """Return what came after a micro-batch and is still here."""
        return [entry for number, entry in self.batches.items() if number > batch]

    def frame(self, until: int | None = None) -> pl.DataFrame:
        """Return all rows, or those up to a micro-batch, oldest first; `latest by` gives the newest of each key."""
        frames = [entry.frame for number, entry in self.batches.items() if until is None or number <= until]
        rows = pl.concat(frames) if frames else pl.DataFrame(schema=self.schema.polars())
        if self.keep.by is None:
            return rows if self.keep.rows is None else rows.tail(self.keep.rows)
        return rows.unique(self.keep.by, keep="last", maintain_order=True)

    def compact(self) -> None:
        """Of a shelf that keeps the newest row of each key, let the others go.

        The newest micro-batch counts for nothing: those who read up to the one before still find their rows.
        """
        if self.keep.by is None or len(self.batches) < 3:
            return
        earlier = list(self.batches.values())[:-1]
        numbered = [entry.frame.with_columns(pl.lit(entry.batch).alias("__batch")) for entry in earlier]
        rows = pl.concat(numbered).unique(self.keep.by, keep="last", maintain_order=True)
        if self.keep.rows is not None and rows.height > self.keep.rows:
            rows = rows.tail(self.keep.rows)
        kept = {int(key[0]): part.drop("__batch") for key, part in rows.group_by("__batch", maintain_order=True)}
        for entry in earlier:
            batch = entry.batch
            self._count(entry, -1)
            if batch in kept:
                frame = kept[batch]
                self.batches[batch] = replace(entry, frame=frame, size=int(frame.estimated_size()))
                self._count(self.batches[batch], 1)
            else:
                del self.batches[batch]
            self.dropped += entry.frame.height - (kept[batch].height if batch in kept else 0)

    def view(self) -> ShelfView:
        """Return what is on it."""
        return ShelfView(
            keep=str(self.keep),
            durable=self.keep.durable,
            rows=self.rows,
            bytes=self.bytes,
            first=next(iter(self.batches), None),
            last=self.last,
            dropped=self.dropped,
            hidden=self.hidden,
        )

    def _count(self, entry: Shelved, sign: int) -> None:
        self.rows += sign * entry.frame.height
        self.bytes += sign * entry.size


class Shelves:
    """The shelves of all queries; `listen` hears of each query with new results once their micro-batch is delivered."""

    def __init__(self, keep_of: Callable[[str], Keep], *, most: int = ALL_BYTES) -> None:
        self._keep_of, self._most = keep_of, most
        self._shelves: dict[str, Shelf] = {}
        self._lock = threading.Lock()
        self._new: set[str] = set()  # queries with results that `listen` has not heard of
        self.listen: Callable[[str], None] = lambda query: None
        self.settled = -1  # the last micro-batch that all sinks have, also if an earlier server delivered it

    def take(self, batch: int, query: str, schema: Schema, pages: Sequence[Page], hidden: int) -> None:
        """Take the results of a query in a micro-batch; called within the delivery."""
        with self._lock:
            shelf = self._shelves.get(query)
            if shelf is None or shelf.schema != schema:
                keep = self._keep_of(query)
                shelf = self._shelves[query] = Shelf(query, schema, keep)
            frames = [page.visible() for page in pages if len(page)]
            if shelf.keep.is_none:
                shelf.hidden += hidden + sum(frame.height for frame in frames)
                shelf.last = shelf.gone = batch
                return
            frame = pl.concat(frames).select(schema.names) if frames else pl.DataFrame(schema=schema.polars())
            shelf.put(Shelved(batch, time.time(), frame, int(frame.estimated_size()), hidden))
            if shelf.keep.by is not None and len(shelf.batches) > 16:
                shelf.compact()
            self._make_room()
            self._new.add(query)

    def settle(self, batch: int) -> None:
        """Let followers look: a micro-batch is delivered to all sinks."""
        self.settled = batch
        with self._lock:
            queries, self._new = self._new, set()
        for query in queries:
            self.listen(query)

    def get(self, query: str) -> Shelf | None:
        """Return the shelf of a query; use it under `reading`."""
        return self._shelves.get(query)

    def read(self, query: str, after: int) -> tuple[list[Shelved], Shelf | None]:
        """Return what a query gave after a micro-batch."""
        with self._lock:
            shelf = self._shelves.get(query)
            return ([], None) if shelf is None else (shelf.after(after), shelf)

    def frame(self, query: str, until: int | None = None) -> pl.DataFrame | None:
        """Return the rows on the shelf of a query, or those up to a micro-batch; None if it has none."""
        with self._lock:
            shelf = self._shelves.get(query)
            return None if shelf is None else shelf.frame(until)

    def view(self, query: str) -> ShelfView | None:
        """Return what is on the shelf of a query."""
        with self._lock:
            shelf = self._shelves.get(query)
            return None if shelf is None else shelf.view()

    def restore(self, kept: Mapping[str, tuple[Schema, ShelfFiles]]) -> None:
        """Put on the shelves of queries what an earlier server has kept on disk, up to what fits."""
        newest = max((self._restore(query, schema, files) for query, (schema, files) in kept.items()), default=-1)
        if self.settled < 0:  # else this process knows better
            self.settled = newest

    def _restore(self, query: str, schema: Schema, kept: ShelfFiles) -> int:
        """Restore one shelf; return its last micro-batch, -1 if there is none."""
        with self._lock:
            shelf = self._shelves[query] = Shelf(query, schema, self._keep_of(query))
            chosen: list[Shelved] = []
            rows = size = 0
            for batch in reversed(kept.batches()):
                found = kept.read(batch)
                if found is None or found[0].columns != list(schema.names):
                    break
                frame, at = found
                rows, size = rows + frame.height, size + int(frame.estimated_size())
                chosen.append(Shelved(batch, at, frame, int(frame.estimated_size()), 0))
                if size > shelf.keep.bytes or rows > 10_000:
                    break
            for entry in reversed(chosen):
                shelf.put(entry)
            return chosen[0].batch if chosen else -1

    def forget(self, kept: Callable[[str], bool]) -> list[str]:
        """Drop the shelves of queries that are not kept; return their names."""
        with self._lock:
            gone = [query for query in self._shelves if not kept(query)]
            for query in gone:
                del self._shelves[query]
            return gone

    def change(self, query: str) -> None:
        """Take over another way to keep results, for the results to come."""
        with self._lock:
            if query in self._shelves:
                self._shelves[query].keep = self._keep_of(query)
                self._shelves[query].trim()

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._shelves))

    def _make_room(self) -> None:
        while sum(shelf.bytes for shelf in self._shelves.values()) > self._most:
            largest = max(self._shelves.values(), key=lambda shelf: shelf.bytes)
            if not largest.batches:
                return
            largest.shorten()
