"""Followers of a query's results.

A lively follower that is slow misses micro-batches, and is told how many rows. A complete one, of a query with a
durable shelf, misses nothing, also over a crash of the server: it says after which micro-batch it goes on.

Results are on a shelf before other sinks have theirs. Followers get them when the micro-batch is delivered as a whole:
nobody sees what an attempt left that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headrace.connectors.shelf import ShelfFiles
from headrace.server.problems import Fault
from headrace.server.shelf import Shelved

if TYPE_CHECKING:
    from headrace.server.route import Call
    from headrace.server.service import Service

#: A follower takes so many rows at once at most.
MOST_ROWS = 10_000


class CompleteFollower:
    """Reads all results of a query from its durable shelf, in the order of micro-batches."""

    def __init__(self, service: Service, query: str, after: int) -> None:
        self._service, self.query, self.after = service, query, after
        self._files = ShelfFiles(query, service.directory)
        self.check()

    @property
    def is_over(self) -> bool:
        """Return whether the query is gone, so that nothing more comes."""
        return all(query.query != self.query for query in self._service.running.added)

    def check(self) -> None:
        """Raise a fault if results after the last one that was read have been deleted."""
        about = self._files.about()
        if about is not None and self.after < about.gone:
            first = next(iter(self._files.batches(about.gone)), None)
            raise Fault(
                410,
                f"results after micro-batch {self.after} have been deleted, up to {about.gone}",
                first=first,
                hint=f"go on with after={about.gone}, or keep more: WITH (keep '1 day durable')",
            )

    def take(self) -> list[tuple[Shelved, pl.DataFrame, int]]:
        """Return what came since the last time."""
        self.check()
        taken: list[tuple[Shelved, pl.DataFrame, int]] = []
        room = MOST_ROWS
        settled = self._service.shelves.settled
        for batch in self._files.batches(self.after):
            if room <= 0 or batch > settled:
                break
            found = self._files.read(batch)
            if found is None:
                break  # it was deleted just now; the check of the next time says so
            frame, at = found
            taken.append((Shelved(batch, at, frame, 0, 0), frame, 0))
            self.after = batch
            room -= frame.height
        return taken


class Follower:
    """Where a reader of a query's results is."""

    def __init__(self, service: Service, query: str, after: int, *, most: int = MOST_ROWS) -> None:
        self._service, self.query, self.after, self._most = service, query, after, most
        shelf = service.shelves.get(query)
        self._seen = 0 if shelf is None else self._delivered_up_to(after)
        self.skipped = 0

    @staticmethod
    def of(call: Call, query: str) -> Follower | CompleteFollower:
        """Return the follower that a request asks for."""
        service = call.server.service
        is_complete = call.options.get("follow") == "complete"
        resumed = call.request.headers.get("last-event-id")
        text = resumed if resumed is not None else call.options.get("after", "first" if is_complete else "latest")
        if is_complete and not service.is_durable(query):
            if service.status()[0] == "starting":  # its statement may still come into force
                service.check_ready()
            raise Fault(
                409,
                f"the results of {query} are not kept durably, so a follower could miss some",
                hint=f"CREATE OR REPLACE QUERY {query} WITH (keep '1 day durable') AS ...",
            )
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
        return CompleteFollower(service, query, after) if is_complete else Follower(service, query, after)

    @property
    def is_over(self) -> bool:
        """Return whether the query is gone, so that nothing more comes."""
        return all(query.query != self.query for query in self._service.running.added)

    def take(self) -> list[tuple[Shelved, pl.DataFrame, int]]:
        """Return what came since the last time: micro-batches, their rows, and how many rows before were skipped."""
        entries, shelf = self._service.shelves.read(self.query, self.after)
        settled = self._service.shelves.settled
        entries = [entry for entry in entries if entry.batch <= settled]
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
