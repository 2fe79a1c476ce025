"""What a process holds does not grow with the micro-batches it has run, nor with queries that come and go."""

from __future__ import annotations

import gc
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.log import CommandLog
from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND, format_instant, parse_instant
from headrace.session import Session
from headrace.testing.clock import VirtualClock

pytestmark = pytest.mark.slow
FILE = """
CREATE STREAM bids (at TIMESTAMP, item INT, n INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY steady AS SELECT item, sum(n) AS s FROM bids [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY item
  INTO FILES (path '{out}/steady', format 'json');
CREATE QUERY flapping AS SELECT a.item AS item, b.n AS n FROM bids [RANGE 2 SECONDS] AS a
  JOIN bids [RANGE 2 SECONDS] AS b ON a.item = b.item INTO FILES (path '{out}/flapping', format 'json');
CREATE RULE seen ON bids WHEN n > 3 DO CALL note(n);
"""
NOON = parse_instant("2026-03-01 12:00:00")
#: How often a query is stopped and started between the two looks.
STINTS = 24


def run(session: Session, clock: VirtualClock, begin: int, stints: int) -> None:
    """Run four micro-batches for each stint of the query."""
    for stint in range(begin, begin + stints):
        (session.stop_query if stint % 2 else session.start_query)("flapping")
        for number in range(4):
            at = format_instant(NOON + (4 * stint + number) * SECOND)
            session.push("bids", [{"at": at, "item": item, "n": item} for item in range(5)])
            clock.advance(SECOND)
            session.deployment.step()  # type: ignore[attr-defined]


def containers() -> list[Any]:
    """Return everything that can grow."""
    kinds = list | dict | set | deque | bytearray
    every = (thing for owner in gc.get_objects() for thing in (owner, *gc.get_referents(owner)))
    return list({id(thing): thing for thing in every if isinstance(thing, kinds)}.values())


def test_no_list_grows_with_micro_batches_or_stints(tmp_path: Path) -> None:
    clock = VirtualClock(NOON)
    with Session(tmp_path / "state", host=lambda folder: LocalDeployment(folder, buckets=2, clock=clock)) as session:
        session.register("note", lambda n, key: None)
        session.execute(FILE.format(out=tmp_path))
        run(session, clock, 0, STINTS)
        gc.collect()
        before = [(thing, len(thing)) for thing in containers()]  # none of them may be another one later
        run(session, clock, STINTS, STINTS)
        # commands are kept until a snapshot stands for them
        kept = {id(log._kept) for log in gc.get_objects() if isinstance(log, CommandLog)}
        grown = [
            f"{length} -> {len(thing)}: {str(thing)[:300]}"
            for thing, length in before
            if len(thing) - length >= STINTS // 3 and thing is not before and id(thing) not in kept
        ]
    assert not grown
