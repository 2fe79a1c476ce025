"""The statement that moves parcels."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import Span
from headrace.language.syntax.names import Name


@dataclass(frozen=True, slots=True)
class MoveParcels:
    """MOVE PARCELS 3, 17 OF query TO BUCKET 1, or TO ALL BUCKETS."""

    text: str
    offset: int
    parcels: tuple[tuple[int, Span], ...]
    query: Name
    bucket: int | None  # None: all
    bucket_span: Span
