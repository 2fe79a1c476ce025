"""A forecast for people and programs: operators, queries, promises, and what would make broken ones hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct, field

from headrace.analysis.forecast.from_graph import Model
from headrace.analysis.forecast.network import Network, faster, reached
from headrace.analysis.forecast.planning import Remedy, Solve, largest_growth, remedy, shed_to
from headrace.analysis.forecast.priorities import forecast_by_priority, served_first
from headrace.analysis.forecast.solver import Forecast
from headrace.analysis.forecast.verification import Check, Measure, verify
from headrace.model.qos import Qos


class OperatorLine(Struct, frozen=True):
    """One operator by its readable name and its id; seconds, tuples, bytes."""

    operator: str
    vertex: str
    rate: float
    service: float
    selectivity: float
    utilization: float = field(name="utilisation")  # the key in JSON
    wait: float
    queued: float
    kept: float
    memory: float
    assumed: tuple[str, ...]
    state: float = 0.0  # bytes of what it keeps, without what waits


class QueryLine(Struct, frozen=True):
    """One query; `growth` is the factor by which its streams may speed up until a promise or the processor breaks."""

    query: str
    latency: float
    memory: float
    throughput: float
    bottleneck: str | None
    growth: float
    served: Literal["first", "later", "together"] = "together"


class PromiseLine(Struct, frozen=True):
    """One promise, in seconds, bytes or results a second.

    Speed and shed are what would make it hold if it does not (None: nothing of the kind). If the query may not lose so
    much, `best` is what would be predicted if all that it may lose were shed.
    """

    query: str
    measure: Measure
    strictness: str
    promised: float
    predicted: float
    holds: bool
    speed: float | None
    shed: float | None
    tolerated: float | None
    best: float | None = None


class CapacityReport(Struct, frozen=True):
    """All of it."""

    utilization: float = field(name="utilisation")  # the key in JSON
    round: float
    bottleneck: str | None
    streams: dict[str, float]
    assumed_streams: tuple[str, ...]
    operators: tuple[OperatorLine, ...]
    queries: tuple[QueryLine, ...]
    promises: tuple[PromiseLine, ...]

    @property
    def kept(self) -> bool:
        """Return whether all MUST promises hold."""
        return all(line.holds for line in self.promises if line.strictness == "MUST")


def report(model: Model, promises: Mapping[str, Qos], *, speed: float = 1.0, only: str | None = None) -> CapacityReport:
    """Predict what a model will do on a processor `speed` times as fast.

    `only` leaves out what does not concern one query.
    """
    network = faster(model.network, speed)
    solve = partial(forecast_by_priority, promises=promises, ingest=model.ingest)
    predicted = solve(network)
    first = served_first({name: promises.get(name, Qos()) for name in network.queries})
    names = [only] if only is not None else list(network.queries)
    mine = {station for name in names for station in reached(network, name)[0]}
    operators = tuple(
        _operator(model, predicted, station.name, station.service.mean)
        for station in network.stations
        if station.name in mine
    )
    queries, lines = [], []
    for name in names:
        qos, query_forecast = promises.get(name, Qos()), predicted.queries[name]
        growth = largest_growth(network, name, qos, solve)
        bottleneck = None if query_forecast.bottleneck is None else model.names[query_forecast.bottleneck]
        queries.append(
            QueryLine(
                name,
                query_forecast.latency,
                query_forecast.memory,
                query_forecast.throughput,
                bottleneck,
                growth,
                "together" if not first else "first" if name in first else "later",
            )
        )
        for check in verify(predicted, name, qos):
            lines.append(_promise(network, check, qos, solve))
    guessed = tuple(name for name in network.streams if name in model.assumed)
    return CapacityReport(
        predicted.utilization,
        predicted.round,
        None if predicted.bottleneck is None else model.names[predicted.bottleneck],
        dict(network.streams),
        guessed,
        operators,
        tuple(queries),
        tuple(lines),
    )


def _operator(model: Model, predicted: Forecast, name: str, service: float) -> OperatorLine:
    station_forecast = predicted.stations[name]
    station = model.network.station(name)
    assert station is not None
    shares = [feed.selectivity for feed in station.feeds]
    assumed = model.assumed.get(name, ())
    return OperatorLine(
        model.names[name],
        name,
        station_forecast.rate,
        service,
        sum(shares) / len(shares),
        station_forecast.utilization,
        station_forecast.wait,
        station_forecast.queued,
        station_forecast.kept,
        station_forecast.bytes,
        assumed,
        station_forecast.state,
    )


def _promise(network: Network, check: Check, qos: Qos, solve: Solve) -> PromiseLine:
    would = Remedy(None, None) if check.holds else remedy(network, check, solve)
    is_more = would.shed is None or would.shed > (qos.error or 0.0)
    best = shed_to(network, check, qos.error, solve) if qos.error and not check.holds and is_more else None
    strictness = check.promise.strictness.value
    return PromiseLine(
        check.query,
        check.measure,
        strictness,
        check.promised,
        check.predicted,
        check.holds,
        would.speed,
        would.shed,
        qos.error,
        best,
    )


def format_report(capacity: CapacityReport) -> str:
    """Write a report as text: the processor, then a table each of operators, queries and promises."""
    rates = ", ".join(
        f"{name} {_count(rate)}/s{' (assumed)' if name in capacity.assumed_streams else ''}"
        for name, rate in sorted(capacity.streams.items())
    )
    lines = [f"streams: {rates}", _processor(capacity), ""]
    operators = [
        (
            line.operator,
            f"{_count(line.rate)}/s",
            _starred(seconds(line.service), line, "service"),
            _starred(f"{line.selectivity:.3g}", line, "selectivity"),
            f"{line.utilization:.1%}",
            seconds(line.wait),
            _count(line.queued + line.kept),
            size(line.memory),
        )
        for line in sorted(capacity.operators, key=lambda line: -line.utilization)
    ]
    lines += _table(("operator", "takes", "a tuple", "selectivity", "processor", "waits", "holds", "memory"), operators)
    if any(line.assumed for line in capacity.operators):
        lines.append("* assumed, not measured")
    queries = [
        (
            line.query,
            *([] if line.served == "together" else [line.served]),
            seconds(line.latency),
            size(line.memory),
            f"{_count(line.throughput)}/s",
            _growth(line.growth),
            line.bottleneck or "-",
        )
        for line in capacity.queries
    ]
    served = [] if all(line.served == "together" for line in capacity.queries) else ["served"]
    heads = ("query", *served, "latency", "memory", "results", "rates may grow", "bottleneck")
    lines += ["", *_table(heads, queries)]
    lines += ["", *([_sentence(line) for line in capacity.promises] or ["nothing is promised"])]
    return "\n".join(lines)


def seconds(value: float) -> str:
    """Write a time for people."""
    if math.isinf(value):
        return "without end"
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= unit:
            return f"{value / unit:.3g} {name}"
    return f"{value / 1e-9:.3g} ns" if value else "0"


def size(value: float) -> str:
    """Write an amount of memory for people."""
    if math.isinf(value):
        return "without end"
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if value >= unit:
            return f"{value / unit:.3g} {name}"
    return f"{value:.0f} B"


def _processor(capacity: CapacityReport) -> str:
    if capacity.utilization >= 1:
        excess = capacity.utilization - 1
        return (
            f"processor: {capacity.utilization:.1%} needed, {excess:.1%} more than available; "
            f"most by {capacity.bottleneck}"
        )
    most = capacity.bottleneck or "nothing"
    return f"processor: {capacity.utilization:.1%} used, most by {most}; a round takes {seconds(capacity.round)}"


def _sentence(line: PromiseLine) -> str:
    write: Mapping[Measure, Callable[[float], str]] = {
        "latency": seconds,
        "memory": size,
        "throughput": lambda value: f"{_count(value)}/s",
    }
    text = write[line.measure]
    bound = "at least" if line.measure == "throughput" else "at most"
    said = f"{line.query}: {line.measure} {bound} {text(line.promised)} {line.strictness}"
    if line.holds:
        return f"{said}: holds, {text(line.predicted)} is predicted"
    ways = []
    if line.speed is not None:
        ways.append(f"a processor {line.speed:.3g} times as fast")
    if line.shed is not None:
        allowed = (
            ""
            if line.tolerated is None
            else f" ({'within' if line.shed <= line.tolerated else 'more than'} the tolerated {line.tolerated:.0%})"
        )
        ways.append(f"shedding {line.shed:.1%} of its streams{allowed}")
    would = "; " + " or ".join(ways) + " would do" if ways else _nothing_does(line)
    if line.best is not None and line.tolerated is not None and _is_better(line):
        would += f"; shedding the tolerated {line.tolerated:.0%} would give {text(line.best)}"
    return f"{said}: BROKEN, {text(line.predicted)} is predicted{would}"


def _nothing_does(line: PromiseLine) -> str:
    if line.best is not None and _is_better(line):
        return "; neither a faster processor nor shedding would make it hold"
    return "; neither a faster processor nor shedding would help"


def _is_better(line: PromiseLine) -> bool:
    """Return whether shedding all that is tolerated would help, if not enough."""
    if line.best is None:
        return False
    return line.best > line.predicted if line.measure == "throughput" else line.best < 0.99 * line.predicted


def _starred(text: str, line: OperatorLine, what: str) -> str:
    return f"{text} *" if what in line.assumed else text


def _growth(factor: float) -> str:
    if math.isinf(factor):
        return "without end"
    return f"x {factor:.3g}" if factor >= 1 else f"must shrink to {factor:.1%}"


def _count(value: float) -> str:
    if math.isinf(value):
        return "without end"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]
