"""What waits for time in a bucket, and how late it is in the streams of queries that stop at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.commands.command import AddQuery
from headrace.engine.engine import Engine
from headrace.graph.graph import VertexId
from headrace.model.time import BEGIN, END
from headrace.operators.specs import Receive
from headrace.worker.wire import Wait


def waits(engine: Engine, queries: Collection[AddQuery], receives: Mapping[VertexId, Receive]) -> list[Wait]:
    """Return what waits for time: for each set of streams the least bound that would release something."""
    least: dict[tuple[str, ...], int] = {}
    for sources, bound in engine.waits():
        streams = tuple(sorted({stream for name in sources for stream in receives[name].streams}))
        least[streams] = min(bound, least.get(streams, bound))
    return [Wait(bound, streams) for streams, bound in least.items()] + [
        Wait(query.stint.end, tuple(stream.name for stream in query.streams), anyhow=query.ends_by_clock)
        for query in queries
        if query.stint is not None and query.stint.end < END
    ]


def timed_streams(
    queries: Collection[AddQuery], bounds: Mapping[str, int], clocks: Mapping[str, int]
) -> dict[str, int]:
    """Return the bounds of streams of queries that stop at a time, of those that have one."""
    timed = [
        query
        for query in queries
        if query.activation.schedule is not None or (query.stint is not None and query.stint.end < END)
    ]
    return {
        stream.name: max(bounds.get(stream.name, BEGIN), clocks.get(stream.name, BEGIN))
        for query in timed
        for stream in query.streams
        if stream.name in bounds or stream.name in clocks
    }
