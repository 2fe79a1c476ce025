"""Who is served first: queries with a strict latency, where others may wait.

Micro-batches are then kept as short as the strictest latency needs. What does not fit into them waits, and never
catches up if it needs more than is left: shorter micro-batches spend more of their time on fixed costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.analysis.forecast.network import Network, reached
from headrace.analysis.forecast.solver import Forecast, forecast
from headrace.model.qos import Qos, Strictness
from headrace.model.time import SECOND

#: The mean latency is one and a half micro-batches; with this share of the promise for each, it keeps the promise.
SHARE_OF_PROMISE = 0.55
#: A micro-batch is planned to last at least this multiple of its fixed part.
MIN_MULTIPLE_OF_FIXED = 1.4


def is_strict(qos: Qos) -> bool:
    """Return whether the latency of a query matters: it is promised, and not as DONT CARE."""
    return qos.latency is not None and qos.latency.strictness is not Strictness.DONT_CARE


def classes(promises: Iterable[Qos]) -> set[Strictness | None]:
    """Return the strictness of the latencies of queries; None for queries without one."""
    return {None if qos.latency is None else qos.latency.strictness for qos in promises}


def served_first(promises: Mapping[str, Qos]) -> frozenset[str]:
    """Return the queries that others wait for, those of the strictest class; none if all are alike."""
    known = classes(promises.values())
    strictest = next(
        (strictness for strictness in (Strictness.MUST, Strictness.BEST_EFFORT) if strictness in known), None
    )
    if len(known) < 2 or strictest is None:
        return frozenset()
    return frozenset(
        name for name, qos in promises.items() if qos.latency is not None and qos.latency.strictness is strictest
    )


def forecast_by_priority(network: Network, promises: Mapping[str, Qos], ingest: frozenset[str]) -> Forecast:
    """Forecast queries of which some are served first; in the `ingest`, where streams are read, nothing waits."""
    together = forecast(network)
    known = {name: promises.get(name, Qos()) for name in network.queries}
    first = served_first(known)
    if not first:
        return together
    shortest = min(qos.latency.curve.least for qos in known.values() if qos.latency is not None and is_strict(qos))
    longest = max(SHARE_OF_PROMISE * shortest / SECOND, MIN_MULTIPLE_OF_FIXED * network.elsewhere)
    if together.round <= longest:  # there is time for all in every micro-batch
        return together
    streams = {stream for name in first for stream in reached(network, name)[1]}
    urgent = {station for name in first for station in reached(network, name)[0]} | _fed_by(network, streams, ingest)
    own = replace(
        network,
        stations=tuple(station for station in network.stations if station.name in urgent),
        queries={name: network.queries[name] for name in first},
    )
    alone = forecast(own)
    busy = alone.utilization
    before = forecast(replace(own, elsewhere=longest * (1 - busy))) if alone.round < longest else alone
    rest = max(0.0, together.utilization - busy)
    room = max(0.0, 1 - busy - network.elsewhere / before.round) if math.isfinite(before.round) else 0.0
    share = min(1.0, room / rest) if rest else 1.0
    stations = {
        name: before.stations.get(name, replace(station, waits=(math.inf,) * len(station.waits), wait=math.inf))
        for name, station in together.stations.items()
    }
    queries = {
        name: before.queries.get(name)
        or replace(query, latency=math.inf, throughput=query.throughput * max(1.0, together.utilization) * share)
        for name, query in together.queries.items()
    }
    return Forecast(together.utilization, before.round, stations, queries)


def _fed_by(network: Network, streams: Iterable[str], ingest: frozenset[str]) -> set[str]:
    """Return the stations of the ingest that tuples of these streams reach."""
    fed = set(streams)
    for station in network.stations:
        if station.name in ingest and any(feed.origin in fed for feed in station.feeds):
            fed.add(station.name)
    return fed & ingest
