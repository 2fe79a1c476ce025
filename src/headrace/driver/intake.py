"""Plans micro-batches: how far each stream is read, and which ingest task reads what.

Runs on the driver, or in the process that Spark starts beside it; both hosts use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from headrace.catalog.definitions import AHEAD, FAILURES, RAISED, Stream, Timing
from headrace.commands.allotments import Allotment
from headrace.commands.command import Allot, FailQuery, RaiseTuples, UseBuckets, encode_command
from headrace.commands.running import Running
from headrace.connectors.connector import (
    KeepingSource,
    MeasuredSource,
    PacedSource,
    SkippingSource,
    Source,
    SteeredSource,
    WaitingSource,
)
from headrace.connectors.connector import Offset as Position
from headrace.connectors.spool import exchange_spool, split_by_hand
from headrace.driver.deployed import Deployed, Deployments, notes_in
from headrace.driver.division import deal, in_lanes
from headrace.driver.exchanges import ReadParts, exchange_splits, keeps_parts, next_exchange, sweep_parts
from headrace.driver.frontiers import (
    behind,
    bounds_of,
    clock_at,
    clocks_of,
    follows_clock,
    highest,
    is_punctual,
    is_wall_clock,
    lanes_of,
    newest_of,
    offered_at,
    reset_at,
    unraised,
)
from headrace.driver.offset import ExchangeAt, Offset, StreamAt, exchanged
from headrace.driver.pause import is_paused
from headrace.driver.progress import Progress, has_progress, read_progress
from headrace.driver.rules.raising import is_over
from headrace.errors import HostFault
from headrace.model.streams import exchange_stream, is_system_stream
from headrace.model.time import BEGIN, MILLISECOND, SECOND
from headrace.worker.ingest import Task, Work
from headrace.worker.lane_times import forget_notes
from headrace.worker.moving import delete, sweep
from headrace.worker.source_needs import Needed
from headrace.worker.wire import Control, Wait

#: If there is nothing new to read, an operator that still waits for a time that has come gets the time this often.
TICK = 200 * MILLISECOND
#: In the first micro-batch of each such period, tuples are counted by parcel.
COUNTED_EVERY = SECOND


class Intake:
    """Decides what the next micro-batch reads."""

    def __init__(self, directory: Path, *, parallel: int, limit: int, buckets: Sequence[int] = (0,)) -> None:
        self.directory = directory
        self.parallel = parallel
        self.limit = limit
        self.buckets = list(buckets)
        self._left_notes = True  # whether tasks may have left files that nobody has deleted
        self._is_swept = False  # whether what an earlier process left of exchanges is deleted
        self.deployments = Deployments(directory)
        self._read_parts = ReadParts(directory)
        self._exchanges: set[str] = set()  # those of the last micro-batch that was committed, by origin
        self._settled = Running()  # what was in force in that micro-batch

    def latest(self, start: Offset, now: int) -> Offset:
        """Return the offset up to which to read; `start` itself if there is nothing to do or the deployment stops."""
        if is_paused(self.directory):
            return start
        commands = self.deployments.count()
        deployed = self.deployments.at(commands)
        progress = read_progress(self.directory).of(deployed.streams, deployed.running)
        time = max(now, start.time)
        start = _known_at(start, deployed.streams)
        _check_progress(progress, start, deployed, self.directory)
        start = reset_at(start, deployed.running, time)
        streams = {name: self._stream(name, deployed, start, progress, time) for name in deployed.streams}
        streams |= unraised(deployed, streams)
        exchanges = {
            origin: next_exchange(origin, start.exchanges.get(origin) or ExchangeAt(), progress, self.directory)
            for origin in deployed.exchanges
        }
        if progress.unread or exchanged(exchanges) != exchanged(start.exchanges) or not _others_ended(deployed, start):
            # a stream in which the system reports on itself ends last: as long as anything moves, a report may follow
            for name in filter(is_system_stream, streams):
                streams[name] = msgspec.structs.replace(streams[name], ended=False)
        end = Offset(
            time=time,
            commands=commands,
            streams=streams | {name: _idle(at) for name, at in start.streams.items() if name not in streams},
            exchanges=exchanges,
            budget=_budget(deployed.running, progress),
            turn=start.turn + bool(progress.unread),
            parallel=self.parallel,
            buckets=self._buckets(start.commands, deployed.running),
            moved=progress.moved,
        )
        end = msgspec.structs.replace(end, streams=offered_at(end.streams, clocks_of(deployed, end)))
        is_needed = start.work() != end.work() or (end.moved and end.moved != start.moved)
        return end if is_needed or self._is_time(deployed, start, end, progress) else start

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """Divide a micro-batch; the first task also gives each bucket the time, commands and bounds."""
        deployed = self.deployments.at(end.commands)
        start = _known_at(start, deployed.streams)
        parallel = end.parallel or self.parallel
        work = [
            *self._stream_work(deployed, start, end, parallel),
            *self._exchange_work(deployed, start, end, parallel),
        ]
        shares = deal(work, parallel)
        self._left_notes |= any(piece.is_asked for pieces in work for piece in pieces)
        allotments = self._allotments(start, end)
        is_counted = len(end.buckets or self.buckets) > 1 and start.time // COUNTED_EVERY < end.time // COUNTED_EVERY
        base = self._base(deployed, start, end, is_moving=allotments is not None)
        return [
            Task(number, end.time, share, None if number else base, allotments, counts_parcels=is_counted)
            for number, share in enumerate(shares)
            if share or not number
        ]

    def _buckets(self, commands: int, running: Running) -> list[int]:
        """Return the buckets of a micro-batch: those after its commands, and those before, after so many `commands`.

        Buckets that came and go again within its commands have the pages of queries that were added meanwhile.
        """
        after = running.all_buckets(self.buckets)
        if not running.buckets or running.commands == commands:
            return after
        before = self.deployments.log.running(commands, Running())
        meanwhile = sorted(running.buckets_on_the_way(before))
        return list(dict.fromkeys((*after, *before.all_buckets(self.buckets), *meanwhile)))

    def _allotments(self, start: Offset, end: Offset) -> dict[str, Allotment] | None:
        """Return by which allotments the pages of a micro-batch are routed, if its commands change them.

        A bucket gives a parcel away when it has taken the pages of the micro-batch, so these go by what was before.
        """
        commands = self.deployments.log.between(start.commands, end.commands)
        if not any(isinstance(change, Allot | UseBuckets) for change in commands):
            return None
        before = self.deployments.log.running(start.commands, Running()).allotments
        after = self.deployments.at(end.commands).running.allotments
        return {name: allotment.before_in(before) for name, allotment in after.items()}

    def keeps(self, end: Offset) -> bool:
        """Return whether `forget` would delete anything: the micro-batch up to `end` could not be repeated then."""
        # all are asked, since a source may remember for `forget` what it has said
        answers = [source.keeps(at) for source, at in self._read(end) if isinstance(source, KeepingSource)]
        return bool(end.moved) or keeps_parts(end, self.directory) or any(answers)

    def forget(self, end: Offset) -> None:
        """Let sources free what lies before the end of a micro-batch that is never repeated."""
        if self._left_notes:
            forget_notes(notes_in(self.directory), end.time)
            self._left_notes = False
        for source, at in self._read(end):
            source.forget(at)
        self._read_parts.add(end)
        if end.moved:
            delete(self.directory, end.moved)
        for origin in self._exchanges - end.exchanges.keys():  # their queries were dropped
            exchange_spool(origin, self.directory).clear()
        if not self._is_swept:
            progress = read_progress(self.directory)
            self._is_swept = sweep_parts(end, progress, self.directory)
            if self._is_swept:
                sweep(self.directory, progress.moved)
        self._exchanges = set(end.exchanges)
        self.deployments.log.settle(self._settled)  # one micro-batch later than necessary
        self._settled = self.deployments.at(end.commands).running

    def _read(self, end: Offset) -> Iterator[tuple[Source, Position]]:
        """Yield the sources of the streams of a micro-batch, each with how far it was read."""
        sources = self.deployments.at(end.commands).sources
        for name, stream in end.streams.items():
            if name in sources:
                yield sources[name], stream.at

    def _stream(self, name: str, deployed: Deployed, start: Offset, progress: Progress, time: int) -> StreamAt:
        before = start.streams.get(name) or StreamAt(fresh=time)
        if before.ended and deployed.running.draining:  # what comes now is behind its end
            return before
        if before.idle:
            before = msgspec.structs.replace(before, fresh=time)
        source, stream = deployed.sources[name], deployed.streams[name]
        at = self._position(name, deployed, before, progress, time)
        complete = source.finished(at)
        caught_up = source.caught_up(at) if isinstance(source, PacedSource) else complete
        punctual = is_punctual(name, deployed, progress) or is_wall_clock(stream)
        lag = None if punctual or not stream.behind else progress.lags.get(name)
        ended = deployed.running.draining and complete
        match stream.timing:
            case Timing.CAUSED:
                reached = max(before.newest, progress.caused.get(name, BEGIN)) if complete else before.newest
                if name not in deployed.feeders:  # it comes as far as what is raised by hand
                    raised = self._by_hand(start.commands, deployed.running.commands).get(name, ())
                    reached = max([reached, *(command.time for _, command in raised)])
            case Timing.INTERNAL | Timing.LATENT if at != before.at:
                reached = time
            case _:
                reached = newest_of(name, deployed, start, progress)
        return StreamAt(
            at=at,
            newest=reached,
            lanes=lanes_of(name, deployed, before, progress),
            ended=ended and (before.ended or _is_over(name, deployed, start, progress)),
            live=complete
            and (punctual or lag is not None)
            and follows_clock(stream)
            and deployed.running.ets.mode != "none",
            lag=lag or 0,
            fresh=time if caught_up else before.fresh,
            unread=0 if complete or not isinstance(source, MeasuredSource) else source.unread(at),
            source=stream.source,
            # what a bounded stream has read is not further ahead than its bound was
            leads=before.leads or (start.time > BEGIN and reached > start.time + AHEAD),
            offered=before.offered,
        )

    def _by_hand(self, start: int, end: int) -> dict[str, list[tuple[int, RaiseTuples]]]:
        """Return the events that commands between two numbers raise, with the numbers of the commands."""
        raised: dict[str, list[tuple[int, RaiseTuples]]] = {}
        for number, command in enumerate(self.deployments.log.between(start, end), start):
            if isinstance(command, RaiseTuples):
                raised.setdefault(command.event, []).append((number, command))
        return raised

    def _position(self, name: str, deployed: Deployed, before: StreamAt, progress: Progress, time: int) -> Position:
        """Return up to where a stream is read in the next micro-batch."""
        source, limit = deployed.sources[name], min(self.limit, progress.limits.get(name, self.limit))
        if deployed.running.draining and isinstance(source, WaitingSource):
            source.hurry()
        if isinstance(source, SteeredSource):
            steer = deployed.running.steering(deployed.streams[name])
            source.steer(None if steer is None else steer.rate, paused=steer is not None and steer.paused)
        if limit <= 0 and before.at is not None:
            return before.at
        return _end(source, before.at, deployed.needed, name, time, limit)

    def _is_time(self, deployed: Deployed, start: Offset, end: Offset, progress: Progress) -> bool:
        """Return whether to run a micro-batch for the time alone: an operator waits for it, or a period is over."""
        clocks = clocks_of(deployed, end)
        if deployed.running.ets.mode == "periodic":
            return bool(clocks) and clock_at(deployed, end.time) > clock_at(deployed, start.time)
        now = highest(bounds_of(deployed, end), clocks)
        before: dict[str, int] = {}
        if start.streams.keys() == end.streams.keys():
            before = highest(bounds_of(deployed, start), clocks_of(deployed, start))
        for wait in progress.waits:
            if _have_reached(wait, now, end.time) and not _have_reached(wait, before, start.time):
                return True
            roots = {root for name in wait.streams for root in deployed.roots.get(name, (name,))}
            unseen = end.time if wait.anyhow else BEGIN
            if all(now.get(name, unseen) >= wait.bound for name in roots):
                # an operator in between may pass on a lower bound than it got, so look again, but not all the time
                known = all(before.get(name, BEGIN) >= wait.bound for name in roots)
                if not known or end.time - start.time >= TICK:
                    return True
        return False

    def _stream_work(self, deployed: Deployed, start: Offset, end: Offset, parallel: int) -> list[list[Work]]:
        """Return the splits of each stream, in the order of their records."""
        work = []
        by_hand = self._by_hand(start.commands, end.commands)
        for name in deployed.streams:
            stream, before = end.streams[name], start.streams.get(name)
            if name in by_hand and name in deployed.read_streams:
                bound = BEGIN if before is None else before.newest
                raised = [split_by_hand(number, command.rows) for number, command in by_hand[name]]
                work.append([Work(name, split, bound, start.time) for split in raised])
            if name not in deployed.read_streams or (before is not None and before.at == stream.at):
                continue  # what comes in a stream that only stopped queries read is skipped
            since = end.time if before is None else start.time
            begin = None if before is None else before.at
            splits = deployed.sources[name].splits(begin, stream.at, parallel=parallel)
            if deployed.streams[name].timing is Timing.CAUSED:  # late is what is below the bound before
                bound = BEGIN if before is None else before.newest
                work.append([Work(name, split, bound, since) for split in splits])
            else:
                work.append(in_lanes(name, splits, deployed, stream, since, end.time))
        return work

    def _exchange_work(self, deployed: Deployed, start: Offset, end: Offset, parallel: int) -> list[list[Work]]:
        work = []
        for origin in deployed.exchanges:
            before = start.exchanges.get(origin)
            if before is None and origin in deployed.begun_exchanges:
                before = ExchangeAt()
            if before is None:
                continue  # files that are there already are those of a query that was dropped
            splits = exchange_splits(origin, before, end.exchanges[origin], self.directory, parallel=parallel)
            work.append([Work(exchange_stream(origin), split, BEGIN, BEGIN) for split in splits])
        return work

    def _base(self, deployed: Deployed, start: Offset, end: Offset, *, is_moving: bool) -> Control:
        commands = self.deployments.log.between(start.commands, end.commands)
        running = b""
        if any(isinstance(command, UseBuckets) for command in commands):
            running = msgspec.json.encode(self.deployments.log.running(start.commands, Running()))
        offered = {name: end.streams[name].offered for name in deployed.streams}
        return Control(
            time=end.time,
            bounds=bounds_of(deployed, end),
            # before parcels change bucket, all buckets are told what any of them may have been told before
            clocks={name: at for name, at in offered.items() if at > BEGIN} if is_moving else clocks_of(deployed, end),
            moved=end.moved,
            lanes={name: end.streams[name].lanes for name in deployed.streams if end.streams[name].lanes},
            commands=[encode_command(command) for command in commands],
            arrived={name: _fresh(start.streams.get(name), end.streams[name]) for name in deployed.streams},
            behind={
                name: late
                for name, stream in deployed.streams.items()
                if (late := behind(stream, end, end.streams[name]))
            },
            unread={name: unread for name in deployed.streams if (unread := end.streams[name].unread)},
            budget=end.budget,
            buckets=(end.buckets or []) if deployed.running.buckets else [],
            running=running,
            dropped=[
                *(repair.query for repair in self.deployments.repairs() if end.commands <= repair.commands),
                # they must not even be built, to be dropped after that
                *(command.added.query for command in commands if isinstance(command, FailQuery)),
            ],
        )


def _budget(running: Running, progress: Progress) -> int | None:
    """Return the work that a bucket may do in the next micro-batch; a deployment that drains has no limit of a user."""
    match running.budget.mode:
        case "auto":
            return progress.budget
        case "off":
            return None
        case "fixed":
            return None if running.draining else running.budget.nanoseconds


def _known_at(start: Offset, streams: Mapping[str, Stream]) -> Offset:
    """Return an offset without the positions of streams of these names that had other sources."""
    known = {
        name: at for name, at in start.streams.items() if name not in streams or at.source in ("", streams[name].source)
    }
    return start if len(known) == len(start.streams) else msgspec.structs.replace(start, streams=known)


def _idle(at: StreamAt) -> StreamAt:
    """Return the position of a stream that no query has any more."""
    return at if at.idle else msgspec.structs.replace(at, idle=True, live=False)


def _fresh(before: StreamAt | None, after: StreamAt) -> int:
    """Return when the oldest tuple of a micro-batch can have come; what came while no query had the stream is new."""
    return after.fresh if before is None or before.idle else before.fresh


def _is_over(name: str, deployed: Deployed, start: Offset, progress: Progress) -> bool:
    """Return whether nothing follows in a stream whose source has been read to its end while a deployment drains."""
    match deployed.streams[name].connector.kind:
        case kind if kind == RAISED:
            return is_over(name, deployed.feeders, start.ended(), progress)
        case kind if kind == FAILURES:  # the last actions may fail, too
            return progress.settled
        case _:
            return True


def _check_progress(progress: Progress, start: Offset, deployed: Deployed, checkpoint: Path) -> None:
    """Raise a fault if what the last micro-batch left is missing: late tuples would not be recognized."""
    timed = [name for name, stream in deployed.streams.items() if stream.timing is Timing.EXTERNAL]
    known = [name for name in timed if name in start.streams and start.streams[name].newest > BEGIN]
    if known and not (progress.newest or progress.lanes) and not has_progress(checkpoint):
        raise HostFault(
            f"progress.json is missing in {checkpoint}: nothing is known of the time of stream {known[0]!r}",
            hint="restore the checkpoint from a copy, or start with a new one",
        )


def _have_reached(wait: Wait, bounds: Mapping[str, int], time: int) -> bool:
    """Return whether the streams themselves are where an operator can continue."""
    return all(bounds.get(name, time if wait.anyhow else BEGIN) >= wait.bound for name in wait.streams)


def _end(source: Source, start: Position, needed: Needed, name: str, time: int, limit: int) -> Position:
    """Return how far to read: the limit is on tuples that are read, not on those that are left out unread."""
    unneeded = needed.unneeded(name)
    if unneeded and isinstance(source, SkippingSource):
        return source.latest_without(start, needed.columns(name), unneeded, now=time, limit=limit)
    return source.latest(start, now=time, limit=limit)


def _others_ended(deployed: Deployed, start: Offset) -> bool:
    """Return whether all streams had ended except those of the system, and events that depend on these."""
    others = [
        name for name in deployed.streams if not any(map(is_system_stream, (name, *deployed.feeders.get(name, ()))))
    ]
    return all(start.ended().get(name, False) for name in others)
