"""Runs the work of a task without the thread pool of Polars: nothing is handed over to another thread.

Polars computes on a pool of threads, also if that has a single one: whoever calls it wakes a thread of the pool, waits
until it has run, and is woken in turn. For a page of some thousand tuples that takes longer than the operation itself,
and where all cores are busy each of the two threads waits for its turn. In a function that Polars itself calls, it
computes on the thread that asks. A task has one core, so it needs no other thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import polars as pl

Result = TypeVar("Result")


def without_pool(work: Callable[[], Result]) -> Result:
    """Return what a function returns, or raise what it raises."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run(frame: pl.DataFrame) -> pl.DataFrame:
        try:
            results.append(work())
        except BaseException as error:  # Polars would make an error of its own of it
            errors.append(error)
        return frame

    pl.DataFrame({"": [0]}).lazy().map_batches(run).collect()
    for error in errors:
        raise error
    return results[0]
