"""Results of queries."""

from __future__ import annotations

from typing import Any

from headrace.server.views.definitions import ShelfView
from headrace.server.views.view import Column, View


class ResultBatch(View, frozen=True):
    """The results of a query in one micro-batch; `skipped` rows before them were not sent."""

    batch: int
    at: int
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    skipped: int = 0


class ResultsView(View, frozen=True):
    """What the shelf of a query holds, oldest first."""

    query: str
    columns: tuple[Column, ...]
    batches: tuple[ResultBatch, ...]
    next: int  # ask `after` this micro-batch next time
    shelf: ShelfView


class SnapshotView(View, frozen=True):
    """The rows of a snapshot, which hold what was delivered up to a micro-batch; `cut` if there are more."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    batch: int | None
    cut: bool
