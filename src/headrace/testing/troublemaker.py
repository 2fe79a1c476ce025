"""Troubles a stream: cuts it anywhere, disorders it within its skew, pauses and fails, determined by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from headrace.connectors.connector import Offset, Slice, Source, Split
from headrace.errors import SourceFault
from headrace.testing.oracle.rows import Row
from headrace.testing.sources import Step
from headrace.testing.streams import Fail, Pause


class Troublemaker:
    """A seeded source of trouble; each call draws on."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def cut(self, rows: Sequence[Row], most: int = 10) -> list[list[Row]]:
        """Return the same rows in the same order, in batches of 1 to `most`."""
        batches: list[list[Row]] = []
        rest = list(rows)
        while rest:
            size = self._chance.randint(1, most)
            batches.append(rest[:size])
            rest = rest[size:]
        return batches

    def reorder(self, rows: Sequence[Row], skew: int) -> list[Row]:
        """Return the same rows in another order of arrival, none more than `skew` behind the newest before it."""
        # who arrives at ts + delay with delay <= skew is never late
        delayed = sorted(((row.ts + self._chance.randint(0, skew), i) for i, row in enumerate(rows)))
        return [Row(rows[i].ts, rows[i].values) for _, i in delayed]

    def steps(self, rows: Sequence[Row], most: int = 10) -> list[Step]:
        """Return a script for `ScriptedSource`: batches with pauses and failures between them."""
        steps: list[Step] = []
        for batch in self.cut(rows, most):
            trouble = self._chance.choice(["none", "none", "pause", "fail"])
            if trouble != "none":
                steps.append(Pause() if trouble == "pause" else Fail(self._chance.randint(1, 2)))
            steps.append([row.values for row in batch])
        return steps


class TroubledSource:
    """A source that reads another one in small steps and fails halfway through splits, so that they are read again."""

    def __init__(self, source: Source, seed: int, *, failures: int = 3, bite: int = 5) -> None:
        self._source = source
        self._chance = random.Random(seed)
        self._left = failures
        self._bite = bite

    def latest(self, start: Offset, *, now: int, limit: int) -> Offset:
        return self._source.latest(start, now=now, limit=min(limit, self._chance.randint(1, self._bite)))

    def splits(self, start: Offset, end: Offset, *, parallel: int) -> Sequence[Split]:
        return self._source.splits(start, end, parallel=self._chance.randint(1, max(1, parallel)))

    def read(self, split: Split) -> Iterator[Slice]:
        fails = self._left > 0 and self._chance.random() < 0.5
        for piece in self._source.read(split):
            half = len(piece.seq) // 2 if fails else len(piece.seq)
            yield Slice(piece.rows[:half], piece.seq[:half], piece.bad)
            if fails:
                self._left -= 1
                raise SourceFault("the connection broke", hint="read the split again")

    def finished(self, offset: Offset) -> bool:
        return self._source.finished(offset)

    def forget(self, offset: Offset) -> None:
        self._source.forget(offset)
