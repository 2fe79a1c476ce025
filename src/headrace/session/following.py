"""Gives the results of a query as they come: to functions that are called, and to iterators."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import polars as pl

from headrace.model.page import Page

Subscriber: TypeAlias = Callable[[int, list[dict[str, Any]]], None]
PageReader: TypeAlias = Callable[[int, Sequence[Page]], None]
#: Results of micro-batches that nobody has taken yet.
Waiting: TypeAlias = deque[list[dict[str, Any]]]
#: Returns whether the deployment has ended, after so many seconds at most.
Wait: TypeAlias = Callable[[float], bool]
#: Seconds between two looks of an iterator for results.
_FOLLOWED_EVERY = 0.05


def row_reader(take: Subscriber) -> PageReader:
    """Return what calls `take(batch, rows)`."""

    def pass_on(batch: int, pages: Sequence[Page]) -> None:
        take(batch, [row for page in pages for row in page.visible().iter_rows(named=True)])

    return pass_on


def table_reader(function: Callable[[pl.DataFrame, int], Any]) -> PageReader:
    """Return what calls `function(table, batch)` if there are any results."""

    def pass_on(batch: int, pages: Sequence[Page]) -> None:
        if any(map(len, pages)):
            function(pl.concat([page.visible() for page in pages]), batch)

    return pass_on


def follow(waiting: Waiting, wait: Wait, timeout: float | None) -> Iterator[dict[str, Any]]:
    """Yield the rows that come until the deployment ends, or for so many seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    is_over = False
    while True:
        while waiting:
            yield from waiting.popleft()
        if is_over or (deadline is not None and time.monotonic() >= deadline):
            return
        is_over = wait(_FOLLOWED_EVERY)


async def follow_async(waiting: Waiting, wait: Wait, timeout: float | None) -> AsyncIterator[dict[str, Any]]:
    """Yield the same for `async for`; the loop goes on meanwhile."""
    deadline = None if timeout is None else time.monotonic() + timeout
    is_over = False
    while True:
        while waiting:
            for row in waiting.popleft():
                yield row
        if is_over or (deadline is not None and time.monotonic() >= deadline):
            return
        is_over = await asyncio.to_thread(wait, _FOLLOWED_EVERY)
