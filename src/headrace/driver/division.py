"""How the records of a micro-batch are divided among ingest tasks."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.catalog.definitions import AHEAD, CLOCK, Stream, Timing
from headrace.connectors.connector import LanedSource, Split, TimedSource
from headrace.driver.deployed import Deployed
from headrace.driver.frontiers import newest_at
from headrace.driver.offset import StreamAt
from headrace.model.time import BEGIN, EARLIEST, LATEST
from headrace.worker.ingest import Work

#: Sources that make their timestamps themselves: none is wrong.
_MADE_TIMES = (CLOCK, "GENERATOR")


def deal(work: Sequence[Sequence[Work]], parallel: int) -> list[tuple[Work, ...]]:
    """Divide the splits of streams among tasks; the order of tasks is that of the records of each stream."""
    shares: list[list[Work]] = [[] for _ in range(parallel)]
    turn = 0
    for splits in work:
        count = len(splits)
        first = turn % max(1, parallel - count + 1)
        for place, split in enumerate(splits):
            shares[first + place * parallel // max(parallel, count)].append(split)
        turn += count
    return [tuple(share) for share in shares]


def in_lanes(name: str, splits: Sequence[Split], deployed: Deployed, at: StreamAt, since: int, time: int) -> list[Work]:
    """Return the work of reading splits of a stream, each with what is known of those before it in its lane."""
    stream, source = deployed.streams[name], deployed.sources[name]
    if stream.timing is not Timing.EXTERNAL:
        return [Work(name, split, at.newest, since) for split in splits]
    by_lane: dict[str | None, list[Split]] = {}
    for split in splits:
        by_lane.setdefault(source.lane(split) if isinstance(source, LanedSource) else None, []).append(split)
    work = []
    for lane, pieces in by_lane.items():
        newest = at.newest if lane is None else max(at.newest, newest_at(at.lanes.get(lane, BEGIN), stream.skew))
        latest = _latest_time(stream, at, newest, time)
        # of a lane of which nothing is known, the records themselves show whether it leads the clock
        may_lead = stream.ahead is None and newest == BEGIN and latest < LATEST
        told = _told(name, deployed, pieces if may_lead else pieces[:-1], latest)
        may_lead = may_lead and all(time is None for time in told)
        before: tuple[Split, ...] = ()
        for place, split in enumerate(pieces):
            reached = told[place] if place < len(told) else None
            is_asked = reached is None and place < len(pieces) - 1
            work.append(Work(name, split, newest, since, lane, before, is_asked, latest, may_lead))
            if reached is None:
                before = (*before, split)
            else:
                newest = max(newest, reached)
    return work


def _latest_time(stream: Stream, at: StreamAt, newest: int, time: int) -> int:
    """Return the greatest timestamp that a record of a lane may have; `newest` is the greatest of those before."""
    if stream.ahead is not None:
        return min(time + stream.ahead, LATEST)
    leads = at.leads or newest > time + AHEAD
    return LATEST if leads or stream.connector.kind in _MADE_TIMES else min(time + AHEAD, LATEST)


def _told(name: str, deployed: Deployed, splits: Sequence[Split], latest: int) -> list[int | None]:
    """Return the newest timestamp of each split; None if it is not known without reading.

    If one is not allowed, that is a bad record: the newest of the others is not known.
    """
    source, columns = deployed.sources[name], deployed.needed.columns(name)
    if not isinstance(source, TimedSource):
        return [None for _ in splits]
    times = (source.newest(split, columns) for split in splits)
    return [None if newest is None or not EARLIEST <= newest <= latest else newest for newest in times]
