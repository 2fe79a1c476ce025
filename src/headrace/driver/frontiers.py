"""How far streams have come: by what was read of them, and by the clock."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.catalog.definitions import CLOCK, Stream, Timing
from headrace.commands.running import Running
from headrace.connectors.connector import LanedSource
from headrace.driver.deployed import Deployed
from headrace.driver.offset import Offset, StreamAt
from headrace.driver.progress import Progress
from headrace.model.streams import bad_stream, exchange_stream, late_stream
from headrace.model.time import BEGIN, END, MILLISECOND


def is_stamped(stream: Stream) -> bool:
    """Return whether the tuples of a stream have the time at which they are read."""
    return stream.timing in (Timing.INTERNAL, Timing.LATENT)


def is_wall_clock(stream: Stream) -> bool:
    """Return whether a stream is the clock itself, so that all its tuples up to now are there."""
    return stream.connector.kind == CLOCK and "start" not in stream.connector.options


def follows_clock(stream: Stream) -> bool:
    """Return whether what has arrived can be read at once, so that the clock tells how old an unread tuple can be."""
    return stream.timing is Timing.EXTERNAL and stream.connector.kind != "SPARK"


def is_punctual(name: str, deployed: Deployed, progress: Progress) -> bool:
    """Return whether a stream's last tuples came within its skew.

    One that has been silent from the start is taken to be as those are that queries read together with it.
    """
    known = progress.punctual.get(name)
    if known is not None:
        return known
    partners = [
        is_stamped(deployed.streams[partner]) or progress.punctual[partner]
        for partner in deployed.partners.get(name, ())
        if partner in progress.punctual or is_stamped(deployed.streams[partner])
    ]
    return bool(partners) and all(partners)


def reset_at(start: Offset, running: Running, time: int) -> Offset:
    """Return an offset in which streams have come as far as commands after it say that reset their frontiers."""
    streams = dict(start.streams)
    for name, reset in running.reset_since(start.commands).items():
        before = streams.get(name) or StreamAt(fresh=time)
        streams[name] = msgspec.structs.replace(
            before,
            newest=reset.newest,
            lanes=dict.fromkeys(before.lanes, reset.to),
            live=False,
            leads=False,
            offered=BEGIN,
        )
    return msgspec.structs.replace(start, streams=streams)


def newest_of(name: str, deployed: Deployed, start: Offset, progress: Progress) -> int:
    """Return the newest timestamp, with several lanes that of the one that is furthest behind.

    A bound by the clock in the last micro-batch holds even if it was not used.
    """
    before, skew = start.streams.get(name), deployed.streams[name].skew
    bounds = progress.lanes.get(name, {})
    if before is None:
        return newest_at(min(bounds.values()), skew) if bounds else progress.newest.get(name, BEGIN)
    clock = clock_at(deployed, start.time) - before.lag if before.live else BEGIN
    if before.lanes:
        read = newest_at(min(max(bound, bounds.get(lane, BEGIN)) for lane, bound in before.lanes.items()), skew)
    else:
        read = progress.newest.get(name, BEGIN)
    return max(before.newest, read, clock)


def newest_at(bound: int, skew: int) -> int:
    """Return the newest timestamp that a bound follows from."""
    return BEGIN if bound == BEGIN else bound + skew


def lanes_of(name: str, deployed: Deployed, before: StreamAt, progress: Progress) -> dict[str, int]:
    """Return the bounds of the lanes that a stream waits for: those that had a tuple, or have records to read."""
    source, stream = deployed.sources[name], deployed.streams[name]
    if not isinstance(source, LanedSource) or stream.timing is not Timing.EXTERNAL:
        return {}
    # of a checkpoint without lanes it is only known how far the stream is
    unknown = BEGIN if before.lanes or before.newest == BEGIN else before.newest - stream.skew
    known = progress.lanes.get(name, {})
    bounds = {}
    for lane, has_unread in source.lanes(before.at).items():
        bound = max(before.lanes.get(lane, unknown), known.get(lane, BEGIN))
        if has_unread or bound > BEGIN:
            bounds[lane] = bound
    return bounds


def unraised(deployed: Deployed, streams: Mapping[str, StreamAt]) -> dict[str, StreamAt]:
    """Let raised events that no rule raises come as far as the streams that are read together with them.

    What a rule raises that is created later can only be earlier if its cause was: then it is late.
    """
    events = {
        name
        for name, stream in deployed.streams.items()
        if stream.timing is Timing.CAUSED and name not in deployed.feeders
    }
    moved = {}
    for event in events:
        beside = deployed.partners[event] - events
        bound = min((bound_of(deployed.streams[name], streams[name]) for name in beside), default=BEGIN)
        if streams[event].newest < bound < END:
            moved[event] = msgspec.structs.replace(streams[event], newest=bound)
    return moved


def bound_of(stream: Stream, at: StreamAt) -> int:
    """Return the bound that follows from what has been read of a stream."""
    if at.ended:
        return END
    return at.newest - (stream.skew if stream.timing is Timing.EXTERNAL and at.newest > BEGIN else 0)


def bounds_of(deployed: Deployed, end: Offset) -> dict[str, int]:
    """Return the bounds that follow from what has been read: of streams, their side streams, and exchanges."""
    bounds: dict[str, int] = {}
    for name, stream in deployed.streams.items():
        reached = end.streams[name]
        bounds[late_stream(name)] = bounds[bad_stream(name)] = END if reached.ended else end.time
        if (bound := bound_of(stream, reached)) > BEGIN:
            bounds[name] = bound
    for origin, exchange in end.exchanges.items():
        bounds[exchange_stream(origin)] = exchange.bound
    return bounds


def clock_at(deployed: Deployed, time: int) -> int:
    """Return the clock as streams tell it."""
    match deployed.running.ets.mode:
        case "on demand":
            return time
        case "periodic":
            return time - time % deployed.running.ets.period
        case "none":
            return BEGIN


def clocks_of(deployed: Deployed, end: Offset) -> dict[str, int]:
    """Return the bounds of silent streams by the clock: now if we stamp them, else now less their lag and skew."""
    time = clock_at(deployed, end.time)
    clocks = {}
    for name, stream in deployed.streams.items():
        if is_stamped(stream):
            clocks[name] = time
        elif end.streams[name].live:
            clocks[name] = time - end.streams[name].lag - stream.skew
    return clocks if time > BEGIN else {}


def offered_at(streams: Mapping[str, StreamAt], clocks: Mapping[str, int]) -> dict[str, StreamAt]:
    """Return streams with the latest bounds by the clock that a bucket may have asked for."""
    later = {name: clock for name, clock in clocks.items() if clock > streams[name].offered}
    return {**streams, **{name: msgspec.structs.replace(streams[name], offered=at) for name, at in later.items()}}


def highest(bounds: Mapping[str, int], clocks: Mapping[str, int]) -> dict[str, int]:
    """Return for each stream the later one of its bound and its clock."""
    return {**bounds, **{name: max(bound, bounds.get(name, BEGIN)) for name, bound in clocks.items()}}


def behind(stream: Stream, end: Offset, at: StreamAt) -> int:
    """Return for how long at most unread records have been there (microseconds); 0 if all that had come are read.

    Records with timestamps of their own have not been there for longer than their timestamps say, unless these lead the
    clock.
    """
    since = at.fresh
    if stream.timing is Timing.EXTERNAL and at.fresh < end.time and at.newest <= end.time + stream.skew:
        since = max(since, min(at.newest, end.time - MILLISECOND))
    return max(0, end.time - since)
