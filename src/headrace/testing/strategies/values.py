"""Hypothesis strategies: schemas, histories, expressions, windows; whole queries are in `queries`.

All numbers are small integers and halves, so that sums and products of floats are exact and no two ways of computing
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from headrace.model.expressions.expression import Call, Case, Column, Expr, Literal
from headrace.model.expressions.functions import FUNCTIONS
from headrace.model.rank import RankOrder
from headrace.model.schema import Field, Schema
from headrace.model.time import SECOND
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type
from headrace.model.value_order import ordered_arguments
from headrace.model.window import AggregateCall, Cumulative, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.testing.oracle.rows import Row

#: Types that generated columns have.
TYPES = (Type.BIGINT, Type.INT, Type.DOUBLE, Type.STRING, Type.BOOLEAN)
_WORDS = ("", "a", "b", "ab", "é c")


def values(type_: DataType) -> SearchStrategy[Any]:
    """Draw values of a type as the oracle holds them, never NULL."""
    match type_:
        case Type.BOOLEAN:
            return st.booleans()
        case Type.INT | Type.BIGINT:
            return st.integers(-3, 6)
        case Type.FLOAT | Type.DOUBLE:
            return st.integers(-6, 12).map(lambda n: n / 2)
        case DecimalType(scale=scale):
            return st.integers(-30, 60).map(lambda n: Decimal(n).scaleb(-scale))
        case Type.STRING:
            return st.sampled_from(_WORDS)
        case Type.BINARY:
            return st.sampled_from([word.encode() for word in _WORDS])
        case Type.DATE:
            return st.integers(-2, 2)
        case Type.TIMESTAMP | Type.INTERVAL:
            return st.integers(-3, 60).map(lambda n: n * SECOND // 2)
        case ArrayType(element=element):
            return st.lists(st.none() | values(element), max_size=3)
        case MapType(key=key, of=of):
            return st.dictionaries(values(key), st.none() | values(of), max_size=3)
        case StructType(fields=fields):
            return st.fixed_dictionaries({name: st.none() | values(kind) for name, kind in fields})
        case Type.NULL:
            return st.none()


@st.composite
def schemas(draw: DrawFn, *, types: Sequence[DataType] = TYPES, least: int = 1, most: int = 4) -> Schema:
    """Draw columns c0, c1, ... of some types."""
    chosen = draw(st.lists(st.sampled_from(types), min_size=least, max_size=most))
    return Schema(tuple(Field(f"c{i}", type_) for i, type_ in enumerate(chosen)))


@st.composite
def histories(
    draw: DrawFn,
    schema: Schema,
    *,
    skew: int = 0,
    least: int = 0,
    most: int = 20,
    until: int = 30 * SECOND,
    step: int = SECOND // 2,
    time_column: str | None = None,
) -> list[Row]:
    """Draw tuples in arrival order with NULLs and ties; none is more than `skew` behind the newest, so none is late."""
    ticks = draw(st.lists(st.integers(0, until // step), min_size=least, max_size=most))
    # A tuple that arrives at ts + delay with delay <= skew is never late.
    delays = [draw(st.integers(0, skew // step)) if skew >= step else 0 for _ in ticks]
    arrivals = sorted(
        zip((tick + delay for tick, delay in zip(ticks, delays, strict=True)), ticks, strict=True),
        key=lambda pair: pair[0],
    )
    return [
        Row(tick * step, _tuple(draw, schema, tick * step, time_column), seq) for seq, (_, tick) in enumerate(arrivals)
    ]


def expressions(schema: Schema, type_: DataType, depth: int = 3) -> SearchStrategy[Expr]:
    """Draw expressions of a type over a schema's columns."""
    own = [Column(field.name, field.type) for field in schema if field.type == type_]
    leaves: SearchStrategy[Expr] = values(type_).map(lambda value: Literal(value, type_))
    if own:
        leaves = st.sampled_from(own) | st.sampled_from(own) | leaves
    if depth == 0:
        return leaves
    below = depth - 1
    makers = _MAKERS.get(type_)
    return leaves if makers is None else leaves | makers(lambda want: expressions(schema, want, below))


def predicates(schema: Schema, depth: int = 2) -> SearchStrategy[Expr]:
    """Draw conditions over a schema's columns."""
    return expressions(schema, Type.BOOLEAN, depth)


def windows(schema: Schema) -> SearchStrategy[Window]:
    """Draw windows of every kind over tuples of a schema."""
    spans = st.integers(1, 12).map(lambda n: n * SECOND)
    by = (
        st.lists(st.sampled_from([Column(field.name, field.type) for field in schema]), max_size=1).map(tuple)
        if len(schema)
        else st.just(())
    )
    counts = st.integers(1, 4)
    offsets = st.sampled_from((0, SECOND, 7 * SECOND, 2_500_000))
    return st.one_of(
        spans.map(lambda size: Range(size, size)),
        st.builds(Range, spans, spans),
        st.builds(lambda size, slide, offset: Range(size, slide, offset % slide), spans, spans, offsets),
        st.builds(Sliding, spans | st.none()),
        st.builds(Rows, counts, counts, by),
        st.builds(Session, spans, st.booleans()),
        st.builds(Landmark, spans | st.none(), spans),
        st.builds(
            lambda step, count, offset: Cumulative(step * count, step, offset % (step * count)),
            spans,
            st.integers(1, 4),
            offsets,
        ),
        st.builds(While, predicates(schema, 1), by),
    )


