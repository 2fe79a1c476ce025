"""What is known of every tuple that a vertex emits: ranges of columns, and columns that tell the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from msgspec import UNSET, Struct

from headrace.model.expressions.expression import Call, Column, Expr, Literal, conjuncts
from headrace.model.patterns.match import (
    NOT_NULL,
    Between,
    IsNull,
    Match,
    OneOf,
    at_least,
    covers_match,
    equal,
    shifted,
)
from headrace.model.patterns.pattern import ALL_TUPLES, STAMP, Pattern, intersect, pattern, rename, restrict
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import DataType, Type
from headrace.model.window import Cumulative, Extent, Landmark
from headrace.operators import specs
from headrace.operators.feedback.time_columns import Clock, clocks_of, common_clocks, joined_clocks
from headrace.operators.windows.aggregates import Aggregates
from headrace.operators.windows.pane_times import PANE, pane_length


class Invariants(Struct, frozen=True):
    """`holds` matches every tuple; `clocks` tell its time."""

    holds: Pattern = ALL_TUPLES
    clocks: tuple[Clock, ...] = ()


NO_INVARIANTS = Invariants()


def until(target: Pattern, invariants: Invariants) -> int | None:
    """Return the least bound after which no tuple can match any more; None if there is none."""
    bounds = []
    for name, most in ((TS, 0), *((clock.name, clock.most) for clock in invariants.clocks)):
        last = _last(target.get(name))
        if last is not None:
            bounds.append(last + most + 1)
    return min((bound for bound in bounds if bound < END), default=None)


def in_time(original: Pattern, invariants: Invariants) -> Pattern:
    """Return the pattern with the timestamp instead of columns that always lie a fixed span from it.

    A column that is NULL in padded rows must still be there: a comparison does not match NULL.
    """
    exact = {clock.name: clock for clock in invariants.clocks if clock.least == clock.most}
    terms: list[tuple[Column, Match]] = []
    for term in original.terms:
        clock = exact.get(term.column.name)
        if clock is not None and not isinstance(term.match, IsNull):
            terms.append((STAMP, shifted(term.match, clock.least)))
            if clock.absent:
                terms.append((term.column, NOT_NULL))
        else:
            terms.append((term.column, term.match))
    return pattern(*terms)


def invariants_after(spec: specs.Spec, inputs: tuple[Invariants, ...]) -> Invariants:
    """Return what is known of a vertex's output, given what is known of its inputs."""
    match spec:
        case specs.Filter(predicate=predicate):
            return Invariants(intersect(inputs[0].holds, _implied(predicate)), inputs[0].clocks)
        case specs.Project():
            return _projected(spec, inputs[0])
        case specs.Pace(late=True):
            return Invariants(_without_ts(_common(inputs)))
        case specs.Union() | specs.OrderedUnion() | specs.Pace():
            return Invariants(_common(inputs), common_clocks([known.clocks for known in inputs]))
        case (
            specs.Output()
            | specs.Exchange()
            | specs.Reorder()
            | specs.Leading()
            | specs.Limit()
            | specs.Rank()
            | specs.Distinct()
            | specs.Deduplicate()
            | specs.Over()
            | specs.WindowOver()
            | specs.Hold()
            | specs.Impute()
            | specs.TableJoin()
            | specs.Membership()
            | specs.Punctuate()
        ):
            return inputs[0]
        case specs.Unnest(kept=None):
            return inputs[0]
        case specs.Join() | specs.OrderedJoin() | specs.RowsJoin():
            return _joined(spec, inputs)
        case specs.MultiJoin():
            return _combined(spec, inputs)
        case specs.SequenceJoin():
            return _followed(spec, inputs)
        case specs.PartialAggregate():
            return _partial(spec, inputs[0])
        case specs.PaneAggregate():
            return _windowed(spec, inputs[0])
        case specs.SessionAggregate(window=window):
            return _grouped(spec, spec.keys, inputs[0], later=window.gap)
        case specs.SlidingAggregate():
            return _grouped(spec, spec.keys, inputs[0])
        case specs.RowsAggregate() | specs.WhileAggregate():
            # a window may be complete with a tuple of another group, but not of another partition
            return _grouped(spec, [(name, expr) for name, expr in spec.keys if expr in spec.window.by], inputs[0])
        case _:  # to know nothing is safe
            return NO_INVARIANTS


