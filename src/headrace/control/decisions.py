"""What was decided, when and why: a durable list that SHOW DECISIONS reads."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.storage.lines import LineFile

#: So many decisions are shown; the file keeps twice as many.
MOST = 500


class Decision(Struct, frozen=True):
    """One change of how queries run: at which time (microseconds), for which query (None: for all), what was done, and what spoke for it."""

    time: int
    query: str | None
    action: str
    reason: str


class Decisions:
    """The decisions of a checkpoint, newest last."""

    def __init__(self, directory: Path) -> None:
        self._lines = LineFile(directory / "decisions.jsonl")
        self._known: list[Decision] | None = None

    def add(self, decision: Decision) -> None:
        """Note a decision; an old one is forgotten for it when there are many."""
        known = self.all()
        known.append(decision)
        if len(known) > 2 * MOST:
            self._known = known[-MOST:]
            self._lines.replace(map(msgspec.json.encode, self._known))
        else:
            self._lines.append([msgspec.json.encode(decision)])

    def all(self) -> list[Decision]:
        """All that are kept."""
        if self._known is None:
            self._known = [msgspec.json.decode(line, type=Decision) for line in self._lines.read_new()]
        return self._known
