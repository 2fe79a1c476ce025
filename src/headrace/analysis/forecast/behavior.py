"""What each operator does to rates, memory and the size of tuples, as far as its spec tells; the rest is assumed."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

from headrace.analysis.forecast.facts import ENDING, MATCHES, PASSING, STAMP, Facts, row_width, width
from headrace.model.events.event import reach
from headrace.model.schema import Schema
from headrace.model.suppression import Repeats
from headrace.model.time import SECOND
from headrace.model.window import Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.operators import specs


@dataclass(frozen=True, slots=True)
class Input:
    """An input: its rate, the bytes of its tuples, their lifetime in joins and their disorder (seconds)."""

    rate: float
    size: float
    life: float = 0.0
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class Behavior:
    """Selectivity and seconds of memory by port, tuples kept at any rate, and the size and life of outputs."""

    selectivities: tuple[float, ...]
    size: float
    emits: Literal["share", "pairs", "timed"] = "share"
    windows: tuple[float, ...] = ()
    kept: float = 0.0
    life: float = 0.0
    guessed: bool = True  # the selectivity is an assumption, not a consequence of what the operator is


def behavior(spec: specs.Spec, inputs: tuple[Input, ...], facts: Facts) -> Behavior:
    """Return how a vertex treats these inputs."""
    ports = len(inputs)
    same = (1.0,) * ports
    size = max((origin.size for origin in inputs), default=STAMP)
    life = max((origin.life for origin in inputs), default=0.0)
    match spec:
        case specs.Scan():
            return Behavior((1.0,), _scan_size(spec, facts), guessed=False)
        case specs.Filter():
            return Behavior((PASSING,), size, life=life)
        case specs.Project():
            return Behavior(same, STAMP + sum(width(expr.type) for _, expr in spec.columns), life=life, guessed=False)
        case specs.Union() | specs.OrderedUnion() | specs.Pace() | specs.Output() | specs.Exchange() | specs.Receive():
            return Behavior(same, size, life=life, guessed=False)
        case specs.Impute():
            return Behavior(same, size + width(spec.value.type), life=life, guessed=False)
        case specs.Reorder():
            return Behavior(same, size, windows=tuple(origin.skew for origin in inputs), life=life, guessed=False)
        case specs.Limit():  # in the long run nothing passes
            return Behavior((0.0,), size, guessed=False)
        case specs.Distinct():
            return Behavior((PASSING,), size, windows=(spec.span / SECOND,))
        case specs.Suppress(rule=rule):
            span = 0.0 if rule.span is None else rule.span / SECOND
            passing = 1.0 / (rule.limit + 1) if isinstance(rule, Repeats) else PASSING
            kept = 0.0 if span else facts.groups * (rule.limit if isinstance(rule, Repeats) else 1)
            return Behavior((passing,), 2 * size, windows=(span,), kept=kept)
        case specs.TableJoin():
            return Behavior((MATCHES,), size + row_width(spec.schema) - STAMP, life=life)
        case specs.Join() | specs.OrderedJoin() | specs.RowsJoin():
            return _join(spec, inputs, facts)
        case specs.SequenceJoin():
            span = (spec.span or 0) / SECOND
            return Behavior((0.0, MATCHES), _joined(spec.left, spec.right), windows=(span, 0.0))
        case specs.Detect():
            span = (reach(spec.event) or 0) / SECOND
            size = STAMP + sum(width(field.type) for field in spec.schema)
            return Behavior((0.0,) * (ports - 1) + (MATCHES,), size, windows=(span,) * ports)
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


def _join(spec: specs.Join | specs.OrderedJoin | specs.RowsJoin, inputs: tuple[Input, ...], facts: Facts) -> Behavior:
    windows, kept, lives = [], 0.0, []
    for origin, extent in zip(inputs, (spec.left_extent, spec.right_extent), strict=True):
        windows.append(_span(extent, origin))
        lives.append(windows[-1])
        if extent is not None and extent.rows is not None:
            kept += extent.rows * (facts.groups if extent.by else 1.0)
    return Behavior((MATCHES, MATCHES), _joined(spec.left, spec.right), "pairs", tuple(windows), kept, min(lives))


def _span(extent: Extent | None, origin: Input) -> float:
    if extent is None:  # of tuples that a join has made: their own expiry counts
        return origin.life
    return 0.0 if extent.span is None else extent.span / SECOND


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
    groups = facts.groups if spec.keys else 1.0
    size = 2 * STAMP + sum(width(expr.type) for _, expr in spec.keys) + sum(width(call.type) for call in spec.calls)
    if isinstance(spec, specs.PartialAggregate):  # keeps nothing, and gives a row for each group of a pane
        return Behavior((_timed(groups / _slide(spec.window), origin.rate),), size, "timed")
    match spec.window:
        case Range(size=length, slide=slide):
            panes = max(1, length // gcd(length, slide))
            return Behavior((_timed(groups / (slide / SECOND), origin.rate),), size, "timed", kept=groups * panes)
        case Landmark(slide=slide):
            return Behavior((_timed(groups / (slide / SECOND), origin.rate),), size, "timed", kept=groups)
        case Session(gap=gap):
            return Behavior((_timed(groups / (gap / SECOND), origin.rate),), size, "timed", kept=groups)
        case Sliding(size=length):
            return Behavior(
                (1.0,), size, windows=((length or 0) / SECOND,), kept=groups if length is None else 0.0, guessed=False
            )
        case Rows(size=length, slide=slide, by=by):
            return Behavior((1.0 / slide,), size, kept=length * (facts.groups if by else 1.0), guessed=bool(spec.keys))
        case While():
            return Behavior((ENDING,), size, kept=groups)


def _slide(window: Window) -> float:
    assert isinstance(window, Range | Landmark)
    return window.slide / SECOND


def _timed(results: float, rate: float) -> float:
    """Return the selectivity that gives this many results per second; 0 if no tuple arrives."""
    return min(1.0, results / rate) if rate > 0 else 0.0
