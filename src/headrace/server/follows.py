"""Follows: unnamed SELECTs of clients. Each lives while somebody reads its results, and a minute longer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from headrace.catalog.catalog import Catalog
from headrace.commands.running import Running
from headrace.session import Outcome, Started

#: A follow that nobody reads is dropped after so many seconds.
LINGER = 60.0
#: How an unnamed SELECT is called; a digest of its text follows.
PREFIX = "select_"


class Follows:
    """Who reads the results of which query, and which queries end when nobody does."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._readers: Counter[str] = Counter()
        self._since: dict[str, float] = {}  # follows, and since when nobody reads them

    def add(self, outcome: Outcome, catalog: Catalog) -> bool:
        """Take note of a query that a client has started; return whether it is a follow."""
        if not isinstance(outcome, Started) or not self._is_unnamed(outcome.query, catalog):
            return False
        with self._lock:
            self._since.setdefault(outcome.query, self._clock())
        return True

    def adopt(self, running: Running, kept: Collection[str]) -> None:
        """Take over what an earlier server of the checkpoint left running; those that are `kept` stay in any case."""
        with self._lock:
            for query in running.known:
                if query.query.startswith(PREFIX) and query.query not in kept:
                    self._since.setdefault(query.query, self._clock())

    @contextmanager
    def reading(self, query: str) -> Iterator[None]:
        """Count a reader of a query for as long as it reads."""
        with self._lock:
            self._readers[query] += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers[query] -= 1
                if query in self._since:
                    self._since[query] = self._clock()

    def counts(self) -> Mapping[str, int]:
        """Return the number of readers of each query."""
        with self._lock:
            return {query: count for query, count in self._readers.items() if count}

    def expired(self) -> list[str]:
        """Return the follows that nobody has read for a while, and forget them."""
        with self._lock:
            now = self._clock()
            over = [query for query, since in self._since.items() if not self._readers[query] and now - since > LINGER]
            for query in over:
                del self._since[query]
            return over

    @staticmethod
    def _is_unnamed(query: str, catalog: Catalog) -> bool:
        return query.startswith(PREFIX) and catalog.get(query) is None
