"""Admission: a new query, or a new promise, is refused if a MUST promise would be broken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from headrace.analysis.forecast.admission import admit
from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.forecast.network import Network, faster
from headrace.analysis.forecast.solver import forecast
from headrace.analysis.forecast.verification import verify
from headrace.commands.command import AddQuery
from headrace.errors import Refused, Span
from headrace.graph.graph import merge
from headrace.model.qos import Qos
from headrace.session.forecast import declared_rate


def check_admission(new: AddQuery, running: Mapping[str, AddQuery], facts: Facts, speed: float, span: Span) -> None:
    """Raise if a MUST promise would not hold with a new query; only possible if the rates of all streams are known."""
    queries = {**running, new.query: new}
    promises = {name: _of_load(query.qos) for name, query in queries.items()}
    if not any(
        promise is not None and promise.is_must for qos in promises.values() for promise in (qos.latency, qos.memory)
    ):
        return
    network = _network(queries, facts, speed)
    if network is None:
        return
    verdict = admit(network, new.query, promises.pop(new.query), promises)
    if not verdict.admitted:
        raise Refused(
            verdict.reason,
            span=span,
            hint="EXPLAIN CAPACITY of its SELECT shows what would help; WITH (force, ...) runs it anyway",
        )


def check_altered(
    altered: AddQuery,
    changed: Collection[str],
    running: Mapping[str, AddQuery],
    facts: Facts,
    speed: float,
    spans: Mapping[str, Span],
) -> None:
    """Raise if one of the `changed` promises of a running query MUST hold and would not.

    Promises that do not change, and those of other queries, are what they were.
    """
    network = _network({**running, altered.query: altered}, facts, speed)
    if network is None:
        return
    for check in verify(forecast(network), altered.query, _of_load(altered.qos)):
        if check.measure in changed and check.promise.is_must and not check.holds:
            raise Refused(
                f"{altered.query} would break the {check.measure} that it promises",
                span=spans.get(check.measure),
                hint=f"EXPLAIN CAPACITY {altered.query} shows what would help; SET (force, ...) promises it anyway",
            )


def _network(queries: Mapping[str, AddQuery], facts: Facts, speed: float) -> Network | None:
    """Return the model of queries that run together; None if the rate of a stream is not known."""
    streams = {stream.name: stream for query in queries.values() for stream in query.streams}
    declared = {name: rate for name, stream in streams.items() if (rate := declared_rate(stream)) is not None}
    modeled = model(merge(query.graph for query in queries.values()), replace(facts, rates={**declared, **facts.rates}))
    return None if any(name in modeled.assumed for name in streams) else faster(modeled.network, speed)


def _of_load(qos: Qos) -> Qos:
    """Return the promises that more work can break; throughput depends on the streams."""
    return msgspec.structs.replace(qos, throughput=None)
