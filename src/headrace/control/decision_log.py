"""The decisions of a checkpoint with the time of each: a durable list that SHOW DECISIONS reads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.control.decisions import Decision
from headrace.storage import sealed
from headrace.storage.lines import LineFile

#: So many decisions are kept at least; the file may hold twice as many.
MIN_KEPT = 500


class Decided(Struct, frozen=True):
    """A decision and the time at which it was made (microseconds)."""

    time: int
    decision: Decision

    @property
    def query(self) -> str | None:
        """Return the query that the decision is for; None: all."""
        return self.decision.query

    @property
    def action(self) -> str:
        """Return what was decided, in words."""
        return self.decision.action

    @property
    def reason(self) -> str:
        """Return why, in words."""
        return self.decision.reason


class Numbered(NamedTuple):
    """The decisions that are kept, newest last, and the number of the newest; numbers hold within a process."""

    newest: int
    decisions: Sequence[Decided]


class DecisionLog:
    """The decisions of a checkpoint, newest last."""

    def __init__(self, directory: Path) -> None:
        self._lines = LineFile(directory / "decisions.jsonl")
        self._known: list[Decided] | None = None
        self._deleted = 0  # by this process
        self._lock = threading.RLock()  # others read while a micro-batch decides

    def add(self, time: int, decisions: Sequence[Decision]) -> None:
        """Append decisions; old ones are deleted when there are many."""
        if not decisions:
            return
        with self._lock:
            self._add([Decided(time, decision) for decision in decisions])

    def _add(self, new: Sequence[Decided]) -> None:
        known = [*self.all(), *new]
        if len(known) > 2 * MIN_KEPT:
            self._deleted += len(known) - MIN_KEPT
            known = known[-MIN_KEPT:]
            self._lines.replace(map(msgspec.json.encode, known))
        else:
            self._lines.append([msgspec.json.encode(decided) for decided in new])
        self._known = known

    def numbered(self) -> Numbered:
        """Return all decisions that are kept, and the number of the newest."""
        with self._lock:
            known = self.all()
            return Numbered(self._deleted + len(known), known)

    def all(self) -> list[Decided]:
        """Return all decisions that are kept."""
        with self._lock:
            if self._known is None:
                try:
                    self._known = [msgspec.json.decode(line, type=Decided) for line in self._lines.read_new()]
                except ValueError as error:  # DecodeError is one
                    raise sealed.damaged(self._lines.path, error) from error
            return self._known
