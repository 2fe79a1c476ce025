"""What a process holds does not grow with the micro-batches it has run, nor with what comes and goes."""

from __future__ import annotations

import gc
from collections import Counter, deque
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
#: What comes and goes, each time under another name.
COMING = """
CREATE STREAM s{turn} (at TIMESTAMP, item INT) TIMESTAMP BY at FROM FILES (path '{out}/in', format 'csv');
CREATE QUERY q{turn} AS SELECT b.item AS item, s.at AS at FROM bids [RANGE 2 SECONDS] AS b
  JOIN s{turn} [RANGE 2 SECONDS] AS s ON b.item = s.item
  INTO FILES (path '{out}/q{turn}', format 'json', roll_interval '1 minute');
CREATE RULE r{turn} ON bids WHEN n > 2 DO CALL note(n);
"""
GOING = "DROP RULE r{turn}; DROP QUERY q{turn}; DROP STREAM s{turn}"
#: What is kept by text or name on purpose: a cache of 4,096 texts, where streams are, and totals of streams and rules.
#: How many objects of each type that is in a turn.
KEPT = {
    "References": 1,
    "StreamAt": 2,
    "StreamCounts": 1,
    "StreamStatistics": 1,
    "RuleStatistics": 1,
    "dict": 2,
    "list": 2,
    "frozenset": 2,
}
VALUES = {"int", "str", "float", "tuple"}
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


def come_and_go(session: Session, clock: VirtualClock, out: Path, begin: int, turns: int) -> None:
    """Let a stream, a query and a rule run for two micro-batches each turn, and two more without them."""
    for turn in range(begin, begin + turns):
        for number in range(4):
            if number in (0, 2):
                session.execute((GOING if number else COMING).format(turn=turn, out=out))
            at = format_instant(NOON + (4 * turn + number) * SECOND)
            session.push("bids", [{"at": at, "item": item, "n": item} for item in range(5)])
            clock.advance(SECOND)
            session.deployment.step()  # type: ignore[attr-defined]


def everything() -> list[Any]:
    """Return what the collector of garbage knows, and what that refers to."""
    every = (thing for owner in gc.get_objects() for thing in (owner, *gc.get_referents(owner)))
    return list({id(thing): thing for thing in every}.values())


def containers() -> list[Any]:
    """Return everything that can grow."""
    return [thing for thing in everything() if isinstance(thing, list | dict | set | deque | bytearray)]


def counts() -> Counter[str]:
    """Return how many objects there are of each type."""
    gc.collect()
    return Counter(type(thing).__name__ for thing in everything())


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


def test_nothing_stays_of_what_was_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.commands.log.SNAPSHOT_EVERY", 8)
    monkeypatch.setattr("headrace.catalog.journal.MAX_DEAD", 8)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("at,item\n2026-03-01T12:00:00,3\n")
    clock = VirtualClock(NOON)
    with Session(tmp_path / "state", host=lambda folder: LocalDeployment(folder, buckets=2, clock=clock)) as session:
        session.register("note", lambda n, key: None)
        session.execute(FILE.format(out=tmp_path))
        come_and_go(session, clock, tmp_path, 0, STINTS)
        before = counts()
        come_and_go(session, clock, tmp_path, STINTS, STINTS)
        after = counts()
    grown = {name: (before[name], count) for name, count in after.items() if name not in VALUES}
    assert not {
        name: (old, new) for name, (old, new) in grown.items() if new - old >= (KEPT.get(name, 0) + 0.5) * STINTS
    }
