"""The meaning of complex events, computed from whole histories: slow, simple, and independent of the operators.

Each event operator is defined over the lists of all occurrences of its operands: which of them go together in which
mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, primitives
from headrace.model.events.output import Aggregated, Count, Ended, Output, Pick, Started
from headrace.model.expressions.expression import Expr
from headrace.model.time import END
from headrace.plan.nodes import Detect
from headrace.testing.oracle import combined_events, events_between
from headrace.testing.oracle.event_oracle import EventOracle
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.occurrences import Occurrence, operands_of, scope_of
from headrace.testing.oracle.rows import Row
from headrace.testing.oracle.values import identity


def detections(
    event: Event,
    context: Context,
    histories: Mapping[str, Sequence[Row]],
    conditions: Sequence[Expr] = (),
    *,
    until: int,
) -> list[Occurrence]:
    """Return all occurrences that end before `until`, given the tuples of each part (of one key) as they arrive."""
    occurrences = EventOracle(_define, context, histories, conditions, until).all(event, None)
    return [occurrence for occurrence in occurrences if occurrence.end < until]


def detect(node: Detect, parts: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the results of a plan node, given the tuples of each input in order.

    A periodic event that never ends is followed up to the last tuple.
    """
    until = END
    if _ticks_for_ever(node.event, node.context):
        until = max((row.ts for rows in parts for row in rows), default=0) + 1
    histories: dict[tuple[Any, ...], dict[int, list[Row]]] = {}
    for port, rows in enumerate(parts):
        for row in rows:
            key = tuple(value_of(expr, row.scope) for expr in node.keys[port])
            if None not in key:  # NULL equals nothing
                histories.setdefault(tuple(map(identity, key)), {}).setdefault(port, []).append(row)
    results: list[Row] = []
    for history in histories.values():
        mine = {part.name: history.get(part.port, []) for part in primitives(node.event)}
        for occurrence in detections(node.event, node.context, mine, node.conditions, until=until):
            values = {output.name: _output(output, occurrence) for output in node.outputs}
            results.append(Row(occurrence.end, values))
    return results


def _output(output: Output, occurrence: Occurrence) -> Any:
    match output:
        case Pick(part=part, column=column):
            row = occurrence.newest(part)
            return None if row is None else row.values[column]
        case Count(part=part):
            return sum(name == part for name, _ in occurrence.rows)
        case Aggregated(part=part, call=call):
            rows = sorted((row for name, row in occurrence.rows if name == part), key=lambda row: row.ts)
            if rows:
                return aggregate_of(call, [row.scope for row in rows])
            return 0 if call.function == "count" else [] if call.function.startswith("collect") else None
        case Started():
            return occurrence.begin
        case Ended():
            return occurrence.end


def _ticks_for_ever(event: Event, context: Context) -> bool:
    match event:
        case events.Within():
            return False
        case events.Periodic(start=events.Primitive(name=name)) if retention := context.retention(name):
            return retention.age is None
        case events.Periodic():
            return True
        case _:
            return any(_ticks_for_ever(operand, context) for operand in operands_of(event))


def _define(oracle: EventOracle, event: Event, span: int | None) -> list[Occurrence]:
    match event:
        case events.Primitive():
            return _primitive(oracle, event, span)
        case events.Within(event=inner, span=own):
            return oracle.all(inner, own if span is None else min(own, span))
        case events.Alias(event=inner):
            return oracle.all(inner, span)
        case events.Or(left=left, right=right):
            return [*oracle.all(left, span), *oracle.all(right, span)]
        case events.Sequence():
            return combined_events.sequence(oracle, event, span)
        case events.And():
            return combined_events.both(oracle, event, span)
        case events.AnyOf():
            return combined_events.any_of(oracle, event, span)
        case events.Times():
            return combined_events.times(oracle, event, span)
        case events.Not():
            return events_between.not_between(oracle, event, span)
        case events.Absent():
            return events_between.absent(oracle, event, span)
        case events.Aperiodic():
            return events_between.aperiodic(oracle, event, span)
        case events.AperiodicStar():
            return events_between.aperiodic_star(oracle, event, span)
        case events.Repetition():
            return events_between.repetition(oracle, event, span)
        case events.Periodic():
            return events_between.periodic(oracle, event, span)
        case events.PeriodicStar():
            return events_between.periodic_star(oracle, event, span)
        case events.Plus():
            return _plus(oracle, event)


def _primitive(oracle: EventOracle, event: events.Primitive, span: int | None) -> list[Occurrence]:
    """Return the tuples that the mask lets through; a tuple of a named event may have begun earlier."""
    occurrences = []
    for row in oracle.histories[event.name]:
        if event.mask is None or value_of(event.mask, scope_of([(event.name, row)])) is True:
            begin = row.ts if event.start is None else row.values[event.start]
            start = row.ts if oracle.context.point else begin
            occurrences.append(Occurrence(start, row.ts, begin, ((event.name, row),)))
    return [occurrence for occurrence in occurrences if occurrence.lasts(occurrence.end, span)]


def _plus(oracle: EventOracle, event: events.Plus) -> list[Occurrence]:
    """Return each occurrence again, some time later."""
    later = [(occurrence.end + event.span, occurrence.rows) for occurrence in oracle.all(event.event, None)]
    return [Occurrence(at, at, at, rows) for at, rows in later]
