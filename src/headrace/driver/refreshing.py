"""Reads tables again that queries use, and sends a new version as a command once it is complete.

A micro-batch depends on the commands before it, so all its tasks use the same version, and one that is repeated uses
that version again, whatever the files have become.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from headrace.catalog.definitions import Table
from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.connectors import read_table
from headrace.engine.clock import Clock
from headrace.errors import HeadraceError
from headrace.model.page import Page
from headrace.model.time import BEGIN
from headrace.storage.reading import forget_sizes

#: The thread looks this often whether a table is to be read (seconds).
_LOOK = 0.25


class Refreshing:
    """The tables of the queries in force that are read again, and when each of them is next."""

    def __init__(self, log: CommandLog, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._next: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        self._hurried: set[str] = set()
        self._running = Running()
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    @property
    def problems(self) -> Mapping[str, str]:
        """Why tables could not be read again, by name; queries go on with the rows that they had."""
        return dict(self._problems)

    def resume(self, running: Running) -> None:
        """Take over what is in force when a process starts; all tables are read at once, as they may have changed."""
        self._running = running
        self._next = dict.fromkeys(_refreshed(running), BEGIN)

    def know(self, running: Running) -> None:
        """Take over what is in force after a micro-batch."""
        self._running = running

    def start(self) -> None:
        """Read tables in a thread from now on, if there are any, so that no micro-batch waits for it."""
        if self._thread is None and not self._is_closed.is_set() and _refreshed(self._running):
            self._thread = threading.Thread(target=self._loop, name="refresh", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread, after the table that it reads now."""
        self._is_closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=60.0)

    def hurry(self, table: str) -> None:
        """Let a table be read at the next look, whenever its time comes."""
        self._hurried.add(table)

    def refresh(self) -> None:
        """Read the tables whose time has come; of one that is first seen it comes after its interval."""
        running, now = self._running, self._clock.now()
        tables = {} if running.draining else _refreshed(running)
        self._next = {key: self._next.get(key, now + table.refresh) for key, table in tables.items()}
        for key, table in tables.items():
            is_hurried = table.name in self._hurried
            if (now >= self._next[key] or is_hurried) and not self._is_closed.is_set():
                self._hurried.discard(table.name)
                self._read(key, table)
                self._next[key] = now + table.refresh

    def _read(self, key: str, table: Table) -> None:
        forget_sizes()
        try:
            self._log.use_table(key, Page(read_table(table)).encode(), self._running)
        except (HeadraceError, OSError) as error:
            self._problems[table.name] = str(error)
        else:
            self._problems.pop(table.name, None)

    def _loop(self) -> None:
        while not self._is_closed.wait(_LOOK):
            self.refresh()


def _refreshed(running: Running) -> dict[str, Table]:
    """Return the tables that are read again, by key; of several intervals for one the shortest counts."""
    tables: dict[str, Table] = {}
    for version in (version for query in running.added for version in query.tables):
        known = tables.get(version.key)
        if version.key in running.tables and (known is None or version.table.refresh < known.refresh):
            tables[version.key] = version.table
    return tables
