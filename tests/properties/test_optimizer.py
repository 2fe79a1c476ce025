"""Every rule keeps every answer: random plans over random streams, before and after, by the oracle."""

from __future__ import annotations

from itertools import count

from hypothesis import given, note, settings
from hypothesis import strategies as st

from headrace.elements.expression import FALSE, TRUE, Call, Case, Column, Expr, Literal
from headrace.elements.schema import TS, Schema
from headrace.elements.types import Type
from headrace.elements.window import AggregateCall, Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.optimizer.folding import fold
from headrace.optimizer.optimizer import MOST_ROUNDS, RULES, optimize
from headrace.plan.check import check
from headrace.plan.explain import explain
from headrace.plan.nodes import Aggregate, Distinct, Filter, Join, Node, Order, Project, Scan, TableJoin, Union
from headrace.testing.oracle import Row, answer, as_multiset
from headrace.testing.oracle_expressions import value_of

S = Schema.of(a=Type.INT, b=Type.INT, c=Type.STRING)
T = Schema.of(d=Type.INT, e=Type.STRING, f=Type.BIGINT)
TABLE = Schema.of(k=Type.INT, v=Type.STRING)

VALUES = {
    Type.INT: st.none() | st.integers(0, 2),
    Type.BIGINT: st.none() | st.integers(0, 3) | st.just(2**63 - 1),
    Type.STRING: st.none() | st.sampled_from(["", "x", "y "]),
    Type.TIMESTAMP: st.none() | st.integers(0, 12),
    Type.DOUBLE: st.none() | st.sampled_from([0.0, 0.5, -2.0]),
    Type.BOOLEAN: st.none() | st.booleans(),
}


@st.composite
def values(draw: st.DrawFn, type_: Type, schema: Schema, depth: int = 2) -> Expr:
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
            return Call(draw(st.sampled_from(["+", "-", "*", "/", "%"])), (draw(real), draw(real | values(Type.INT, schema, 0))), type_)
        case _ if type_ is Type.STRING:
            return Call(draw(st.sampled_from(["upper", "trim", "reverse"])), (draw(part),), type_)
        case _:
            return leaf


@st.composite
def predicates(draw: st.DrawFn, schema: Schema, depth: int = 2) -> Expr:
    kind = draw(st.sampled_from(["compare", "compare", "compare", "ts", "literal", "and", "and", "or", "not", "is_null", "in"]))
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
            return Call(draw(st.sampled_from(["<", ">="])), (Column(TS, Type.BIGINT), Literal(draw(st.integers(0, 12)), Type.BIGINT)), Type.BOOLEAN)
        case "is_null":
            return Call("is_null", (draw(value),), Type.BOOLEAN)
        case "in":
            return Call("in", (draw(value), draw(value), draw(value)), Type.BOOLEAN)
        case _:
            return Call(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])), (draw(value), draw(value)), Type.BOOLEAN)


@st.composite
def plans(draw: st.DrawFn, depth: int = 4) -> Node:
    fresh = (f"n{i}" for i in count())
    plan = draw(_plans(depth, fresh))
    narrow = draw(st.none() | st.sets(st.sampled_from(plan.schema.names), min_size=1))
    if narrow is not None:  # leaves something to prune
        plan = Project(plan, tuple((field.name, Column(field.name, field.type)) for field in plan.schema if field.name in narrow))
    return plan


@st.composite
def _plans(draw: st.DrawFn, depth: int, fresh: object) -> Node:
    if depth == 0:
        return draw(st.sampled_from([Scan("s", S), Scan("t", T)]))
    below = draw(_plans(depth - 1, fresh))
    schema = below.schema
    kinds = ["filter", "filter", "filter", "project", "project", "union", "order", "distinct", "aggregate", "aggregate", "table", "join", "join"]
    match draw(st.sampled_from(kinds)):
        case "filter":
            return Filter(below, draw(predicates(schema)))
        case "project":
            types = draw(st.lists(st.sampled_from([field.type for field in schema]), min_size=1, max_size=3))
            return Project(below, tuple((next(fresh), draw(values(type_, schema))) for type_ in types))
        case "union":
            other = draw(_plans(depth - 1, fresh))
            return Union((below, Project(other, tuple((field.name, draw(values(field.type, other.schema, 0))) for field in schema))))
        case "order":
            return Order(below)
        case "distinct":
            return Distinct(below, draw(st.integers(0, 5)))
        case "aggregate":
            return draw(_aggregates(below, fresh))
        case "table":
            keys = ((draw(values(Type.INT, schema, 0)), "k"),) if draw(st.booleans()) else ()
            join = TableJoin(below, "table", TABLE, draw(st.sampled_from(["inner", "left"])), keys, None, (next(fresh), next(fresh)))
            return TableJoin(join.input, "table", TABLE, join.kind, keys, draw(st.none() | predicates(join.schema)), join.table_names)
        case _:
            return draw(_joins(below, draw(_plans(draw(st.integers(0, depth - 1)), fresh)), fresh))


