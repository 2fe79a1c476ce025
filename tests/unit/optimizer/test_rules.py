"""What the rules must leave alone, one trap a test."""

from __future__ import annotations

import pytest

from headrace.model.expressions.expression import FALSE, Call, Column, Expr, Literal
from headrace.model.schema import TS, Schema
from headrace.model.types import Type
from headrace.model.window import Extent, Range
from headrace.optimizer.optimizer import best, optimize
from headrace.optimizer.rules.push_down_filters import push_down_filters
from headrace.optimizer.rules.push_down_projections import push_down_projections
from headrace.plan.explain import explain
from headrace.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Order,
    Project,
    Scan,
    SequenceJoin,
    SequenceMode,
    Union,
)

S = Scan("s", Schema.of(a=Type.INT, b=Type.INT))
T = Scan("t", Schema.of(a=Type.INT, b=Type.INT))
A, B = Column("a", Type.INT), Column("b", Type.INT)


def positive(name: str) -> Expr:
    type_ = Type.BIGINT if name == TS else Type.INT
    return Call(">", (Column(name, type_), Literal(0, type_)), Type.BOOLEAN)


def both(one: Expr, other: Expr) -> Expr:
    return Call("and", (one, other), Type.BOOLEAN)


def join(kind: JoinKind, residual: Expr | None = None, *, left: Extent | None = None) -> Join:
    return Join(S, T, kind, ((A, A),), residual, left or Extent(span=9), Extent(span=9), ("c", "d"))


def test_a_filter_on_time_stays_above_distinct() -> None:
    plan = Filter(Distinct(S, 5), both(positive(TS), positive("a")))
    assert push_down_filters(plan) == Filter(Distinct(Filter(S, positive("a")), 5), positive(TS))


def test_a_filter_on_time_stays_above_an_aggregate_and_a_join() -> None:
    for node in (Aggregate(S, Range(5, 5), (("a", A),), ()), join("inner")):
        assert push_down_filters(Filter(node, positive(TS))) == Filter(node, positive(TS))


def test_a_filter_on_time_goes_through_union_and_order() -> None:
    plan = Filter(Order(Union((S, T))), positive(TS))
    assert push_down_filters(plan) == Order(Union((Filter(S, positive(TS)), Filter(T, positive(TS)))))


@pytest.mark.parametrize(
    ("kind", "above", "within"),
    [("inner", {"a", "c"}, {"a", "c"}), ("left", {"a"}, {"c"}), ("right", {"c"}, {"a"}), ("full", set(), set())],
)
def test_a_join_lets_terms_down_only_where_no_padded_row_depends_on_them(
    kind: JoinKind, above: set[str], within: set[str]
) -> None:
    for name in ("a", "c"):
        on_top = push_down_filters(Filter(join(kind), positive(name)))
        assert isinstance(on_top, Join) == (name in above)
        inside = push_down_filters(join(kind, positive(name)))
        assert isinstance(inside, Join)
        assert (inside.residual is None) == (name in within)


def test_a_window_of_the_last_rows_sees_all_rows() -> None:
    plan = Filter(join("inner", positive("b"), left=Extent(rows=2)), positive("a"))
    assert push_down_filters(plan) == plan


@pytest.mark.parametrize(("below", "kept"), [(Union((S, T)), ("a", "b")), (Filter(S, positive("a")), ("a",))])
def test_order_keeps_whole_tuples_unless_arrival_breaks_ties(below: Node, kept: tuple[str, ...]) -> None:
    narrowed = push_down_projections(Project(Order(below), (("a", A),)))
    assert isinstance(narrowed, Project)
    assert narrowed.input.schema.names == kept


def test_a_filter_that_is_never_true_goes_to_the_streams() -> None:
    assert explain(best(Filter(Union((S, T)), FALSE))).splitlines() == [
        "Union",
        "  Filter FALSE",
        "    Scan s (a, b)",
        "  Filter FALSE",
        "    Scan t (a, b)",
    ]


