"""A database for alarms: SQLite in a file, or PostgreSQL. Both use the same statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from headrace import extras, secrets


class Store:
    """Connections to one database; transactions of all processes run one at a time."""

    def __init__(self, place: str | Path) -> None:
        self._written = str(place)  # with references to secrets, which are resolved when a connection is made

    @contextmanager
    def transaction(self) -> Iterator[Work]:
        """Commit all changes made inside, or none."""
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
        """Create tables that do not exist yet."""
        with self.transaction() as work:
            if self._is_postgres:  # two first users at the same time would both create them
                work.do("SELECT pg_advisory_xact_lock(716)")
            for statement in statements:
                work.do(statement)

    @property
    def _place(self) -> str:
        return secrets.resolve(self._written)

    @property
    def _is_postgres(self) -> bool:
        return self._place.startswith(("postgresql:", "postgres:"))

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
        """Run a statement without a result."""
        self._run(statement, values)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query."""
        rows: list[tuple[Any, ...]] = self._run(statement, values).fetchall()
        return rows

    def _run(self, statement: str, values: tuple[object, ...]) -> Any:
        return self._connection.execute(statement.replace("?", self._mark), values)
