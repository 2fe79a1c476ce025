"""The outcomes of statements."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.redaction import redact


@dataclass(frozen=True, slots=True)
class Message:
    """What a statement did, in a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of a SHOW, DESCRIBE or DEMAND."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def redacted(self) -> Listing:
        """Return the listing without secrets; not for rows of streams, which are shown as they are."""
        rows = (tuple(redact(cell) if isinstance(cell, str) else cell for cell in row) for row in self.rows)
        return Listing(self.columns, tuple(rows))

    def without(self, columns: Collection[str]) -> Listing:
        """Return the listing with nothing in these columns."""
        rows = (
            tuple(None if name in columns else cell for name, cell in zip(self.columns, row, strict=True))
            for row in self.rows
        )
        return Listing(self.columns, tuple(rows))


@dataclass(frozen=True, slots=True)
class Answer(Listing):
    """The rows of a SELECT on tables, which are shown as they are."""

    def redacted(self) -> Listing:
        return self

    def without(self, columns: Collection[str]) -> Listing:
        return self


@dataclass(frozen=True, slots=True)
class Started:
    """A query that now runs."""

    query: str


Outcome: TypeAlias = Message | Listing | Started


def format_warnings(warnings: Iterable[str]) -> str:
    """Return warnings as lines that follow a message."""
    return "".join(f"\nwarning: {warning}" for warning in warnings)
