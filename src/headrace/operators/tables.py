"""The rows of stored tables in specs: inside, or by digest if they are many.

A table by digest travels once to each worker, not with each command to each bucket.
"""

from __future__ import annotations

from functools import lru_cache

import polars as pl
from msgspec import UNSET, UnsetType

from headrace.model.page import read_rows
from headrace.storage import contents


def stored_table(rows: bytes, digest: str | UnsetType) -> pl.DataFrame:
    """Return the rows of a table: an Arrow IPC stream, or the digest of one."""
    return read_rows(rows) if digest is UNSET else _fetched(digest)


@lru_cache(maxsize=4)
def _fetched(digest: str) -> pl.DataFrame:
    return read_rows(contents.fetch(digest))