@st.composite
def _aggregates(draw: st.DrawFn, below: Node, fresh: object) -> Node:
    schema = below.schema
    fields = draw(st.lists(st.sampled_from(schema.fields), max_size=2))
    keys = tuple((next(fresh), draw(st.just(Column(field.name, field.type)) | values(field.type, schema, 1))) for field in fields)
    by = tuple(expr for _, expr in keys if draw(st.booleans()))
    windows: st.SearchStrategy[Window] = st.one_of(
        st.builds(Range, st.integers(1, 5), st.integers(1, 5)),
        st.builds(Sliding, st.none() | st.integers(0, 5)),
        st.builds(Rows, st.integers(1, 3), st.integers(1, 3), st.just(by)),
        st.builds(Session, st.integers(1, 4)),
        st.builds(Landmark, st.none() | st.integers(0, 4), st.integers(1, 4)),
        st.builds(While, predicates(schema, 1), st.just(by)),
    )
    calls = []
    for function in draw(st.lists(st.sampled_from(["count", "max", "first", "last"]), max_size=2)):
        field = draw(st.sampled_from(schema.fields))
        arg = Column(field.name, field.type)
        calls.append(AggregateCall(next(fresh), function, arg, Type.BIGINT if function == "count" else field.type))
    plan = Aggregate(below, draw(windows), keys, tuple(calls))
    # The bounds are called alike in every aggregate, so they get new names before a join meets them.
    return Project(plan, tuple((next(fresh), Column(field.name, field.type)) for field in plan.schema)) if draw(st.booleans()) else _renamed(plan, fresh)


def _renamed(plan: Node, fresh: object) -> Node:
    bounds = {"window_start": next(fresh), "window_end": next(fresh)}
    return Project(plan, tuple((bounds.get(field.name, field.name), Column(field.name, field.type)) for field in plan.schema))


@st.composite
def _joins(draw: st.DrawFn, left: Node, right: Node, fresh: object) -> Node:
    types = sorted({field.type for field in left.schema} & {field.type for field in right.schema}, key=lambda type_: type_.value)
    keys = ()
    if types and draw(st.booleans()):
        type_ = draw(st.sampled_from(types))
        keys = ((draw(values(type_, left.schema, 0)), draw(values(type_, right.schema, 0))),)
    extents = tuple(draw(_extents(side)) for side in (left, right))
    names = tuple(next(fresh) for _ in right.schema)
    kind = draw(st.sampled_from(["inner", "inner", "left", "right", "full"]))
    bare = Join(left, right, kind, keys, None, *extents, names)
    return Join(left, right, kind, keys, draw(st.none() | predicates(bare.schema)), *extents, names)


@st.composite
def _extents(draw: st.DrawFn, side: Node) -> Extent | None:
    source = side
    while isinstance(source, Filter | Project):
        source = source.input
    if isinstance(source, Join) and draw(st.booleans()):
        return None
    by = tuple(Column(field.name, field.type) for field in draw(st.lists(st.sampled_from(side.schema.fields), max_size=1)))
    return draw(st.builds(Extent, span=st.none() | st.integers(0, 5)) | st.builds(Extent, rows=st.integers(1, 2), by=st.just(by)))


@st.composite
def histories(draw: st.DrawFn, schema: Schema) -> list[Row]:
    times = sorted(draw(st.lists(st.integers(0, 12), max_size=5)))
    return [Row(ts, {field.name: draw(VALUES[field.type]) for field in schema}) for ts in times]


TABLE_ROWS = [{"k": 0, "v": "x"}, {"k": 1, "v": None}, {"k": 1, "v": "y "}]


@settings(max_examples=300)
@given(plans(), histories(S), histories(T))
def test_no_rule_changes_the_answer_of_a_plan(plan: Node, s: list[Row], t: list[Row]) -> None:
    check(plan)
    note(explain(plan))
    streams = {"s": s, "t": t}
    expected = as_multiset(answer(plan, streams, {"table": TABLE_ROWS}))
    for step in optimize(plan)[1:]:
        note(f"--- {step.rule}\n{explain(step.plan)}")
        check(step.plan)
        assert step.plan.schema == plan.schema
        assert as_multiset(answer(step.plan, streams, {"table": TABLE_ROWS})) == expected


@settings(max_examples=150)
@given(plans())
def test_the_rules_come_to_rest(plan: Node) -> None:
    steps = optimize(plan)
    note("\n".join(f"--- {step.rule}\n{explain(step.plan)}" for step in steps))
    assert all(rule(steps[-1].plan) == steps[-1].plan for rule in RULES)
    assert len(steps) < MOST_ROUNDS * len(RULES)


@settings(max_examples=300)
@given(st.data())
def test_folding_keeps_type_and_value_for_every_tuple(data: st.DataObject) -> None:
    schema = Schema.of(a=Type.INT, b=Type.BIGINT, c=Type.STRING, d=Type.DOUBLE, e=Type.BOOLEAN)
    expr = data.draw(predicates(schema, 3) | values(Type.BIGINT, schema, 3) | values(Type.DOUBLE, schema, 3) | values(Type.STRING, schema, 3))
    row = {field.name: data.draw(VALUES[field.type]) for field in schema} | {TS: data.draw(st.integers(0, 12))}
    folded = fold(expr)
    assert folded.type is expr.type
    assert value_of(folded, row) == value_of(expr, row)
