"""What each operator does to rates, memory and the size of tuples, as far as its spec tells; the rest is assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Literal

from headrace.analysis.forecast.event_buffers import Store, buffers, ending_ports
from headrace.analysis.forecast.facts import ELEMENTS, ENDING, INSTANT, MATCHES, PASSING, STAMP, Facts, row_width, width
from headrace.model.events.event import Primitive, primitives
from headrace.model.expressions.expression import Column, Expr
from headrace.model.frame import RangeFrame, RowsFrame
from headrace.model.schema import Schema
from headrace.model.suppression import Repeats
from headrace.model.time import SECOND
from headrace.model.window import Cumulative, Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.operators import specs
from headrace.operators.events.chain import is_chain
from headrace.operators.partitioning import without_widening

#: Bytes of a history beside its key, of an occurrence in it beside its tuples, and of a tuple beside its values.
_HISTORY, _OCCURRENCE, _ROW = 48.0, 30.0, 12.0
#: Bytes of the hidden columns of a tuple that a join keeps: the number of its key, and its expiry.
_KEPT_BY_JOIN = 16.0
#: Rows of a join expire in slices of an eighth of their life, so that half a slice is there too long.
_SLICE = 1 / 16


@dataclass(frozen=True, slots=True)
class Input:
    """An input: its rate, the bytes of its tuples, their lifetime in joins and their disorder (seconds).

    `speed` is how many seconds of its timestamps pass in a second, `values` how many different ones columns have.
    """

    rate: float
    size: float
    life: float = 0.0
    skew: float = 0.0
    speed: float = 1.0
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Behavior:
    """Selectivity and seconds of memory by port, tuples kept at any rate, and the size and life of outputs.

    `kept_size` is the bytes of a kept tuple; None: those of an input tuple. `values` are those of the output's columns.
    `service` are the assumed seconds a tuple; None: as usual for its kind.
    """

    selectivities: tuple[float, ...]
    size: float
    emits: Literal["share", "pairs", "timed"] = "share"
    windows: tuple[float, ...] = ()
    kept: float = 0.0
    life: float = 0.0
    guessed: bool = True  # the selectivity is an assumption, not a consequence of what the operator is
    kept_size: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    service: float | None = None


def behavior(spec: specs.Spec, inputs: tuple[Input, ...], facts: Facts, *, horizon: float = math.inf) -> Behavior:
    """Return how a vertex treats these inputs; `horizon` is for how many seconds it has done so."""
    ports = len(inputs)
    same = (1.0,) * ports
    size = max((origin.size for origin in inputs), default=STAMP)
    life = max((origin.life for origin in inputs), default=0.0)
    match spec:
        case specs.Scan():
            values = {
                name: facts.values[spec.stream, name] for name in spec.columns if (spec.stream, name) in facts.values
            }
            return Behavior((1.0,), _scan_size(spec, facts), guessed=False, values=values)
        case specs.Filter():
            return Behavior((PASSING,), size, life=life, values=inputs[0].values)
        case specs.Leading():  # how many depends on the groups of a page
            return Behavior(same, size, life=life, values=inputs[0].values)
        case specs.Project():
            wide = STAMP + sum(width(expr.type) for _, expr in spec.columns)
            values = {name: known for name, expr in spec.columns if (known := _values_of(expr, inputs[0])) is not None}
            return Behavior(same, wide, life=life, guessed=False, values=values)
        case specs.Union() | specs.OrderedUnion() | specs.Pace() | specs.Output() | specs.Exchange() | specs.Receive():
            return Behavior(same, size, life=life, guessed=False)
        case specs.Condense():
            return Behavior(same, size, life=life, values=inputs[0].values)
        case specs.Unnest():
            return Behavior((ELEMENTS,), size, life=life, values=inputs[0].values)
        case specs.Punctuate():
            return Behavior(same, size, life=life, guessed=False, values=inputs[0].values)
        case specs.Impute():
            return Behavior(same, size + width(spec.value.type), life=life, guessed=False, values=inputs[0].values)
        case specs.Reorder():
            skews = tuple(origin.skew / origin.speed for origin in inputs)
            return Behavior(same, size, windows=skews, life=life, guessed=False, values=inputs[0].values)
        case specs.Hold():
            return Behavior(same, size, kept=float(spec.limit), life=life, values=inputs[0].values)
        case specs.Limit():  # in the long run nothing passes
            return Behavior((0.0,), size, guessed=False)
        case specs.Distinct():
            return Behavior((PASSING,), size, windows=(spec.span / SECOND / inputs[0].speed,))
        case specs.Deduplicate():
            return Behavior((PASSING,), size, windows=(spec.span / SECOND / inputs[0].speed,))
        case specs.Over(frame=frame, calls=calls):
            wide = size + sum(width(call.type) for call in calls)
            reach = (frame.preceding or 0) / SECOND / inputs[0].speed if isinstance(frame, RangeFrame) else 0.0
            kept = 0.0 if reach else facts.groups * ((frame.preceding if isinstance(frame, RowsFrame) else None) or 1)
            return Behavior(same, wide, windows=(reach,), kept=kept, life=life)
        case specs.MatchRows(pattern=row_pattern):
            wide = size + sum(width(lookup.of.type) for lookup in spec.lookups)
            reach = 0.0 if row_pattern.within is None else row_pattern.within / SECOND / inputs[0].speed
            kept = 0.0 if reach else facts.groups * sum(known.most or 1 for known in row_pattern.variables)
            return Behavior((PASSING,), wide, windows=(reach,), kept=kept)
        case specs.Rank():
            wait = max(spec.size / SECOND, inputs[0].skew) / inputs[0].speed
            return Behavior(same, size + 8.0, windows=(wait,), life=life, guessed=False)
        case specs.WindowOver(calls=calls):
            wait = max(spec.size / SECOND, inputs[0].skew) / inputs[0].speed
            wide = size + sum(width(call.type) for call in calls)
            return Behavior(same, wide, windows=(wait,), life=life, guessed=False)
        case specs.Suppress(rule=rule):
            span = 0.0 if rule.span is None else rule.span / SECOND / inputs[0].speed
            passing = 1.0 / (rule.limit + 1) if isinstance(rule, Repeats) else PASSING
            kept = 0.0 if span else facts.groups * (rule.limit if isinstance(rule, Repeats) else 1)
            return Behavior((passing,), 2 * size, windows=(span,), kept=kept)
        case specs.Changes():
            return Behavior((2.0,), size, windows=(0.0,), kept=facts.groups, life=life)
        case specs.Membership():
            return Behavior(same, size + 1.0, life=life, values=inputs[0].values)
        case specs.TableJoin():
            wide = size + row_width(spec.schema) - STAMP
            return Behavior((MATCHES,), wide, life=life, values=inputs[0].values)
        case specs.Join() | specs.JoinChanges() | specs.OrderedJoin() | specs.RowsJoin():
            return _join(spec, inputs, facts, horizon)
        case specs.MultiJoin():
            return _multi_join(spec, inputs, facts, horizon)
        case specs.SequenceJoin():
            return _sequence(spec, inputs, facts, horizon)
        case specs.Detect():
            return _detect(spec, inputs, facts, horizon)
        case (
            specs.PartialAggregate()
            | specs.PaneAggregate()
            | specs.SessionAggregate()
            | specs.SlidingAggregate()
            | specs.RowsAggregate()
            | specs.WhileAggregate()
        ):
            return _aggregate(spec, inputs[0], facts)
        case _:  # an operator of which nothing is said passes all on and keeps nothing
            return Behavior(same, size, life=life)


def _scan_size(spec: specs.Scan, facts: Facts) -> float:
    schema = facts.schemas.get(spec.stream, Schema(()))
    fields = [schema.find(name) for name in spec.columns]
    return STAMP + sum(8.0 if field is None else width(field.type) for field in fields)


def _joined(left: Schema, right: Schema) -> float:
    return row_width(left) + row_width(right) - STAMP


def _values_of(expr: Expr, origin: Input) -> float | None:
    """Return how many different values a column has; None if that is not known."""
    plain = without_widening(expr)
    return origin.values.get(plain.name) if isinstance(plain, Column) else None


def _number_of_keys(keys: Sequence[Sequence[Expr]], inputs: Sequence[Input], facts: Facts) -> float:
    """Return how many values keys have together, each given for all inputs; the assumed number if one is unknown."""
    number = 1.0
    for alike in keys:
        known = [_values_of(expr, origin) for expr, origin in zip(alike, inputs, strict=True)]
        if any(value is None for value in known):
            return facts.groups
        number *= max(value for value in known if value is not None)
    return number


def _join(
    spec: specs.Join | specs.JoinChanges | specs.OrderedJoin | specs.RowsJoin,
    inputs: tuple[Input, ...],
    facts: Facts,
    horizon: float,
) -> Behavior:
    """Return a join that keeps what its windows hold, where a tuple meets all of its key on the other side."""
    keys = _number_of_keys(spec.keys, inputs, facts)
    windows, contents, kept = [], [], 0.0
    for origin, extent in zip(inputs, (spec.left_extent, spec.right_extent), strict=True):
        windows.append(_span(extent, origin, horizon))
        contents.append(origin.rate * windows[-1] if origin.rate else 0.0)  # H_j of (5.7)
        if extent is not None and extent.rows is not None:
            contents[-1] = extent.rows * (facts.groups if extent.by else 1.0)
            kept += contents[-1]
    # of keys that never repeat, or of a window without end, nothing better is known
    partners = [other / keys if math.isfinite(other) and math.isfinite(keys) else MATCHES for other in contents[::-1]]
    passing = 1.0 if spec.residual is None else PASSING
    shares = tuple(
        passing * own + (math.exp(-passing * own) if spec.preserves(port) else 0.0) for port, own in enumerate(partners)
    )
    names = dict(zip(spec.right.names, spec.right_names, strict=True))
    values = {**inputs[0].values, **{names[name]: known for name, known in inputs[1].values.items() if name in names}}
    return Behavior(
        shares,
        _joined(spec.left, spec.right),
        "pairs",
        tuple(window * (1.0 + _SLICE) + _lag(inputs, port) for port, window in enumerate(windows)),
        kept,
        min(windows),
        kept_size=sum(origin.size for origin in inputs) / 2 + _KEPT_BY_JOIN,
        values=values,
    )


def _multi_join(spec: specs.MultiJoin, inputs: tuple[Input, ...], facts: Facts, horizon: float) -> Behavior:
    """Return a join of several inputs, where a tuple meets all combinations of its key of the other inputs."""
    common = [[expr for expr in spec.classes[number] if expr is not None] for number in spec.common]
    keys = _number_of_keys(common, inputs, facts)
    windows = [_span(extent, origin, horizon) for extent, origin in zip(spec.extents, inputs, strict=True)]
    contents = [origin.rate * window if origin.rate else 0.0 for origin, window in zip(inputs, windows, strict=True)]
    partners = [held / keys if math.isfinite(held) and math.isfinite(keys) else MATCHES for held in contents]
    passing = PASSING ** len(spec.terms)
    ports = range(len(inputs))
    if spec.grid:
        shares = tuple(passing * _combinations(spec, port, contents, inputs, facts) for port in ports)
    else:
        shares = tuple(passing * math.prod(partners[other] for other in ports if other != port) for port in ports)
    lags = tuple(max(inputs[other].skew / inputs[other].speed for other in ports if other != port) for port in ports)
    values = {
        spec.columns(port)[name].name: known
        for port, origin in enumerate(inputs)
        for name, known in origin.values.items()
        if name in spec.columns(port)
    }
    return Behavior(
        shares,
        sum(map(row_width, spec.inputs)) - STAMP * (len(inputs) - 1),
        windows=tuple(window * (1.0 + _SLICE) + lag for window, lag in zip(windows, lags, strict=True)),
        life=min(windows),
        kept_size=sum(origin.size for origin in inputs) / len(inputs) + _KEPT_BY_JOIN,
        values=values,
    )


def _combinations(
    spec: specs.MultiJoin, start: int, contents: Sequence[float], inputs: tuple[Input, ...], facts: Facts
) -> float:
    """Return how many combinations of the other inputs a tuple meets, if inputs share some of their keys only."""
    having = [{port for port, expr in enumerate(members) if expr is not None} for members in spec.classes]
    found, joined, rest = 1.0, {start}, {*range(len(inputs))} - {start}
    while rest:
        port = max(sorted(rest), key=lambda port: sum(port in ports and bool(ports & joined) for ports in having))
        shared = [number for number, ports in enumerate(having) if port in ports and ports & joined]
        keys = 1.0
        for members in (spec.classes[number] for number in shared):
            known = [(expr, inputs[own]) for own, expr in enumerate(members) if expr is not None]
            keys *= _number_of_keys([[expr for expr, _ in known]], [origin for _, origin in known], facts)
        is_known = math.isfinite(contents[port]) and math.isfinite(keys)
        found *= contents[port] / keys if is_known else MATCHES
        joined.add(port)
        rest.remove(port)
    return found


def _lag(inputs: Sequence[Input], port: int) -> float:
    """Return for how many seconds longer tuples are kept, because the other input may be behind by its skew."""
    other = inputs[1 - port]
    return other.skew / other.speed


def _span(extent: Extent | None, origin: Input, horizon: float) -> float:
    if extent is None:  # of tuples that a join has made: their own expiry counts
        return min(origin.life, horizon)
    if extent.rows is not None:
        return 0.0
    return min(horizon if extent.span is None else extent.span / SECOND / origin.speed, horizon)


def _sequence(spec: specs.SequenceJoin, inputs: tuple[Input, ...], facts: Facts, horizon: float) -> Behavior:
    """Return a join with what follows: of the left tuples the newest of each key waits, or all that are not taken."""
    left, right = inputs
    keys = _number_of_keys(spec.keys, inputs, facts)
    life = min(horizon, math.inf if spec.span is None else spec.span / SECOND / left.speed)
    waiting = left.rate * life if left.rate else 0.0
    if spec.mode == "recent" and spec.residual is None:
        window, kept = 0.0, min(waiting, keys)
    else:
        if right.rate > left.rate:
            waiting = min(waiting, keys * left.rate / (right.rate - left.rate))
        window, kept = (waiting / left.rate if left.rate else 0.0), 0.0
    windows = (window + _lag(inputs, 0), _lag(inputs, 1))
    if spec.mode == "consuming":  # what waits for a partner is of the side that has more tuples
        own = min(horizon, spec.right_span / SECOND / right.speed if spec.right_span else horizon)
        windows = windows if left.rate >= right.rate else (_lag(inputs, 0), own + _lag(inputs, 1))
    return Behavior((0.0, MATCHES), _joined(spec.left, spec.right), windows=windows, kept=kept)


def _detect(spec: specs.Detect, inputs: tuple[Input, ...], facts: Facts, horizon: float) -> Behavior:
    """Return an event that keeps what waits in its buffers, and tuples until no earlier one can come."""
    rates, speed = [origin.rate for origin in inputs], max(origin.speed for origin in inputs)
    histories = _number_of_keys(tuple(zip(*spec.keys, strict=True)), inputs, facts)
    histories = histories if math.isfinite(histories) else facts.groups
    waiting = buffers(
        spec.event,
        spec.context,
        [rate / speed / histories for rate in rates],
        values=facts.groups,
        horizon=horizon * speed,
    )
    parts = tuple(primitives(spec.event))
    windows = _until_complete(parts, inputs)
    read, keys = _widths(spec, parts)
    sizes = [STAMP + own + key for own, key in zip(read, keys, strict=True)]
    in_columns = is_chain(spec)
    tuples = sum(map(math.prod, zip(rates, windows, strict=True)))
    size = sum(map(math.prod, zip(rates, windows, sizes, strict=True)))
    kept = 0.0
    for store in waiting.stores:
        number = store.number * histories
        tuples += number
        size += number * _stored_size(store, sizes, read, in_columns=in_columns)
        if store.limited:
            kept += number
        else:
            windows[store.port] += number / rates[store.port]
    if not in_columns and tuples:
        size += histories * (_HISTORY + keys[0])
    ending = ending_ports(spec.event)
    completing = sum(rates[port] for port in ending)
    share = waiting.detections * histories * speed / completing if completing else 0.0
    return Behavior(
        tuple(share if port in ending else 0.0 for port in range(len(inputs))),
        STAMP + sum(width(column.type) for column in spec.schema),
        windows=tuple(windows),
        kept=kept,
        kept_size=size / tuples if tuples and math.isfinite(tuples) else max(sizes),
        service=None if in_columns else INSTANT,
    )


def _until_complete(parts: Sequence[Primitive], inputs: Sequence[Input]) -> list[float]:
    """Return for how many seconds each input's tuples wait until no earlier one can come."""
    behind = max(origin.skew / origin.speed for origin in inputs)
    ports = {part.port for part in parts}
    return [behind if port in ports else 0.0 for port in range(len(inputs))]


