"""Forecasts whether promises hold, from the counters of a deployment or from stated rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.analysis.forecast.facts import Facts, VertexFacts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.forecast.report import CapacityReport, report
from headrace.catalog.definitions import Stream
from headrace.commands.command import AddQuery
from headrace.connectors.generator.values import number_of_values
from headrace.control.observation import Observation, VertexCost
from headrace.engine.statistics import Statistics, VertexStatistics
from headrace.graph.graph import merge
from headrace.graph.incarnations import meaning_of
from headrace.model.streams import is_system_stream
from headrace.model.time import SECOND


def measured(
    statistics: Statistics, latest: Observation | None, streams: Iterable[Stream], *, overhead: float = 0.0
) -> Facts:
    """Return the usual rates and costs of a deployment, and its state; before its first micro-batch declared rates.

    `overhead` is the fixed cost of a micro-batch (seconds) to assume until it is measured.
    """
    streams = tuple(streams)
    declared = {stream.name: rate for stream in streams if (rate := declared_rate(stream)) is not None}
    if latest is None:
        return replace(_facts(streams, declared), elsewhere=overhead)
    vertices = {
        name: _vertex(counts, latest.usual.costs.get(name)) for name, counts in list(statistics.vertices.items())
    }
    return replace(
        _facts(streams, {**declared, **latest.usual.rates}),
        vertices={meaning_of(name): facts for name, facts in vertices.items()} | vertices,
        reading=latest.usual.reading or None,
        elsewhere=overhead if latest.is_first else latest.usual.fixed,
    )


@dataclass(frozen=True, slots=True)
class Stated:
    """Figures that a user states: rates by stream, seconds and outputs per tuple by kind of operator.

    `elsewhere` is the time that a micro-batch takes beside the operators (seconds), `groups` the number of keys in a
    window (None: as declared, or assumed).
    """

    rates: Mapping[str, float]
    services: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)
    elsewhere: float = 0.0
    groups: float | None = None

    def facts(self, streams: Iterable[Stream]) -> Facts:
        """Return the figures as facts, with the schemas and skews of the streams."""
        known = _facts(streams, self.rates)
        if self.groups is not None:  # counts more than what generators declare
            known = replace(known, groups=self.groups, values={})
        return replace(known, services=self.services, selectivities=self.selectivities, elsewhere=self.elsewhere)


def declared_rate(stream: Stream) -> float | None:
    """Return the rate (tuples per second) that the definition of a stream declares; only generated streams do.

    A stream in which the system reports on itself has a row now and then.
    """
    if is_system_stream(stream.name):
        return 1.0
    if stream.connector.kind != "GENERATOR":
        return None
    options = stream.connector.options
    return float(options.get("rate", 10)) * float(options.get("speed", 1))


def forecast_together(
    queries: Iterable[AddQuery], facts: Facts, *, speed: float = 1.0, only: str | None = None
) -> CapacityReport:
    """Forecast queries that run together."""
    running = tuple(queries)
    modeled = model(merge(query.graph for query in running), facts)
    return report(modeled, {query.query: query.qos for query in running}, speed=speed, only=only)


def _facts(streams: Iterable[Stream], rates: Mapping[str, float]) -> Facts:
    known = tuple(streams)
    return Facts(
        rates,
        schemas={stream.name: stream.schema for stream in known},
        skews={stream.name: stream.skew / SECOND for stream in known},
        speeds={stream.name: _speed(stream) for stream in known},
        values={
            (stream.name, column): number for stream in known for column, number in _declared_values(stream).items()
        },
    )


def _speed(stream: Stream) -> float:
    """Return how many seconds of timestamps pass in a second; only a generator declares another number than 1."""
    return float(stream.connector.options.get("speed", 1)) if stream.connector.kind == "GENERATOR" else 1.0


def _declared_values(stream: Stream) -> dict[str, float]:
    """Return how many different values columns have; only generated streams declare it."""
    if stream.connector.kind != "GENERATOR":
        return {}
    written = [(column, stream.connector.options.get(f"col.{column.name}")) for column in stream.schema]
    numbers = {
        column.name: number_of_values(None if text is None else str(text), column.type) for column, text in written
    }
    return {name: number for name, number in numbers.items() if number is not None}


def _vertex(counts: VertexStatistics, cost: VertexCost | None) -> VertexFacts:
    return (
        VertexFacts()
        if cost is None
        else VertexFacts(
            cost.service, cost.selectivity, float(counts.held), float(counts.state_bytes), float(counts.tuples_in)
        )
    )
