"""Starting and stopping of queries, as the parser reads it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.language.syntax.names import Name
from headrace.model.stint import Schedule


@dataclass(frozen=True, slots=True)
class StintClause:
    """START '22:00' | START ON event, STOP '06:00' | STOP ON event, EVERY span, before the AS of CREATE QUERY."""

    schedule: Schedule | None = None
    start_on: Name | None = None
    stop_on: Name | None = None


@dataclass(frozen=True, slots=True)
class TurnQuery:
    """START QUERY name, STOP QUERY name."""

    text: str
    offset: int
    on: bool
    name: Name
