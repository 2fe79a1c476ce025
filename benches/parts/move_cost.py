"""What a move of parcels costs the bucket that gives them and the one that takes them, in processor time and bytes.

All buckets run in this process, one after the other, as a task of Spark runs them: so no load of the machine hides the
cost of one behind another. The store is in memory, large chunks are files.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headrace.commands.allotments import PARCELS_PER_BUCKET
from headrace.hosts.local import LocalDeployment, MemoryStore
from headrace.session import Session
from headrace.worker.bucket import Bucket
from headrace.worker.chunk_cache import ChunkCache
from headrace.worker.moving import Moves
from headrace.worker.wire import Row
from headrace.worker.without_pool import without_pool

#: Micro-batches before a move of which the median is taken, and between two portions.
BEFORE, APART = 10, 2


@dataclass(frozen=True, slots=True)
class Done:
    """What a bucket did in a micro-batch: seconds of the processor, bytes for its store and for others."""

    batch: int
    bucket: int
    cpu: float
    stored: int
    sent: int


def measure(
    figures: dict[str, Any],
    checkpoint: Path,
    script: str,
    *,
    limit: int,
    moved_at: int,
    portions: int,
) -> None:
    """Run a script of one query `counts` on two buckets; move two thirds of one away at once, and back in portions."""
    parcels = range(1, 2 * PARCELS_PER_BUCKET, 2)
    part = parcels[: len(parcels) * 2 // 3]
    moves: dict[int, tuple[Sequence[int], int]] = {moved_at: (part, 0)}
    back = moved_at + 3 * APART
    moves |= {back + APART * number: (part[number::portions], 1) for number in range(portions)}
    with _watched() as done, Session(checkpoint, host="local", limit=limit, buckets=2) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.cache = ChunkCache(checkpoint / "cache")
        session.execute(script)
        for batch in range(max(moves) + APART):
            if batch in moves:
                numbers, bucket = moves[batch]
                session.execute(f"MOVE PARCELS {', '.join(map(str, numbers))} OF counts TO BUCKET {bucket}")
            if not deployment.step():
                raise AssertionError("the input is too short")
    for case, batches in (("at once", [moved_at]), (f"in {portions} portions", [b for b in moves if b > moved_at])):
        figures["rows"] += _rows(case, batches, done, moved_at)


def _rows(
    case: str, batches: Sequence[int], done: Mapping[tuple[int, int], Done], moved_at: int
) -> list[dict[str, Any]]:
    """Return the dearest micro-batch of the bucket that gives, and of the one that takes."""
    usual = [done[batch, bucket].cpu for batch in range(moved_at - BEFORE, moved_at) for bucket in (0, 1)]
    median = statistics.median(usual)
    givers = [max((done[batch, bucket] for bucket in (0, 1)), key=lambda one: one.sent) for batch in batches]
    takers = [done[giver.batch + 1, 1 - giver.bucket] for giver in givers]
    sent = sum(giver.sent for giver in givers) / 1e6
    rows = []
    for role, ones in (("gives", givers), ("takes", takers)):
        worst, most = max(one.cpu for one in ones), max(one.stored for one in ones)
        label = f"move of {sent:.1f} MB {case}: bucket that {role} them"
        rows.append({"case": f"{label}, processor time", "ours": worst * 1e3, "peers": {"median": median * 1e3},
                     "unit": "ms", "ratio": worst / median})  # fmt: skip
        before = statistics.median(done[batch, 0].stored for batch in range(moved_at - BEFORE, moved_at))
        rows.append({"case": f"{label}, stored", "ours": most / 1e6, "peers": {"median": before / 1e6}, "unit": "MB",
                     "ratio": most / before})  # fmt: skip
    return rows


@contextmanager
def _watched() -> Iterator[dict[tuple[int, int], Done]]:
    """Note what each bucket does in each micro-batch."""
    done: dict[tuple[int, int], Done] = {}
    counts = {"stored": 0, "sent": 0}
    run, save, write = Bucket.run, MemoryStore.save, Moves.write

    def run_watched(self: Bucket, rows: Iterable[Row], batch: int, *others: Any) -> list[Row]:
        counts.update(stored=0, sent=0)
        began = time.process_time()
        out = without_pool(lambda: run(self, rows, batch, *others))
        cpu = time.process_time() - began
        done[batch, self.number] = Done(batch, self.number, cpu, counts["stored"], counts["sent"])
        return out

    def save_watched(self: MemoryStore, changed: Iterable[tuple[str, bytes]], removed: Iterable[str]) -> None:
        values = list(changed)
        counts["stored"] += sum(len(data) for _, data in values)
        save(self, values, removed)

    def write_watched(self: Moves, name: str, data: bytes) -> str:
        counts["sent"] += len(data)
        return write(self, name, data)

    watched: tuple[tuple[type, str, Callable[..., Any]], ...] = (
        (Bucket, "run", run_watched),
        (MemoryStore, "save", save_watched),
        (Moves, "write", write_watched),
    )
    patches = [patch.object(*each) for each in watched]
    for each in patches:
        each.start()
    try:
        yield done
    finally:
        for each in patches:
            each.stop()