def _projected(spec: specs.Project, known: Invariants) -> Invariants:
    names = {expr.name: name for name, expr in spec.columns if isinstance(expr, Column)}
    constants = [
        (Column(name, expr.type), equal(expr.value))
        for name, expr in spec.columns
        if isinstance(expr, Literal) and expr.value is not None
    ]
    carried = _carried(known.holds, names)
    return Invariants(intersect(carried, pattern(*constants)), clocks_of(spec.columns, known.clocks))


def _joined(spec: specs.Join | specs.OrderedJoin | specs.RowsJoin, inputs: tuple[Invariants, ...]) -> Invariants:
    names = _side_names(spec)
    sides = (inputs[0].holds, rename(inputs[1].holds, names[1]))
    kept = [_without_ts(side) for port, side in enumerate(sides) if not spec.preserves(1 - port)]
    clocks = [
        joined_clocks(inputs[port].clocks, names[port], spec.extent(port), padded=spec.preserves(1 - port))
        for port in (0, 1)
    ]
    return Invariants(reduce(intersect, kept, ALL_TUPLES), (*clocks[0], *clocks[1]))


def _combined(spec: specs.MultiJoin, inputs: tuple[Invariants, ...]) -> Invariants:
    holds, clocks = ALL_TUPLES, list[Clock]()
    for known, schema, own, extent in zip(inputs, spec.inputs, spec.names, spec.extents, strict=True):
        names = dict(zip(schema.names, own, strict=True))
        holds = intersect(holds, rename(_without_ts(known.holds), names))
        clocks += joined_clocks(known.clocks, names, extent)
    return Invariants(holds, tuple(clocks))


def _followed(spec: specs.SequenceJoin, inputs: tuple[Invariants, ...]) -> Invariants:
    names = _side_names(spec)
    if spec.padded:
        known = joined_clocks(inputs[1].clocks, names[1], Extent(0))
        return Invariants(_without_ts(rename(inputs[1].holds, names[1])), tuple(known))
    # a pair has the timestamp of its right tuple, or of the later one
    spans = spec.span, 0 if spec.right_span is UNSET else spec.right_span
    clocks = [joined_clocks(inputs[port].clocks, names[port], Extent(spans[port])) for port in (0, 1)]
    holds = intersect(_without_ts(inputs[0].holds), _without_ts(rename(inputs[1].holds, names[1])))
    return Invariants(holds, (*clocks[0], *clocks[1]))


def _partial(spec: specs.PartialAggregate, known: Invariants) -> Invariants:
    length = pane_length(spec.window)
    # a partial's timestamp lies in the pane of its tuples
    keys = clocks_of(spec.keys, known.clocks, least=1 - length, most=length - 1)
    return Invariants(intersect(_group(spec, known), _parts(spec, known)), (Clock(PANE, 0, length - 1), *keys))


def _windowed(spec: specs.PaneAggregate, known: Invariants) -> Invariants:
    size = None if isinstance(spec.window, Landmark) else spec.window.size
    least = spec.window.step if isinstance(spec.window, Cumulative) else size
    start = () if size is None or least is None else (Clock("window_start", least, size),)
    groups = frozenset(name for name, _ in spec.keys)
    longest = pane_length(spec.window) if size is None else size
    keys = tuple(clock.moved(1, longest) for clock in known.clocks if clock.name in groups)
    return Invariants(restrict(known.holds, groups), (Clock("window_end", 0, 0), *start, *keys))


def _grouped(spec: _Aggregate, keys: Iterable[tuple[str, Expr]], known: Invariants, *, later: int = 0) -> Invariants:
    """Return what is known of results that come `later` than the last tuple of their group, if these keys tell time."""
    clocks = clocks_of(keys, known.clocks, least=later, most=later)
    return Invariants(_group(spec, known), (Clock("window_end", 0, 0), *clocks))


