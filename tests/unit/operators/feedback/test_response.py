"""What each operator passes on, to the letter; that it is safe is proved by brute force elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.patterns.match import Between, IsNull, at_least, at_most, equal, less, more, unequal
from headrace.model.patterns.pattern import ALL_TUPLES, STAMP, Pattern, pattern
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Cumulative, Extent, Landmark, Panes, Range, Rows, Session
from headrace.operators import specs
from headrace.operators.feedback.invariants import NO_INVARIANTS, Invariants, in_time, invariants_after, until
from headrace.operators.feedback.response import Response, respond
from headrace.operators.feedback.time_columns import Clock
from headrace.operators.windows.pane_times import PANE

G, V = Column("g", Type.BIGINT), Column("v", Type.INT)
N, END, START = Column("n", Type.BIGINT), Column("window_end", Type.TIMESTAMP), Column("window_start", Type.TIMESTAMP)
P = Column(PANE, Type.BIGINT)
IN_G = pattern((G, equal(1)))
TRUE = Literal(True, Type.BOOLEAN)
NOT_NULL = Invariants(
    pattern(
        (V, at_least(0)),
        (Column("__a0_max", Type.INT), at_least(0)),
        (Column("__a0_sum_Int64", Type.BIGINT), at_least(0)),
    )
)


def answer(spec: Any, wanted: Pattern, invariants: Invariants = NO_INVARIANTS) -> Response:
    return respond(spec, wanted, (invariants, invariants))


@pytest.mark.parametrize(
    "spec", [specs.Filter(TRUE), specs.Reorder((), ()), specs.Output("q"), specs.Exchange("x")], ids=str
)
def test_what_changes_no_tuple_passes_the_pattern_on(spec: Any) -> None:
    assert answer(spec, IN_G) == Response((IN_G,))


def test_sources_have_nobody_to_tell() -> None:
    assert answer(specs.Scan("s", ("g",)), IN_G) == Response(())
    assert answer(specs.Receive("o", ("s",), None), IN_G) == Response(())


@pytest.mark.parametrize("spec", [specs.Union(2), specs.OrderedUnion(2)], ids=str)
def test_a_union_tells_all(spec: Any) -> None:
    assert answer(spec, IN_G) == Response((IN_G, IN_G))


def test_a_projection_renames_and_inverts() -> None:
    columns = (
        ("a", G),
        ("n", Call("neg", (V,), Type.BIGINT)),
        ("c", Literal("x", Type.STRING)),
        ("s", Call("*", (V, V), Type.BIGINT)),
    )
    spec = specs.Project(columns)
    assert answer(spec, pattern((Column("a", Type.BIGINT), equal(1)), (STAMP, less(5)))) == Response(
        (pattern((G, equal(1)), (STAMP, less(5))),)
    )
    assert answer(spec, pattern((N, at_least(-1)))) == Response((pattern((V, at_most(1))),))
    assert answer(spec, pattern((Column("c", Type.STRING), equal("x")))) == Response((ALL_TUPLES,))
    assert answer(spec, pattern((Column("c", Type.STRING), equal("y")))) == Response((None,))
    assert answer(spec, pattern((Column("s", Type.BIGINT), equal(1)))) == Response((None,))
    p, two = Column("p", Type.BIGINT), Literal(2, Type.INT)
    assert answer(specs.Project((("p", Call("+", (V, two), Type.BIGINT)),)), pattern((p, less(5)))).inputs == (
        pattern((V, less(3))),
    )
    assert answer(specs.Project((("p", Call("+", (G, two), Type.BIGINT)),)), pattern((p, less(5)))).inputs == (
        None,
    )  # it might wrap around


def test_distinct_keeps_what_may_hide_a_later_tuple() -> None:
    spec = specs.Distinct((G,), 10)
    assert answer(spec, IN_G) == Response((IN_G,))
    assert answer(spec, pattern((STAMP, less(100)), (G, equal(1)))) == Response(
        (pattern((STAMP, less(90)), (G, equal(1))),)
    )
    assert answer(spec, pattern((STAMP, at_least(100)))) == Response((pattern((STAMP, at_least(100))),))
    assert answer(spec, pattern((STAMP, unequal(3)))) == Response((None,))


def panes(window: Panes, *functions: str) -> specs.PaneAggregate:
    types = {"avg": Type.DOUBLE, "max": Type.INT, "min": Type.INT}
    calls = tuple(
        AggregateCall("n" if i == 0 else f"n{i}", name, V, types.get(name, Type.BIGINT))
        for i, name in enumerate(functions)
    )
    return specs.PaneAggregate(window, (("g", G),), calls)


TUMBLING = Range(10, 10)


def test_a_group_is_given_up() -> None:
    for function in ("count", "sum", "avg", "min", "max"):
        assert answer(panes(TUMBLING, function), IN_G) == Response((IN_G,))
    raw = specs.PartialAggregate(TUMBLING, (("g", Column("segment", Type.BIGINT)),), panes(TUMBLING, "count").calls)
    assert answer(raw, IN_G) == Response((pattern((Column("segment", Type.BIGINT), equal(1))),))


@pytest.mark.parametrize(
    ("window", "term", "expected"),
    [
        (Range(10, 10), (END, equal(20)), (P, Between(10, 10))),
        (Range(10, 10), (START, equal(10)), (P, Between(10, 10))),
        (Range(10, 10), (END, at_most(25)), (P, at_most(10))),
        (Range(10, 10), (STAMP, more(20)), (P, at_least(20))),
        (Range(15, 10), (END, equal(15)), (P, Between(5, 5))),  # w = 0: [(0 - 1) * 10 + 15, (0 + 1) * 10)
        (Range(20, 10), (END, equal(20)), None),  # empty unless size < 2 * slide
        (Range(20, 10), (END, Between(20, 30)), (P, Between(10, 10))),
        (Range(20, 10), (END, at_most(20)), (P, at_most(0))),  # ts < (w + 1) * s
        (Range(20, 10), (END, unequal(20)), None),
        (Range(10, 10, 3), (END, equal(23)), (P, Between(13, 13))),
        (Range(15, 10, 3), (END, at_most(40)), (P, at_most(28))),
        (Cumulative(30, 10, 4), (END, at_most(70)), (P, at_most(54))),  # its period ends at 64
        (Landmark(None, 10), (END, at_most(20)), None),
        (Landmark(None, 10), (END, at_least(20)), (P, at_least(10))),
        (Cumulative(30, 10), (END, at_least(50)), (P, at_least(40))),
        (Cumulative(30, 10), (END, at_most(70)), (P, at_most(50))),  # its period ends at 60
        (Cumulative(30, 10), (END, Between(40, 59)), None),  # each of its panes is in the window that ends at 60
    ],
    ids=str,
)
def test_windows_give_up_the_tuples_that_are_in_no_other(window: Any, term: Any, expected: Any) -> None:
    assert answer(panes(window, "count"), pattern(term, (G, equal(1)))).inputs == (
        None if expected is None else pattern(expected, (G, equal(1))),
    )


def test_panes_are_times() -> None:
    raw = specs.PartialAggregate(Range(5, 5), (("g", G),), ())
    assert answer(raw, pattern((P, Between(5, 10, open_high=True)))).inputs == (
        pattern((STAMP, Between(5, 10, open_high=True))),
    )
    assert answer(raw, pattern((P, at_most(7)))).inputs == (pattern((STAMP, less(10))),)
    assert answer(raw, pattern((P, at_least(7)))).inputs == (pattern((STAMP, at_least(10))),)


@pytest.mark.parametrize(
    ("function", "match", "invariants", "watch"),
    [
        ("count", at_least(2), NO_INVARIANTS, True),
        ("count", more(2), NO_INVARIANTS, True),
        ("count", equal(2), NO_INVARIANTS, False),
        ("count", at_most(2), NO_INVARIANTS, False),
        ("sum", at_least(2), NO_INVARIANTS, False),
        ("sum", at_least(2), NOT_NULL, True),
        ("avg", at_least(2), NOT_NULL, False),
        ("max", at_least(2), NO_INVARIANTS, True),
        ("max", equal(2), NO_INVARIANTS, False),
        ("min", at_most(2), NO_INVARIANTS, True),
        ("min", at_least(2), NO_INVARIANTS, False),
    ],
    ids=str,
)
def test_values_that_can_only_get_there_are_watched(
    function: str, match: Any, invariants: Invariants, watch: bool
) -> None:
    wanted = pattern((N, match))
    assert answer(panes(TUMBLING, function), wanted, invariants) == Response((None,), watch)
    assert answer(panes(Range(20, 10), function), wanted, invariants) == Response((None,))
    assert answer(panes(Landmark(None, 10), function), wanted, invariants) == Response((None,))


def test_values_below_a_maximum_do_not_count() -> None:
    wanted, part = pattern((Column("n", Type.INT), at_most(2))), Column("__a0_max", Type.INT)
    assert answer(panes(TUMBLING, "max"), wanted, NOT_NULL).inputs == (pattern((part, at_most(2))),)
    assert answer(panes(TUMBLING, "max"), wanted).inputs == (None,)  # one may be NULL
    assert answer(panes(TUMBLING, "max", "count"), wanted, NOT_NULL).inputs == (None,)  # they count there
    raw = specs.PartialAggregate(TUMBLING, (("g", G),), panes(TUMBLING, "max").calls)
    assert answer(raw, pattern((part, at_most(2))), NOT_NULL).inputs == (pattern((V, at_most(2))),)


def test_other_windows_give_up_partitions() -> None:
    calls = (AggregateCall("n", "count", None, Type.BIGINT),)
    session = specs.SessionAggregate(Session(5), (("g", G), ("w", V)), calls)
    assert answer(session, IN_G).inputs == (IN_G,)
    assert answer(session, pattern((STAMP, less(5)))).inputs == (None,)
    rows = specs.RowsAggregate(Rows(2, 1, (G,)), (("g", G), ("w", V)), calls)
    assert answer(rows, IN_G).inputs == (IN_G,)
    assert answer(rows, pattern((Column("w", Type.INT), equal(1)))).inputs == (None,)


L, J, K, R = Column("l", Type.INT), Column("j", Type.INT), Column("k", Type.INT), Column("r", Type.INT)


def join(kind: Any, span: int | None = 10) -> specs.Join:
    left, right = Schema.of(l=Type.INT, j=Type.INT), Schema.of(k=Type.INT, r=Type.INT)
    return specs.Join(kind, left, right, ("rk", "rr"), ((J, K),), None, Extent(span), Extent(span), False)


RK, RR = Column("rk", Type.INT), Column("rr", Type.INT)


@pytest.mark.parametrize(
    ("kind", "wanted", "expected"),
    [
        ("inner", pattern((J, equal(1))), (pattern((J, equal(1))), pattern((K, equal(1))))),
        ("inner", pattern((RK, equal(1))), (pattern((J, equal(1))), pattern((K, equal(1))))),
        ("inner", pattern((L, equal(1))), (pattern((L, equal(1))), None)),
        ("inner", pattern((RR, equal(1))), (None, pattern((R, equal(1))))),
        ("inner", pattern((L, equal(1)), (RR, equal(1))), (None, None)),
        ("inner", pattern((L, equal(1)), (J, equal(1))), (pattern((L, equal(1)), (J, equal(1))), None)),
        ("inner", pattern((J, equal(1)), (RR, equal(1))), (None, pattern((K, equal(1)), (R, equal(1))))),
        ("inner", pattern((L, equal(1)), (J, equal(1)), (RR, equal(1))), (None, None)),
        ("inner", pattern((L, equal(1)), (STAMP, less(100))), (pattern((L, equal(1)), (STAMP, less(90))), None)),
        ("left", pattern((J, equal(1))), (pattern((J, equal(1))), pattern((K, equal(1))))),
        ("left", pattern((L, equal(1)), (J, equal(1))), (pattern((L, equal(1)), (J, equal(1))), None)),
        ("left", pattern((RR, equal(1))), (None, None)),
        ("left", pattern((RK, equal(1))), (None, None)),
        ("right", pattern((RK, equal(1))), (pattern((J, equal(1))), pattern((K, equal(1))))),
        ("right", pattern((RR, equal(1))), (None, pattern((R, equal(1))))),
        ("right", pattern((L, equal(1))), (None, None)),
        ("full", pattern((J, equal(1))), (None, None)),
        ("full", pattern((L, equal(1))), (None, None)),
    ],
    ids=str,
)
def test_joins(kind: str, wanted: Pattern, expected: Any) -> None:
    assert answer(join(kind), wanted).inputs == expected


def test_an_endless_join_sees_no_end() -> None:
    assert answer(join("inner", None), pattern((STAMP, less(100)))).inputs == (None, None)
    assert answer(join("inner", None), pattern((STAMP, at_least(100)))).inputs == (pattern((STAMP, at_least(100))),) * 2


def test_facts_follow_the_graph() -> None:
    present = Call("not", (Call("is_null", (G,), Type.BOOLEAN),), Type.BOOLEAN)
    predicate = Call("and", (Call(">=", (V, Literal(0, Type.INT)), Type.BOOLEAN), present), Type.BOOLEAN)
    known = invariants_after(specs.Filter(predicate), (Invariants(clocks=(Clock("at", 0, 0),)),))
    assert known == Invariants(pattern((V, at_least(0)), (G, Between())), (Clock("at", 0, 0),))
    spec = panes(TUMBLING, "max")
    partials = invariants_after(specs.PartialAggregate(TUMBLING, spec.keys, spec.calls), (known,))
    assert partials.holds.get("__a0_max") == at_least(0)
    assert partials.clocks == (Clock(PANE, 0, 9),)
    results = invariants_after(spec, (partials,))
    assert results == Invariants(pattern((G, Between())), (Clock("window_end", 0, 0), Clock("window_start", 10, 10)))
    assert until(pattern((START, less(20))), results) == 30
    assert until(pattern((P, equal(10))), partials) == 20
    assert until(pattern((G, equal(1))), results) is None
    assert until(pattern((STAMP, at_least(1))), results) is None
    assert in_time(pattern((START, less(20)), (G, IsNull())), results) == pattern((STAMP, less(30)), (G, IsNull()))