def test_the_steps_begin_with_the_plan_and_name_their_rules() -> None:
    plan = Filter(Filter(S, positive("a")), positive("b"))
    assert [(step.rule, explain(step.plan).splitlines()[0]) for step in optimize(plan)] == [
        ("input", "Filter b > 0"),
        ("merge_filters", "Filter a > 0 AND b > 0"),
    ]


def sequence(mode: SequenceMode, residual: Expr | None = None) -> SequenceJoin:
    return SequenceJoin(S, T, mode, False, ((A, A),), residual, 9, ("c", "d"))


@pytest.mark.parametrize(
    ("mode", "name", "goes"),
    [
        ("recent", "b", False),
        ("recent", "d", True),
        ("recent", TS, True),
        ("chronicle", "b", False),
        ("chronicle", "d", False),
        ("chronicle", TS, False),
    ],
)
def test_a_filter_on_pairs_goes_below_a_sequence_only_if_it_takes_no_partner_from_others(
    mode: SequenceMode, name: str, goes: bool
) -> None:
    pushed = push_down_filters(Filter(sequence(mode), positive(name)))
    if goes:
        assert pushed == SequenceJoin(
            S, Filter(T, positive(name.replace("d", "b"))), mode, False, ((A, A),), None, 9, ("c", "d")
        )
    else:
        assert pushed == Filter(sequence(mode), positive(name))


@pytest.mark.parametrize("mode", ["recent", "chronicle"])
@pytest.mark.parametrize("name", ["a", "c"])
def test_a_filter_on_a_key_goes_to_both_sides_of_a_sequence(mode: SequenceMode, name: str) -> None:
    pushed = push_down_filters(Filter(sequence(mode), positive(name)))
    assert pushed == SequenceJoin(
        Filter(S, positive("a")), Filter(T, positive("a")), mode, False, ((A, A),), None, 9, ("c", "d")
    )


@pytest.mark.parametrize("mode", ["recent", "chronicle"])
def test_what_a_match_asks_of_one_side_goes_there_but_not_the_pair_s_time_to_the_left(mode: SequenceMode) -> None:
    either = Call("<", (Column("b", Type.INT), Column("d", Type.INT)), Type.BOOLEAN)
    timed = Call("<", (Column("b", Type.INT), Column(TS, Type.BIGINT)), Type.BOOLEAN)
    residual = both(both(both(positive("b"), positive("d")), either), timed)
    pushed = push_down_filters(sequence(mode, residual))
    assert pushed == SequenceJoin(
        Filter(S, positive("b")), Filter(T, positive("b")), mode, False, ((A, A),), both(either, timed), 9, ("c", "d")
    )


def test_equal_floats_are_not_the_same_so_their_filter_stays_above_a_sequence() -> None:
    x = Column("x", Type.DOUBLE)
    s, t = Scan("s", Schema.of(x=Type.DOUBLE)), Scan("t", Schema.of(x=Type.DOUBLE))
    plan = Filter(
        SequenceJoin(s, t, "chronicle", False, ((x, x),), None, 9, ("y",)), Call("is_null", (x,), Type.BOOLEAN)
    )
    assert push_down_filters(plan) == plan


@pytest.mark.parametrize(("mode", "right_width"), [("recent", 1), ("chronicle", 2)])
def test_a_sequence_of_derived_streams_keeps_the_columns_that_break_ties(mode: SequenceMode, right_width: int) -> None:
    node = SequenceJoin(Union((S, S)), Union((T, T)), mode, False, ((A, A),), None, 9, ("c", "d"))
    plan = push_down_projections(Project(node, (("c", Column("c", Type.INT)),)))
    assert isinstance(plan, Project)
    assert isinstance(plan.input, SequenceJoin)
    assert (len(plan.input.left.schema), len(plan.input.right.schema)) == (2, right_width)
