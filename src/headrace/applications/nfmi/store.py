"""A database that keeps alarms: SQLite in a file, or PostgreSQL. One statement text serves both."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from headrace import extras


class Store:
    """Connections to one database; each transaction is one at a time, over all processes."""

    def __init__(self, place: str | Path) -> None:
        self._place = str(place)
        self._is_postgres = self._place.startswith(("postgresql:", "postgres:"))

    @contextmanager
    def transaction(self) -> Iterator[Work]:
        """All of what is done inside, or nothing."""
        with closing(self._connect()) as connection:
            work = Work(connection, "%s" if self._is_postgres else "?")
            if not self._is_postgres:
                work.do("BEGIN IMMEDIATE")
            try:
                yield work
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def prepare(self, statements: Sequence[str]) -> None:
        """Make tables that are not there yet."""
        with self.transaction() as work:
            if self._is_postgres:  # two that come first at the same time would both make them
                work.do("SELECT pg_advisory_xact_lock(716)")
            for statement in statements:
                work.do(statement)

    def _connect(self) -> Any:
        if not self._is_postgres:
            Path(self._place).parent.mkdir(parents=True, exist_ok=True)
            return sqlite3.connect(self._place, timeout=30, isolation_level=None)
        return extras.load("psycopg", "postgres", "a database in PostgreSQL").connect(self._place)


class Work:
    """Statements within a transaction; `?` stands for a value."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection = connection
        self._mark = mark

    def do(self, statement: str, *values: object) -> None:
        """Run a statement that gives nothing back."""
        self._run(statement, values)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query."""
        found: list[tuple[Any, ...]] = self._run(statement, values).fetchall()
        return found

    def _run(self, statement: str, values: tuple[object, ...]) -> Any:
        return self._connection.execute(statement.replace("?", self._mark), values)
