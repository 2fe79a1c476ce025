"""Databases for the alarm container."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: Any) -> Iterator[str]:
    """The address of a PostgreSQL: that of HEADRACE_TEST_POSTGRES, or a server of the package pgserver."""
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed: pip install -r requirements/postgres.txt")
    given = os.environ.get("HEADRACE_TEST_POSTGRES")
    if given:
        yield given
        return
    pgserver = pytest.importorskip("pgserver", reason="no PostgreSQL: set HEADRACE_TEST_POSTGRES, or pip install -r requirements/postgres.txt")
    if os.geteuid() == 0:
        pytest.skip("PostgreSQL does not run as root: set HEADRACE_TEST_POSTGRES to a server's address")
    with pgserver.get_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server.get_uri()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield str(tmp_path / "alarms.db")
        return
    address, schema = request.getfixturevalue("postgres"), f"test_{secrets.token_hex(6)}"
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
