"""Databases for the alarm container."""

from pathlib import Path

import pytest
from tests.postgres.server import database, postgres

__all__ = ["database", "postgres"]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "alarms.db")
    return str(request.getfixturevalue("database"))
