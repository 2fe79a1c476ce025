"""Admission: a new query, or a new promise, is refused if a MUST promise would be broken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from headrace.analysis.forecast.admission import admit, admit_by_results, is_starved
from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.forecast.network import Network, faster
from headrace.analysis.forecast.solver import forecast
from headrace.analysis.forecast.verification import MEASURES, Measure, verify
from headrace.commands.command import AddQuery
from headrace.errors import Refused, Span
from headrace.graph.graph import merge
from headrace.model.qos import Qos
from headrace.session.forecast import declared_rate


def check_admission(new: AddQuery, running: Mapping[str, AddQuery], facts: Facts, speed: float, span: Span) -> None:
    """Raise if a MUST promise would not hold with a new query; only possible if the rates of all streams are known."""
    queries = {**running, new.query: new}
    promises = {name: query.qos for name, query in queries.items()}
    strict = {measure for measure in MEASURES if any(_must(qos, measure) for qos in promises.values())}
    network = _network(queries, facts, speed) if strict else None
    if network is None:
        return
    if strict == {"throughput"}:
        verdict = admit_by_results(network, new.query, promises)
    else:
        others = {name: _of_load(qos) for name, qos in promises.items() if name != new.query}
        verdict = admit(network, new.query, _of_load(new.qos), others)
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
    predicted = forecast(network)
    for check in verify(predicted, altered.query, altered.qos):
        is_broken = is_starved(check, predicted) if check.measure == "throughput" else not check.holds
        if check.measure in changed and check.promise.is_must and is_broken:
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


def _must(qos: Qos, measure: Measure) -> bool:
    promise = qos.promise(measure)
    return promise is not None and promise.is_must


def _of_load(qos: Qos) -> Qos:
    """Return the promises that more work can break; a processor that has time gives all results that there are."""
    return msgspec.structs.replace(qos, throughput=None)