def _side_names(
    spec: specs.Join | specs.OrderedJoin | specs.RowsJoin | specs.SequenceJoin,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return how the columns of each side are called in the output."""
    return {name: name for name in spec.left.names}, dict(zip(spec.right.names, spec.right_names, strict=True))


def _last(match: Match | None) -> int | None:
    match match:
        case Between(high=int() as high):
            return high - match.open_high
        case OneOf(values=values) if values and all(isinstance(value, int) for value in values):
            return max(value for value in values if isinstance(value, int))
        case _:
            return None


#: So many terms of a predicate are considered, which is always correct; each is compared with those before it.
_CONSIDERED = 100
_COMPARE = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}


def _implied(predicate: Expr) -> Pattern:
    """Return a pattern that every tuple matches which satisfies a predicate."""
    terms: list[tuple[Column, Match]] = []
    for term in conjuncts(predicate)[:_CONSIDERED]:
        match term:
            case Call(op, (Column() as column, Literal(value=value, type=type_))) if (
                op in _COMPARE and value is not None and type_ is column.type
            ):
                terms.append((column, _comparison(op, value)))
            case Call(op, (Literal(value=value, type=type_), Column() as column)) if (
                op in _COMPARE and value is not None and type_ is column.type
            ):
                terms.append((column, _comparison(_COMPARE[op], value)))
            case Call("not", (Call("is_null", (Column() as column,)),)):
                terms.append((column, NOT_NULL))
            case _:
                pass
    return pattern(*terms)


def _comparison(op: str, value: bool | int | float | str) -> Match:
    match op:
        case "=":
            return equal(value)
        case "<" | "<=":
            return Between(high=value, open_high=op == "<")
        case ">" | ">=":
            return Between(low=value, open_low=op == ">")
        case _:
            return Between(but=(value,))


def _carried(holds: Pattern, names: Mapping[str, str]) -> Pattern:
    return pattern(
        *((Column(names[t.column.name], t.column.type), t.match) for t in holds.terms if t.column.name in names)
    )


def _without_ts(holds: Pattern) -> Pattern:
    return Pattern(tuple(term for term in holds.terms if term.column.name != TS))


def _common(inputs: tuple[Invariants, ...]) -> Pattern:
    def everywhere(name: str, match: Match, type_: DataType) -> bool:
        others = (other.holds.get(name) for other in inputs[1:])
        return all(held is not None and covers_match(match, held, type_) for held in others)

    return Pattern(tuple(t for t in inputs[0].holds.terms if everywhere(t.column.name, t.match, t.column.type)))


_Aggregate = (
    specs.PartialAggregate
    | specs.SessionAggregate
    | specs.SlidingAggregate
    | specs.RowsAggregate
    | specs.WhileAggregate
)


def _group(spec: _Aggregate, known: Invariants) -> Pattern:
    return _carried(known.holds, {expr.name: name for name, expr in spec.keys if isinstance(expr, Column)})


def _parts(spec: specs.PartialAggregate, known: Invariants) -> Pattern:
    """Return what holds of the parts of an aggregate, given what holds of the values."""
    args = list(dict.fromkeys(call.arg for call in spec.calls if call.arg is not None))
    terms: list[tuple[Column, Match]] = []
    for part in Aggregates(spec.keys, spec.calls).parts:
        arg = args[int(part.arg.removeprefix("__a"))] if part.arg else None
        match = known.holds.get(arg.name) if isinstance(arg, Column) else None
        if arg is None or match is None:
            continue
        if part.kind in ("min", "max"):
            terms.append(
                (
                    Column(part.name, arg.type),
                    Between(match.low, match.high, match.open_low, match.open_high)
                    if isinstance(match, Between)
                    else match,
                )
            )
        elif part.kind == "sum" and arg.type.is_numeric and covers_match(at_least(0), match, arg.type):
            terms.append((Column(part.name, Type.BIGINT if arg.type.is_integer else Type.DOUBLE), at_least(0)))
    return pattern(*terms)
