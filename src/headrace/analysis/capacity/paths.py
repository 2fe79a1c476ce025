"""The paths of a network: what tuples of a stream run through, from the leaf to all outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.analysis.capacity.capacity import Path, Stage
from headrace.analysis.forecast.network import Feed, Network, Station


@dataclass(frozen=True, slots=True)
class StreamPath:
    """A path with the stream at its leaf and that stream's rate; a tree where several operators read the same output."""

    stream: str
    rate: float
    path: Path


def stream_paths(network: Network) -> tuple[StreamPath, ...]:
    """One path for each leaf. An operator with several inputs is on the paths of all of them, with its selectivity for the input in question."""
    readers: dict[str, list[tuple[Station, Feed]]] = {}
    for station in network.stations:
        for feed in station.feeds:
            readers.setdefault(feed.origin, []).append((station, feed))
    return tuple(
        StreamPath(stream, rate, _follow(station, feed, readers))
        for stream, rate in network.streams.items()
        for station, feed in readers.get(stream, ())
    )


def _follow(station: Station, feed: Feed, readers: dict[str, list[tuple[Station, Feed]]]) -> Path:
    onward = readers.get(station.name, [])
    capacity = 1 / station.service.mean if station.service.mean else math.inf
    size_out = max((reader.size for reader, _ in onward), default=0.0)  # what leaves the system occupies nothing
    stage = Stage(station.name, capacity, feed.selectivity, station.size, size_out)
    rest = tuple(_follow(reader, next_feed, readers) for reader, next_feed in onward)
    if len(rest) == 1:
        return Path((stage, *rest[0].stages), rest[0].branches)
    return Path((stage,), rest)
