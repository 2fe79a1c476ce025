"""A PostgreSQL."""

from tests.postgres.server import database, postgres

__all__ = ["database", "postgres"]
