"""Watching what happens in the background: wait for it, but not for ever, and look at what was delivered so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from headrace.hosts.local import LocalDeployment
from headrace.session import Session


def until(
    condition: Callable[[], object],
    seconds: float = 120.0,
    *,
    session: Session | None = None,
    meanwhile: Callable[[int], None] | None = None,
) -> int:
    """Wait until a condition holds; return how often `meanwhile` was called.

    Fail after a time, or if the session ends. `meanwhile` is called between checks with the number of calls so far.
    """
    deadline, number = time.monotonic() + seconds, 0
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:.0f} s"
        if meanwhile is not None:
            meanwhile(number)
        number += 1
        if session is None:
            time.sleep(0.02 if meanwhile is None else 0.2)
        else:
            assert not session.wait(0.05), "the session has ended"
    return number


def local_host(session: Session) -> LocalDeployment:
    """Return the deployment of a session that runs in this process, whose micro-batches a test runs by hand."""
    assert isinstance(session.deployment, LocalDeployment)
    return session.deployment


def delivered(folder: Path) -> pl.DataFrame:
    """Return the rows of the Parquet files that a query has written."""
    files = [path for path in sorted(folder.glob("*.parquet")) if not path.name.startswith(".")]
    return pl.concat([pl.read_parquet(path) for path in files]) if files else pl.DataFrame()
