"""Followers of a query's results.

A lively follower that is slow misses micro-batches, and is told how many rows. A complete one, of a query with a
durable shelf, misses nothing, also over a crash of the server: it says after which micro-batch it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headrace.server.problems import Fault
from headrace.server.shelf import Shelved

if TYPE_CHECKING:
    from headrace.server.route import Call
    from headrace.server.service import Service

#: A follower takes so many rows at once at most.
MOST_ROWS = 10_000


class Follower:
    """Where a reader of a query's results is."""

    def __init__(self, service: Service, query: str, after: int, *, most: int = MOST_ROWS) -> None:
        self._service, self.query, self.after, self._most = service, query, after, most
        shelf = service.shelves.get(query)
        self._seen = 0 if shelf is None else self._delivered_up_to(after)
        self.skipped = 0

    @staticmethod
    def of(call: Call, query: str) -> Follower:
        """Return the follower that a request asks for."""
        service = call.server.service
        resumed = call.request.headers.get("last-event-id")
        text = resumed if resumed is not None else call.options.get("after", "latest")
        if text == "latest":
            view = service.shelves.view(query)
            after = -1 if view is None or view.last is None else view.last
        elif text == "first":
            after = -1
        else:
            try:
                after = int(text)
            except ValueError:
                raise Fault(400, f"after must be latest, first or a micro-batch, not {text[:80]!r}") from None
        return Follower(service, query, after)

    @property
    def is_over(self) -> bool:
        """Return whether the query is gone, so that nothing more comes."""
        return all(query.query != self.query for query in self._service.running.added)

    def take(self) -> list[tuple[Shelved, pl.DataFrame, int]]:
        """Return what came since the last time: micro-batches, their rows, and how many rows before were skipped."""
        entries, shelf = self._service.shelves.read(self.query, self.after)
        if shelf is None or not entries:
            return []
        taken: list[tuple[Shelved, pl.DataFrame, int]] = []
        room = self._most
        chosen: list[Shelved] = []
        for entry in reversed(entries):
            if room <= 0:
                break
            chosen.append(entry)
            room -= max(1, entry.frame.height)
        chosen.reverse()
        for entry in chosen:
            frame = entry.frame.tail(self._most)
            before = entry.total - entry.frame.height - entry.hidden
            skipped = max(0, before - self._seen) + entry.hidden + entry.frame.height - frame.height
            self._seen = entry.total
            self.after = entry.batch
            self.skipped += skipped
            taken.append((entry, frame, skipped))
        return taken

    def _delivered_up_to(self, batch: int) -> int:
        """Return how many rows had been delivered with a micro-batch; of one that is not known, with those before."""
        entries, shelf = self._service.shelves.read(self.query, -1)
        known = [entry for entry in entries if entry.batch <= batch]
        if known:
            return known[-1].total
        if not entries:
            return 0 if shelf is None else shelf.delivered
        return entries[0].total - entries[0].frame.height - entries[0].hidden
