"""Names and connectors: the parts that statements of every kind are made of."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import Span
from headrace.model.option import Option

#: The kind of connector of a table that a stream feeds.
FED = "STREAM"


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as written, without its quotes, and where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ConnectorClause:
    """FROM or INTO: the kind in upper case, and its options."""

    kind: str
    options: dict[str, Option]
    span: Span
