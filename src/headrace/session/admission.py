"""Admission: a new query is refused if it would break a MUST promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from headrace.analysis.forecast.admission import admit
from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.forecast.network import faster
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
    streams = {stream.name: stream for query in queries.values() for stream in query.streams}
    declared = {name: rate for name, stream in streams.items() if (rate := declared_rate(stream)) is not None}
    modeled = model(merge(query.graph for query in queries.values()), replace(facts, rates={**declared, **facts.rates}))
    if any(name in modeled.assumed for name in streams):
        return  # their rates are unknown
    verdict = admit(faster(modeled.network, speed), new.query, promises.pop(new.query), promises)
    if not verdict.admitted:
        raise Refused(
            verdict.reason,
            span=span,
            hint="EXPLAIN CAPACITY of its SELECT shows what would help; WITH (force, ...) runs it anyway",
        )


def _of_load(qos: Qos) -> Qos:
    """Return the promises that more work can break; throughput depends on the streams."""
    return msgspec.structs.replace(qos, throughput=None)
