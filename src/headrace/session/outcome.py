"""What a statement tells whoever gave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Message:
    """What a statement did, in a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a SHOW or DESCRIBE found."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A query now runs."""

    query: str


Outcome: TypeAlias = Message | Listing | Started