def _widths(spec: specs.Detect, parts: Sequence[Primitive]) -> tuple[list[float], list[float]]:
    """Return the bytes that are read of a tuple of each port, and those of its keys."""
    read = [_read_width(spec, port, parts) for port in range(len(spec.keys))]
    keys = [float(sum(width(key.type) for key in columns)) for columns in spec.keys]
    return read, keys


def _stored_size(store: Store, sizes: Sequence[float], read: Sequence[float], *, in_columns: bool) -> float:
    """Return the bytes of one entry of a buffer."""
    if in_columns:
        return store.rows * sizes[store.port] + 2 * STAMP
    return _OCCURRENCE + store.rows * (_ROW + read[store.port])


def _read_width(spec: specs.Detect, port: int, parts: Sequence[Primitive]) -> float:
    """Return the bytes of the columns of a port that are looked at after the masks."""
    names = {part.name for part in parts if part.port == port}
    read = {column for part, _, column in (name.partition(".") for name in spec.needed()) if part in names}
    return sum(width(column.type) for column in spec.schemas[port] if column.name in read)


def _aggregate(
    spec: specs.PartialAggregate
    | specs.PaneAggregate
    | specs.SessionAggregate
    | specs.SlidingAggregate
    | specs.RowsAggregate
    | specs.WhileAggregate,
    origin: Input,
    facts: Facts,
) -> Behavior:
    known = _number_of_keys([(expr,) for _, expr in spec.keys], (origin,), facts)
    groups = known if math.isfinite(known) else facts.groups
    size = 2 * STAMP + sum(width(expr.type) for _, expr in spec.keys) + sum(width(call.type) for call in spec.calls)
    if isinstance(spec, specs.PartialAggregate):  # keeps nothing, and gives a row for each group of a pane
        return Behavior((_timed(groups / _slide(spec.window), origin),), size, "timed")
    match spec.window:
        case Range(size=length, slide=slide):
            panes = max(1, length // gcd(length, slide))
            return Behavior((_timed(groups / (slide / SECOND), origin),), size, "timed", kept=groups * panes)
        case Landmark(slide=slide) | Cumulative(step=slide):
            return Behavior((_timed(groups / (slide / SECOND), origin),), size, "timed", kept=groups)
        case Session(gap=gap):
            return Behavior((_timed(groups / (gap / SECOND), origin),), size, "timed", kept=groups)
        case Sliding(size=length):
            return Behavior(
                (1.0,),
                size,
                windows=((length or 0) / SECOND / origin.speed,),
                kept=groups if length is None else 0.0,
                guessed=False,
            )
        case Rows(size=length, slide=slide, by=by):
            return Behavior((1.0 / slide,), size, kept=length * (facts.groups if by else 1.0), guessed=bool(spec.keys))
        case While():
            return Behavior((ENDING,), size, kept=groups)


def _slide(window: Window) -> float:
    assert isinstance(window, Range | Landmark)
    return window.slide / SECOND


def _timed(results: float, origin: Input) -> float:
    """Return the selectivity that gives this many results in a second of timestamps; 0 if no tuple arrives."""
    return min(1.0, results * origin.speed / origin.rate) if origin.rate > 0 else 0.0
