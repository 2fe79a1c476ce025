"""Every rule keeps every answer: random plans over random streams, before and after, by the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.model.expressions.expression import FALSE, TRUE, Call, Case, Column, Expr, Literal, conjunction
from headrace.model.frame import Frame, PlaceFrame, RangeFrame, RowsFrame
from headrace.model.rank import Ranking, RankOrder
from headrace.model.row_pattern import Fold, Lookup, RowPattern, Variable
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import DataType, Type
from headrace.model.window import (
    AggregateCall,
    Cumulative,
    Extent,
    Landmark,
    Range,
    Rows,
    Session,
    Sliding,
    While,
    Window,
)
from headrace.optimizer.folding import fold
from headrace.optimizer.keeping import keep
from headrace.optimizer.optimizer import MAX_ROUNDS, RULES, best, optimize
from headrace.plan.check import check
from headrace.plan.explain import explain
from headrace.plan.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Limit,
    MatchRows,
    Membership,
    Node,
    Order,
    Over,
    Project,
    Rank,
    Scan,
    SequenceJoin,
    SequenceMode,
    TableJoin,
    Union,
    WindowOver,
)
from headrace.plan.traversal import transform, walk
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.oracle import Row, answer, as_multiset

S = Schema.of(a=Type.INT, b=Type.INT, c=Type.STRING)
T = Schema.of(d=Type.INT, e=Type.STRING, f=Type.BIGINT)
TABLE = Schema.of(k=Type.INT, v=Type.STRING)

VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    Type.INT: st.none() | st.integers(0, 2),
    Type.BIGINT: st.none() | st.integers(0, 3) | st.just(2**63 - 1),
    Type.STRING: st.none() | st.sampled_from(["", "x", "y "]),
    Type.TIMESTAMP: st.none() | st.integers(0, 12),
    Type.DOUBLE: st.none() | st.sampled_from([0.0, 0.5, -2.0]),
    Type.BOOLEAN: st.none() | st.booleans(),
}

KINDS: tuple[JoinKind, ...] = ("inner", "left", "right", "full")
CONSTANTS: dict[DataType, st.SearchStrategy[Any]] = {
    Type.INT: st.integers(0, 1),
    Type.BIGINT: st.integers(0, 4),
    Type.STRING: st.sampled_from(["x", "y "]),
    Type.TIMESTAMP: st.integers(0, 8),
}


@st.composite
def values(draw: st.DrawFn, type_: DataType, schema: Schema, depth: int = 2) -> Expr:
    """An expression of the type over the columns of the schema."""
    names = [field.name for field in schema if field.type is type_]
    leaves: list[Expr] = [Column(name, type_) for name in names]
    if not leaves or draw(st.integers(0, 3)) == 0:
        leaves = [Literal(draw(VALUES[type_]), type_)]
    leaf = draw(st.sampled_from(leaves))
    if depth == 0 or draw(st.booleans()):
        return leaf
    part = values(type_, schema, depth - 1)
    match draw(st.sampled_from(["case", "coalesce", "nullif", "own"])):
        case "case":
            branches = draw(st.lists(st.tuples(predicates(schema, depth - 1), part), min_size=1, max_size=2))
            return Case(tuple(branches), draw(st.none() | part), type_)
        case "coalesce":
            return Call("coalesce", (draw(part), leaf, draw(part)), type_)
        case "nullif":
            return Call("nullif", (leaf, draw(part)), type_)
        case _ if type_ is Type.BIGINT:
            whole = values(Type.BIGINT, schema, depth - 1) | values(Type.INT, schema, depth - 1)
            return Call(draw(st.sampled_from(["+", "-", "*", "%", "div"])), (draw(whole), draw(whole)), type_)
        case _ if type_ is Type.DOUBLE:
            real = values(Type.DOUBLE, schema, depth - 1)
            return Call(
                draw(st.sampled_from(["+", "-", "*", "/", "%"])),
                (draw(real), draw(real | values(Type.INT, schema, 0))),
                type_,
            )
        case _ if type_ is Type.STRING:
            return Call(draw(st.sampled_from(["upper", "trim", "reverse"])), (draw(part),), type_)
        case _:
            return leaf


@st.composite
def predicates(draw: st.DrawFn, schema: Schema, depth: int = 2) -> Expr:
    kind = draw(
        st.sampled_from(["compare", "compare", "compare", "ts", "literal", "and", "and", "or", "not", "is_null", "in"])
    )
    if depth == 0 and kind in ("and", "or", "not"):
        kind = "compare"
    type_ = draw(st.sampled_from([field.type for field in schema]))
    value = values(type_, schema, min(depth, 1))
    match kind:
        case "and" | "or":
            return Call(kind, (draw(predicates(schema, depth - 1)), draw(predicates(schema, depth - 1))), Type.BOOLEAN)
        case "not":
            return Call("not", (draw(predicates(schema, depth - 1)),), Type.BOOLEAN)
        case "literal":
            return draw(st.sampled_from([TRUE, FALSE, Literal(None, Type.BOOLEAN)]))
        case "ts":
            return Call(
                draw(st.sampled_from(["<", ">="])),
                (Column(TS, Type.BIGINT), Literal(draw(st.integers(0, 12)), Type.BIGINT)),
                Type.BOOLEAN,
            )
        case "is_null":
            return Call("is_null", (draw(value),), Type.BOOLEAN)
        case "in":
            return Call("in", (draw(value), draw(value), draw(value)), Type.BOOLEAN)
        case _:
            return Call(
                draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])),
                (draw(value), draw(value)),
                Type.BOOLEAN,
            )


@st.composite
def comparisons(draw: st.DrawFn, schema: Schema) -> Expr:
    """What people write: terms that compare a column with a constant, so that many tuples pass and many do not."""
    terms: list[Expr] = []
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        fields = [field for field in schema.fields if field.type in CONSTANTS]
        field = draw(st.sampled_from([*fields, *fields, Field(TS, Type.BIGINT)]))
        function = draw(st.sampled_from(["=", "<>", "<=", ">=", "is_null"]))
        constant = () if function == "is_null" else (Literal(draw(CONSTANTS[field.type]), field.type),)
        terms.append(Call(function, (Column(field.name, field.type), *constant), Type.BOOLEAN))
    whole = conjunction(tuple(terms))
    assert whole is not None
    return whole


def conditions(schema: Schema) -> st.SearchStrategy[Expr]:
    return comparisons(schema) | comparisons(schema) | predicates(schema)


@st.composite
def plans(draw: st.DrawFn) -> Node:
    """One to three steps over base streams, often with a filter after a step and a narrow projection at the end."""
    fresh = (f"n{i}" for i in count())
    plan = draw(_plans(draw(st.integers(1, 3)), fresh))
    narrow = draw(st.none() | st.sets(st.sampled_from(plan.schema.names), min_size=1))
    if narrow is not None:  # leaves something to prune
        plan = Project(
            plan, tuple((field.name, Column(field.name, field.type)) for field in plan.schema if field.name in narrow)
        )
    return plan


@st.composite
def _plans(draw: st.DrawFn, depth: int, fresh: Iterator[str]) -> Node:
    if depth == 0:
        return draw(st.sampled_from([Scan("s", S), Scan("t", T)]))
    step = draw(_steps(depth, fresh))
    return Filter(step, draw(conditions(step.schema))) if draw(st.booleans()) else step


@st.composite
def _steps(draw: st.DrawFn, depth: int, fresh: Iterator[str]) -> Node:
    below = draw(_plans(depth - 1, fresh))
    schema = below.schema
    kinds = [
        "filter",
        "project",
        "union",
        "order",
        "limit",
        "distinct",
        "rank",
        "deduplicate",
        "over",
        "window over",
        "match",
        "aggregate",
        "aggregate",
        "table",
        "membership",
        "join",
        "join",
        "join",
    ]
    match draw(st.sampled_from(kinds)):
        case "filter":
            return Filter(below, draw(conditions(schema)))
        case "project":
            types = draw(st.lists(st.sampled_from([field.type for field in schema]), min_size=1, max_size=3))
            return Project(below, tuple((next(fresh), draw(values(type_, schema))) for type_ in types))
        case "union":
            other = draw(_plans(depth - 1, fresh))
            return Union(
                (
                    below,
                    Project(other, tuple((field.name, draw(values(field.type, other.schema, 0))) for field in schema)),
                )
            )
        case "order":
            return Order(below)
        case "limit":
            return Limit(below, draw(st.integers(0, 4)))
        case "rank":
            columns = [Column(field.name, field.type) for field in schema]
            chosen: st.SearchStrategy[tuple[Expr, ...]] = st.lists(
                st.sampled_from(columns), max_size=2, unique=True
            ).map(tuple)
            order = st.builds(RankOrder, st.sampled_from(columns), st.booleans(), st.booleans())
            function: Ranking = draw(st.sampled_from(["row_number", "rank", "dense_rank"]))
            terms = tuple(draw(st.lists(order, min_size=1, max_size=2)))
            return Rank(below, draw(st.sampled_from([1, 3])), draw(chosen), terms, function, next(fresh))
        case "deduplicate":
            keys = draw(st.lists(st.sampled_from([Column(field.name, field.type) for field in schema]), min_size=1))
            return Deduplicate(below, tuple(keys), draw(st.integers(0, 5)), draw(st.booleans()))
        case "over":
            by = draw(st.lists(st.sampled_from([Column(field.name, field.type) for field in schema]), max_size=2))
            frames: list[Frame] = [RowsFrame(None), RowsFrame(1), RangeFrame(None), RangeFrame(2)]
            frame = draw(st.sampled_from(frames))
            arg = draw(st.sampled_from([Column(field.name, field.type) for field in schema]))
            calls = (
                AggregateCall(next(fresh), "max", arg, arg.type),
                AggregateCall(next(fresh), "count", None, Type.BIGINT),
            )
            return Over(below, tuple(by), frame, calls)
        case "window over":
            columns = [Column(field.name, field.type) for field in schema]
            by = draw(st.lists(st.sampled_from(columns), max_size=1))
            terms = tuple(
                draw(st.lists(st.builds(RankOrder, st.sampled_from(columns), st.booleans(), st.booleans()), max_size=1))
            )
            places = [PlaceFrame(), PlaceFrame(-1, 1), PlaceFrame(None, 0, peers=True), PlaceFrame(1, 1)]
            arg = draw(st.sampled_from(columns))
            greatest = AggregateCall(next(fresh), "max", arg, arg.type)
            size = draw(st.sampled_from([1, 3]))
            return WindowOver(below, size, tuple(by), terms, draw(st.sampled_from(places)), (greatest,))
        case "match":
            columns = [Column(field.name, field.type) for field in schema]
            partition = tuple(draw(st.lists(st.sampled_from(columns), max_size=1)))
            picked = draw(st.sampled_from(columns))
            variables = (
                Variable("A", 1, 1, draw(conditions(schema))),
                Variable("B", draw(st.integers(0, 1)), draw(st.sampled_from([1, None])), draw(conditions(schema))),
                Variable("C", 1, 1, TRUE),
            )
            pattern = RowPattern(variables, draw(st.sampled_from([None, 4])), draw(st.booleans()), (), ())
            shown = (Lookup(next(fresh), picked, "A", "last"), Lookup(next(fresh), picked, "B", "first"))
            counted = (Fold("B", AggregateCall(next(fresh), "count", None, Type.BIGINT)),)
            renamed = tuple((next(fresh), column) for column in partition)
            matched = MatchRows(below, partition, (), pattern, shown, counted)
            rest = matched.schema.fields[len(partition) :]
            return Project(matched, (*renamed, *((field.name, Column(field.name, field.type)) for field in rest)))
        case "distinct":
            return Distinct(below, draw(st.integers(0, 5)))
        case "aggregate":
            return draw(_aggregates(below, fresh))
        case "table":
            return draw(_table_joins(below, fresh))
        case "membership":
            return draw(_memberships(below, fresh))
        case _:
            return draw(_joins(below, draw(_plans(draw(st.integers(0, depth - 1)), fresh)), fresh))


@st.composite
def _table_joins(draw: st.DrawFn, below: Node, fresh: Iterator[str]) -> Node:
    keys = ((draw(values(Type.INT, below.schema, 0)), "k"),) if draw(st.booleans()) else ()
    bare = TableJoin(
        below, "table", TABLE, draw(st.sampled_from(["inner", "left"])), keys, None, (next(fresh), next(fresh))
    )
    return replace(bare, residual=draw(st.none() | st.none() | conditions(bare.schema)))


@st.composite
def _memberships(draw: st.DrawFn, below: Node, fresh: Iterator[str]) -> Node:
    keys = ((draw(values(Type.INT, below.schema, 0)), Column("k", Type.INT)),)
    compared = keys if draw(st.booleans()) else ()
    bare = Membership(
        below,
        next(fresh),
        "table",
        TABLE,
        () if compared else keys,
        compared,
        None,
        (next(fresh), next(fresh)),
    )
    return replace(bare, residual=draw(st.none() | conditions(bare.pair_schema)))


@st.composite
def _aggregates(draw: st.DrawFn, below: Node, fresh: Iterator[str], kind: type[Window] | None = None) -> Node:
    schema = below.schema
    fields = draw(st.lists(st.sampled_from(schema.fields), max_size=2))
    keys = tuple(
        (next(fresh), draw(st.just(Column(field.name, field.type)) | values(field.type, schema, 1))) for field in fields
    )
    by = tuple(expr for _, expr in keys if draw(st.booleans()))
    windows: dict[type[Window], st.SearchStrategy[Window]] = {
        Range: st.builds(Range, st.integers(1, 5), st.integers(1, 5)),
        Sliding: st.builds(Sliding, st.none() | st.integers(0, 5)),
        Rows: st.builds(Rows, st.integers(1, 3), st.integers(1, 3), st.just(by)),
        Session: st.builds(Session, st.integers(1, 4)),
        Landmark: st.builds(Landmark, st.none() | st.integers(0, 4), st.integers(1, 4)),
        Cumulative: st.builds(lambda step, count: Cumulative(step * count, step), st.integers(1, 3), st.integers(1, 3)),
        While: st.builds(While, conditions(schema), st.just(by)),
    }
    window = draw(st.one_of(*windows.values()) if kind is None else windows[kind])
    calls = []
    for function in draw(st.lists(st.sampled_from(["count", "max", "first", "last"]), max_size=2)):
        field = draw(st.sampled_from(schema.fields))
        arg = Column(field.name, field.type)
        calls.append(AggregateCall(next(fresh), function, arg, Type.BIGINT if function == "count" else field.type))
    plan: Node = Aggregate(below, window, keys, tuple(calls))
    if draw(st.booleans()):
        plan = Filter(plan, draw(conditions(plan.schema)))
    # The bounds are called alike in every aggregate, so they get new names before a join meets them.
    return (
        Project(plan, tuple((next(fresh), Column(field.name, field.type)) for field in plan.schema))
        if draw(st.booleans())
        else _renamed(plan, fresh)
    )


def _renamed(plan: Node, fresh: Iterator[str]) -> Node:
    bounds = {"window_start": next(fresh), "window_end": next(fresh)}
    return Project(
        plan, tuple((bounds.get(field.name, field.name), Column(field.name, field.type)) for field in plan.schema)
    )


@st.composite
def _joins(draw: st.DrawFn, left: Node, right: Node, fresh: Iterator[str], kind: JoinKind | None = None) -> Node:
    types = sorted(
        {field.type for field in left.schema} & {field.type for field in right.schema}, key=lambda type_: type_.value
    )
    keys: tuple[tuple[Column, Column], ...] = ()
    if types and draw(st.integers(0, 2)) == 0:
        type_ = draw(st.sampled_from(types))
        keys = ((_column(draw, left, type_), _column(draw, right, type_)),)
    drawn = draw(st.sampled_from(KINDS)) if kind is None else kind
    extents = draw(_extents(left)), draw(_extents(right))
    names = tuple(next(fresh) for _ in right.schema)
    bare = Join(left, right, drawn, keys, None, extents[0], extents[1], names)
    return replace(bare, residual=draw(st.none() | st.none() | conditions(bare.schema)))


def _column(draw: st.DrawFn, side: Node, type_: DataType) -> Column:
    return Column(draw(st.sampled_from([field.name for field in side.schema if field.type is type_])), type_)


@st.composite
def _extents(draw: st.DrawFn, side: Node) -> Extent | None:
    source = side
    while isinstance(source, Filter | Project):
        source = source.input
    if isinstance(source, Join) and draw(st.booleans()):
        return None
    by = tuple(
        Column(field.name, field.type) for field in draw(st.lists(st.sampled_from(side.schema.fields), max_size=1))
    )
    return draw(
        st.builds(Extent, span=st.none() | st.integers(0, 5))
        | st.builds(Extent, rows=st.integers(1, 2), by=st.just(by))
    )


@st.composite
def histories(draw: st.DrawFn, schema: Schema) -> list[Row]:
    times = sorted(draw(st.lists(st.integers(0, 4), min_size=3, max_size=6)))
    return [
        Row(
            ts,
            {field.name: draw(CONSTANTS[field.type] | CONSTANTS[field.type] | VALUES[field.type]) for field in schema},
        )
        for ts in times
    ]


TABLE_ROWS: list[dict[str, Any]] = [{"k": 0, "v": "x"}, {"k": 1, "v": None}, {"k": 1, "v": "y "}]


def assert_every_step_answers_alike(plan: Node, s: list[Row], t: list[Row]) -> None:
    check(plan)
    note(explain(plan))
    streams = {"s": s, "t": t}
    expected = as_multiset(answer(plan, streams, {"table": TABLE_ROWS}))
    for step in optimize(plan)[1:]:
        note(f"--- {step.rule}\n{explain(step.plan)}")
        check(step.plan)
        assert step.plan.schema == plan.schema
        assert as_multiset(answer(step.plan, streams, {"table": TABLE_ROWS})) == expected


@settings(max_examples=40)
@given(plans(), histories(S), histories(T))
def test_no_rule_changes_the_answer_of_a_plan(plan: Node, s: list[Row], t: list[Row]) -> None:
    assert_every_step_answers_alike(plan, s, t)


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
@settings(max_examples=40)
@given(st.data())
def test_filters_on_and_in_a_join_keep_its_answer(kind: JoinKind, data: st.DataObject) -> None:
    fresh = (f"n{i}" for i in count())
    plan = data.draw(_joins(Scan("s", S), Scan("t", T), fresh, kind))
    plan = replace(plan, residual=data.draw(st.none() | comparisons(plan.schema)))
    plan = Filter(plan, data.draw(comparisons(plan.schema)))
    assert_every_step_answers_alike(plan, data.draw(histories(S)), data.draw(histories(T)))


@pytest.mark.parametrize("mode", ["recent", "chronicle"])
@settings(max_examples=40)
@given(st.data())
def test_filters_on_and_in_a_sequence_keep_its_answer(mode: SequenceMode, data: st.DataObject) -> None:
    bare = data.draw(_sequences(mode))
    plan: Node = replace(bare, residual=data.draw(st.none() | comparisons(bare.schema)))
    plan = Filter(plan, data.draw(comparisons(plan.schema)))
    if data.draw(st.booleans()):
        plan = Project(plan, (("i", Column("i", Type.BIGINT)),))
    assert_every_step_answers_alike(plan, data.draw(histories(S)), data.draw(histories(T)))


@pytest.mark.parametrize("window", [Range, Sliding, Rows, Session, Landmark, Cumulative, While])
@settings(max_examples=30)
@given(st.data())
def test_filters_on_an_aggregate_keep_its_answer(window: type[Window], data: st.DataObject) -> None:
    fresh = (f"n{i}" for i in count())
    below: Node = Scan("s", S)
    if data.draw(st.booleans()):  # a derived stream, in which content breaks ties
        below = Union((below, Scan("s", S)))
    plan = data.draw(_aggregates(below, fresh, window))
    plan = Filter(plan, data.draw(comparisons(plan.schema)))
    assert_every_step_answers_alike(plan, data.draw(histories(S)), [])


@settings(max_examples=40)
@given(st.data())
def test_filters_on_distinct_and_table_joins_keep_their_answer(data: st.DataObject) -> None:
    below = data.draw(
        st.builds(Distinct, st.just(Scan("s", S)), st.integers(0, 3)) | _table_joins(Scan("s", S), iter(("k", "v")))
    )
    plan: Node = Filter(below, data.draw(comparisons(below.schema)))
    if data.draw(st.booleans()):
        plan = Project(plan, (("a", Column("a", Type.INT)),))
    assert_every_step_answers_alike(plan, data.draw(histories(S)), [])


@settings(max_examples=40)
@given(plans())
def test_the_rules_come_to_rest(plan: Node) -> None:
    steps = optimize(plan)
    note("\n".join(f"--- {step.rule}\n{explain(step.plan)}" for step in steps))
    assert all(rule(steps[-1].plan) == steps[-1].plan for rule in RULES)
    assert len(steps) < MAX_ROUNDS * len(RULES)


@settings(max_examples=80)
@given(st.data())
def test_folding_keeps_type_and_value_for_every_tuple(data: st.DataObject) -> None:
    schema = Schema.of(a=Type.INT, b=Type.BIGINT, c=Type.STRING, d=Type.DOUBLE, e=Type.BOOLEAN)
    expr = data.draw(
        predicates(schema, 3)
        | values(Type.BIGINT, schema, 3)
        | values(Type.DOUBLE, schema, 3)
        | values(Type.STRING, schema, 3)
    )
    row = {field.name: data.draw(VALUES[field.type]) for field in schema} | {TS: data.draw(st.integers(0, 12))}
    folded = fold(expr)
    assert folded.type is expr.type
    assert value_of(folded, row) == value_of(expr, row)


def assert_kept_parts_answer_alike(plan: Node, data: st.DataObject) -> None:
    """Filter somewhere in a plan, take some of its columns, and answer that with parts of the plan."""
    filtered = data.draw(st.sampled_from(list(walk(plan))))
    condition = data.draw(comparisons(filtered.schema))
    new = transform(plan, lambda node: Filter(node, condition) if node == filtered else node)
    names = data.draw(st.sets(st.sampled_from(new.schema.names), min_size=1))
    fields = [field for field in new.schema if field.name in names]
    new = Project(new, tuple((f"m{place}", Column(field.name, field.type)) for place, field in enumerate(fields)))
    old, new = best(plan), best(new)
    kept = keep(new, [old])
    event("kept" if kept != new else "not kept")
    note(f"{explain(old)}\n--- new\n{explain(new)}\n--- kept\n{explain(kept)}")
    check(kept)
    assert kept.schema == new.schema
    streams, tables = {"s": data.draw(histories(S)), "t": data.draw(histories(T))}, {"table": TABLE_ROWS}
    assert as_multiset(answer(kept, streams, tables)) == as_multiset(answer(new, streams, tables))


@settings(max_examples=40)
@given(plans(), st.data())
def test_a_plan_with_parts_of_an_old_one_gives_the_same_answer(plan: Node, data: st.DataObject) -> None:
    assert_kept_parts_answer_alike(plan, data)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.data())
def test_a_kept_join_gives_the_same_answer(kind: JoinKind, data: st.DataObject) -> None:
    fresh = (f"n{i}" for i in count())
    sides = [data.draw(st.just(side) | _projected(side, fresh)) for side in (Scan("s", S), Scan("t", T))]
    assert_kept_parts_answer_alike(data.draw(_joins(sides[0], sides[1], fresh, kind)), data)


@pytest.mark.parametrize("mode", ["recent", "chronicle"])
@settings(max_examples=40)
@given(st.data())
def test_a_kept_sequence_gives_the_same_answer(mode: SequenceMode, data: st.DataObject) -> None:
    bare = data.draw(_sequences(mode))
    assert_kept_parts_answer_alike(replace(bare, residual=data.draw(st.none() | comparisons(bare.schema))), data)


@pytest.mark.parametrize("window", [Range, Sliding, Rows, Session, Landmark, While])
@settings(max_examples=30)
@given(st.data())
def test_a_kept_aggregate_gives_the_same_answer(window: type[Window], data: st.DataObject) -> None:
    fresh = (f"n{i}" for i in count())
    below: Node = Scan("s", S)
    if data.draw(st.booleans()):  # a derived stream, in which content breaks ties
        below = Union((below, Scan("s", S)))
    assert_kept_parts_answer_alike(data.draw(_aggregates(below, fresh, window)), data)


@st.composite
def _sequences(draw: st.DrawFn, mode: SequenceMode) -> SequenceJoin:
    left: Node = Scan("s", S)
    right: Node = Scan("t", T)
    if draw(st.booleans()):  # derived streams, in which content breaks ties
        left = Union((left, left))
    if draw(st.booleans()):
        right = Union((right, right))
    pairs = [(Column("a", Type.INT), Column("d", Type.INT)), (Column("c", Type.STRING), Column("e", Type.STRING))]
    keys = tuple(draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)))
    inclusive, span, padded = draw(st.booleans()), draw(st.none() | st.integers(0, 5)), draw(st.booleans())
    return SequenceJoin(left, right, mode, inclusive, keys, None, span, ("g", "h", "i"), padded=padded)


@st.composite
def _projected(draw: st.DrawFn, below: Node, fresh: Iterator[str]) -> Node:
    return Project(below, tuple((next(fresh), draw(values(field.type, below.schema, 1))) for field in below.schema))