@st.composite
def aggregate_calls(draw: DrawFn, schema: Schema, *, ordered: bool = True) -> tuple[AggregateCall, ...]:
    """Draw one to three aggregates of columns; `ordered` permits first and last."""
    calls: list[AggregateCall] = []
    for i in range(draw(st.integers(1, 3))):
        field = draw(st.sampled_from(schema.fields))
        choices: list[tuple[str, DataType]] = [
            ("count", Type.BIGINT),
            ("count_distinct", Type.BIGINT),
            ("approx_count_distinct", Type.BIGINT),
            ("min", field.type),
            ("max", field.type),
            ("mode", field.type),
            ("max_by", field.type),
            ("min_by", field.type),
            ("collect_list", ArrayType(field.type)),
        ]
        if ordered:
            choices += [("first", field.type), ("last", field.type)]
        if field.type.is_numeric:
            total = Type.BIGINT if field.type.is_integer else Type.DOUBLE
            choices += [("sum", total), ("avg", Type.DOUBLE), ("stddev", Type.DOUBLE), ("variance", Type.DOUBLE)]
            choices += [("var_pop", Type.DOUBLE), ("sum_distinct", total), ("avg_distinct", Type.DOUBLE)]
            choices += [("percentile", Type.DOUBLE), ("percentile_disc", field.type), ("covar_samp", Type.DOUBLE)]
            choices += [("approx_percentile", field.type)]
            choices += [("variance_distinct", Type.DOUBLE)]
        if field.type.is_integer:
            choices += [("bit_and", Type.BIGINT), ("bit_xor", Type.BIGINT)]
        function, type_ = draw(st.sampled_from(choices))
        star = function == "count" and draw(st.booleans())
        more: tuple[Expr, ...] = ()
        if function in ("max_by", "min_by", "covar_samp"):
            others = [other for other in schema.fields if function != "covar_samp" or other.type.is_numeric]
            by = draw(st.sampled_from(others))
            more = (Column(by.name, by.type),)
        elif function in ("percentile", "percentile_disc", "approx_percentile"):
            more = (Literal(draw(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])), Type.DOUBLE),)
        elif function == "collect_list":
            by_ = [draw(st.sampled_from(schema.fields)) for _ in range(draw(st.integers(0, 2)))]
            more = ordered_arguments(
                [RankOrder(Column(by.name, by.type), draw(st.booleans()), draw(st.booleans())) for by in by_]
            )
        arg = None if star else Column(field.name, field.type)
        calls.append(AggregateCall(f"a{i}", function, arg, type_, more))
    return tuple(calls)


def _tuple(draw: DrawFn, schema: Schema, ts: int, time_column: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in schema:
        null = draw(st.integers(0, 5)) == 0
        value = None if null else draw(values(field.type))
        row[field.name] = ts if field.name == time_column else value
    return row


def _call(function: str, *args: Expr) -> Expr:
    type_ = FUNCTIONS[function].typing([arg.type for arg in args])
    assert type_ is not None, f"{function} does not take {[arg.type for arg in args]}"
    return Call(function, args, type_)


_Below = Callable[[DataType], SearchStrategy[Expr]]


def _calls(functions: Sequence[str], *args: SearchStrategy[Expr]) -> SearchStrategy[Expr]:
    return st.builds(_call, st.sampled_from(functions), *args)


def _integers(below: _Below) -> SearchStrategy[Expr]:
    number, text = below(Type.BIGINT), below(Type.STRING)
    return (
        _calls(("+", "-", "*", "%", "div", "coalesce", "least", "greatest", "nullif"), number, number)
        | _calls(("neg", "abs"), number)
        | _calls(("length",), text)
        | _calls(("floor", "ceil"), below(Type.DOUBLE))
        | st.builds(
            lambda when, then, other: Case(((when, then),), other, Type.BIGINT), below(Type.BOOLEAN), number, number
        )
    )


def _floats(below: _Below) -> SearchStrategy[Expr]:
    number, whole = below(Type.DOUBLE), below(Type.BIGINT)
    return _calls(("+", "-", "*", "coalesce", "greatest"), number, number | whole) | _calls(
        ("neg", "abs", "round"), number
    )


def _strings(below: _Below) -> SearchStrategy[Expr]:
    text = below(Type.STRING)
    return (
        _calls(("||",), text, text | below(Type.BIGINT))
        | _calls(("upper", "lower", "trim"), text)
        | _calls(("coalesce", "nullif"), text, text)
    )


def _booleans(below: _Below) -> SearchStrategy[Expr]:
    number, real, text, truth = below(Type.BIGINT), below(Type.DOUBLE), below(Type.STRING), below(Type.BOOLEAN)
    comparisons = ("=", "<>", "<", "<=", ">", ">=", "<=>")
    return (
        _calls(comparisons, number, number | real)
        | _calls(comparisons, text, text)
        | _calls(("and", "or"), truth, truth)
        | _calls(("not",), truth)
        | _calls(("is_null",), number | text)
        | _calls(("in",), number, number, number)
        | _calls(("starts_with", "contains"), text, text)
    )


_MAKERS: dict[DataType, Callable[[_Below], SearchStrategy[Expr]]] = {
    Type.BIGINT: _integers,
    Type.DOUBLE: _floats,
    Type.STRING: _strings,
    Type.BOOLEAN: _booleans,
}
