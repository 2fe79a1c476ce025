"""Cases computed by hand for every node, window and aggregate."""

from __future__ import annotations

import datetime as dt
import math
import sys
import types
from collections import Counter
from typing import Any

import duckdb
import pytest

from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Literal
from headrace.model.expressions.functions import AGGREGATES, COMPUTED_BY, FUNCTIONS
from headrace.model.schema import Schema
from headrace.model.time import DAY, HOUR, MINUTE, SECOND
from headrace.model.types import DataType, Type
from headrace.model.window import AggregateCall, Extent, Landmark, Range, Rows, Session, Sliding, While
from headrace.plan.nodes import Aggregate, Distinct, Filter, Join, Order, Project, Scan, TableJoin, Union
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.functions import SCALARS
from headrace.testing.oracle.oracle import Row, answer, as_multiset, plain, split_late

B, L, D, S, T = Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP
NUMBERS = Schema.of(k=S, v=L)


def col(name: str, type_: DataType = L) -> Column:
    return Column(name, type_)


def lit(value: bool | int | float | str | None) -> Literal:
    types = {bool: B, int: L, float: D, str: S, type(None): Type.NULL}
    return Literal(value, types[type(value)])


def call(function: str, *args: Expr) -> Call:
    type_ = FUNCTIONS[function].typing([arg.type for arg in args])
    assert type_ is not None
    return Call(function, args, type_)


def rows(*items: tuple[int, str | None, int | None]) -> list[Row]:
    return [Row(ts, {"k": k, "v": v}) for ts, k, v in items]


BY_K = (("k", col("k", S)),)


def agg(window, *functions: str, keys=BY_K) -> Aggregate:
    calls = tuple(AggregateCall(f, f, None if f == "n" else col("v"), L) for f in functions if f != "n")
    count = tuple(AggregateCall("n", "count", None, L) for f in functions if f == "n")
    return Aggregate(Scan("s", NUMBERS), window, keys, count + calls)


def results(plan, history, *names: str):
    return [(row.ts, *(row.values[name] for name in names)) for row in answer(plan, {"s": history})]


# windows --------------------------------------------------------------------------------------------------------------


def test_tumbling_window_is_half_open_and_stamped_with_its_end():
    history = rows((0, "a", 1), (9, "a", 2), (10, "a", 4), (31, "b", None))
    plan = agg(Range(10, 10), "n", "sum")
    assert results(plan, history, "k", "n", "sum", "window_start", "window_end") == [
        (10, "a", 2, 3, 0, 10),
        (20, "a", 1, 4, 10, 20),
        (40, "b", 1, None, 30, 40),
    ]


def test_hopping_window_counts_a_tuple_in_every_window_that_holds_it():
    history = rows((-1, "a", 1), (7, "a", 1))
    assert results(agg(Range(10, 5), "n"), history, "n", "window_start") == [
        (0, 1, -10),
        (5, 1, -5),
        (10, 1, 0),
        (15, 1, 5),
    ]


def test_window_with_gaps_drops_tuples_between_windows():
    assert results(agg(Range(3, 10), "n"), rows((0, "a", 1), (2, "a", 1), (3, "a", 1), (12, "a", 1)), "n") == [
        (3, 2),
        (13, 1),
    ]


def test_sliding_window_gives_one_result_per_tuple_of_its_group():
    history = rows((1, "a", 1), (2, "b", 10), (4, "a", 2), (4, "a", 3), (8, "a", 4))
    assert results(agg(Sliding(4), "sum"), history, "k", "sum", "window_start", "window_end") == [
        (1, "a", 1, 1, 1),
        (2, "b", 10, 2, 2),
        (4, "a", 3, 1, 4),
        (4, "a", 6, 1, 4),
        (8, "a", 9, 4, 8),
    ]


def test_unbounded_sliding_window_holds_everything_so_far():
    assert results(agg(Sliding(None), "sum", keys=()), rows((5, "a", 1), (3, "b", 2), (9, "a", 4)), "sum") == [
        (3, 2),
        (5, 3),
        (9, 7),
    ]


def test_rows_window_counts_in_timestamp_order_and_groups_inside():
    history = rows((5, "a", 5), (1, "a", 1), (2, "b", 2), (3, "a", 3), (4, "b", 4))
    plan = agg(Rows(3, 2), "n", "sum")
    assert results(plan, history, "k", "n", "sum", "window_start", "window_end") == [
        (3, "a", 2, 4, 1, 3),
        (3, "b", 1, 2, 1, 3),
        (5, "a", 2, 8, 3, 5),
        (5, "b", 1, 4, 3, 5),
    ]


def test_partitioned_rows_window_counts_within_each_partition():
    history = rows((1, "a", 1), (2, "b", 2), (3, "a", 3), (4, "b", 4), (5, "a", 5))
    assert results(agg(Rows(2, 1, (col("k", S),)), "sum", keys=()), history, "sum") == [(3, 4), (4, 6), (5, 8)]


def test_session_breaks_when_the_gap_is_reached():
    history = rows((0, "a", 1), (4, "a", 2), (9, "a", 4), (3, "b", 8))
    assert results(agg(Session(5), "sum"), history, "k", "sum", "window_start", "window_end") == [
        (8, "b", 8, 3, 8),
        (9, "a", 3, 0, 9),
        (14, "a", 4, 9, 14),
    ]


def test_landmark_counts_from_its_start_in_slides_that_got_a_tuple():
    history = rows((1, "a", 100), (5, "a", 1), (14, "a", 2), (36, "a", 4))
    assert results(agg(Landmark(5, 10), "sum"), history, "sum", "window_start", "window_end") == [
        (15, 3, 5, 15),
        (45, 7, 5, 45),
    ]


def test_landmark_without_start_has_no_window_start():
    assert results(agg(Landmark(None, 10), "sum"), rows((-5, "a", 1), (12, "a", 2)), "sum", "window_start") == [
        (0, 1, None),
        (20, 3, None),
    ]


def test_while_window_is_a_run_ended_by_a_tuple_that_is_not_in_it():
    predicate = call("<", col("v"), lit(5))
    history = rows((1, "a", 9), (2, "a", 1), (3, "a", 2), (4, "a", None), (5, "a", 3), (6, "a", 5), (7, "a", 1))
    assert results(agg(While(predicate), "n", "sum"), history, "n", "sum", "window_start", "window_end") == [
        (4, 2, 3, 2, 4),
        (6, 1, 3, 5, 6),
    ]


def test_partitioned_while_window_runs_within_each_partition():
    predicate = call("<", col("v"), lit(5))
    history = rows((1, "a", 1), (2, "b", 9), (3, "a", 2), (4, "a", 7))
    assert results(agg(While(predicate, (col("k", S),)), "sum", keys=()), history, "sum") == [(4, 3)]


def test_null_is_a_group_of_its_own():
    assert results(agg(Range(10, 10), "n"), rows((1, None, 1), (2, None, 2), (3, "a", 3)), "k", "n") == [
        (10, None, 2),
        (10, "a", 1),
    ]


# aggregates -----------------------------------------------------------------------------------------------------------


class Product:
    """A user's aggregate."""

    def zero(self):
        return 1

    def add(self, state, values):
        return math.prod(values, start=state)

    def merge(self, left, right):
        return left * right

    def finish(self, state):
        return state


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("count", [1, None, 3], 2),
        ("sum", [1, None, 3], 4),
        ("sum", [None], None),
        ("sum", [2**63 - 1, 1], -(2**63)),
        ("avg", [1, None, 4], 2.5),
        ("avg", [], None),
        ("min", [3, None, 1], 1),
        ("max", [3, None, 1], 3),
        ("stddev", [1, 3], 2**0.5),
        ("stddev", [1], None),
        ("variance", [1, 2, 3, None], 1.0),
        ("count_distinct", [1, 1, None, 2], 2),
        ("first", [None, 1], None),
        ("last", [None, 1], 1),
    ],
)
def test_aggregate(function, values, expected):
    if not values:
        values = [None]
    assert aggregate_of(AggregateCall("x", function, col("v"), L), [{"v": v} for v in values]) == expected


def test_every_aggregate_has_a_meaning_here():
    for name in AGGREGATES.keys() - COMPUTED_BY.keys():
        fraction, other = (Literal(0.5, D),), () if name in ("first", "last", "collect_list") else (col("w"),)
        more = fraction if name.startswith("percentile") else other
        rows_ = [{"v": 2, "w": 1}, {"v": 3, "w": 2}]
        assert aggregate_of(AggregateCall("x", name, col("v"), L, more), rows_) is not None


def test_user_defined_aggregate_folds_the_values_that_are_not_null(monkeypatch):
    module = types.ModuleType("product_aggregate")
    module.Product = Product  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "product_aggregate", module)
    call_ = AggregateCall("x", "python:product_aggregate:Product", col("v"), L)
    assert aggregate_of(call_, [{"v": 2}, {"v": None}, {"v": 5}]) == 10


def test_first_and_last_break_ties_by_arrival():
    history = rows((5, "a", 3), (5, "a", 1), (5, "a", 2))
    assert results(agg(Range(10, 10), "first", "last"), history, "first", "last") == [(10, 3, 2)]


def test_first_of_a_union_breaks_ties_by_its_value():
    union = Union((Scan("s", NUMBERS), Scan("s", NUMBERS)))
    plan = Aggregate(union, Range(10, 10), (), (AggregateCall("f", "first", col("v"), L),))
    assert results(plan, rows((5, "b", 1), (5, "a", 7)), "f") == [(10, 1)]


# other nodes ----------------------------------------------------------------------------------------------------------


def test_filter_keeps_only_what_is_true():
    plan = Filter(Scan("s", NUMBERS), call(">", col("v"), lit(1)))
    assert results(plan, rows((1, "a", 1), (2, "a", None), (3, "a", 2)), "v") == [(3, 2)]


def test_projection_may_name_the_timestamp_and_keeps_arrival_order():
    plan = Project(Scan("s", NUMBERS), (("t", col("__ts")), ("w", call("neg", col("v")))))
    assert results(plan, rows((2, "a", 1), (2, "a", 3), (1, "a", 2)), "t", "w") == [(1, 1, -2), (2, 2, -1), (2, 2, -3)]


def test_distinct_measures_from_the_last_equal_tuple_even_if_that_one_was_dropped():
    plan = Distinct(Scan("s", NUMBERS), 5)
    history = rows((0, "a", None), (0, "a", None), (4, "a", None), (9, "a", None), (15, "a", None), (15, "b", None))
    assert results(plan, history, "k") == [(0, "a"), (15, "a"), (15, "b")]


def test_order_sorts_by_timestamp_then_arrival():
    assert results(Order(Scan("s", NUMBERS)), rows((2, "b", 1), (1, "a", 2), (2, "a", 3)), "v") == [
        (1, 2),
        (2, 1),
        (2, 3),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"), [("inner", [(1, "x"), (1, "y")]), ("left", [(1, "x"), (1, "y"), (2, None), (3, None)])]
)
def test_table_join(kind, expected):
    table = Schema.of(id=Type.INT, name=S)
    plan = TableJoin(
        Scan("s", NUMBERS), "t", table, kind, ((col("v"), "id"),), call("<>", col("name", S), lit("z")), ("id", "name")
    )
    entries: list[dict[str, Any]] = [
        {"id": 1, "name": "x"},
        {"id": 1, "name": "y"},
        {"id": 2, "name": "z"},
        {"id": None, "name": "w"},
    ]
    found = answer(plan, {"s": rows((1, "a", 1), (2, "a", 2), (3, "a", None))}, {"t": entries})
    assert [(row.ts, row.values["name"]) for row in found] == expected


# joins ----------------------------------------------------------------------------------------------------------------

TAG = Schema.of(x=S)


def tags(*items: tuple[int, str]) -> list[Row]:
    return [Row(ts, {"x": x}) for ts, x in items]


def join(kind="inner", *, left=None, right=None, residual=None, keys=()) -> Join:
    return Join(Scan("a", TAG), Scan("b", TAG), kind, keys, residual, left or Extent(5), right or Extent(5), ("y",))


def pairs(plan, a, b):
    return Counter((row.values["x"], row.values["y"], row.ts) for row in answer(plan, {"a": a, "b": b}))


def test_time_window_join_of_the_specification():
    a, b = tags((3, "a1"), (6, "a2"), (12, "a3")), tags((1, "b1"), (6, "b2"), (13, "b3"))
    expected = [("a1", "b1", 3), ("a2", "b1", 6), ("a1", "b2", 6), ("a2", "b2", 6), ("a3", "b3", 13)]
    assert pairs(join(), a, b) == Counter(expected)


def test_three_way_join_needs_all_parts_within_one_window():
    first = Join(Scan("a", TAG), Scan("b", TAG), "inner", (), None, Extent(10), Extent(10), ("y",))
    plan = Join(first, Scan("c", TAG), "inner", (), None, None, Extent(10), ("z",))
    streams = {"a": tags((0, "a")), "b": tags((10, "b")), "c": tags((20, "c"))}
    assert len(answer(first, streams)) == 1
    assert answer(plan, streams) == []
    assert [row.ts for row in answer(plan, {**streams, "c": tags((10, "c"))})] == [10]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("left", [("p", "p", 2), ("q", None, 20)]),
        ("right", [("p", "p", 2), (None, "r", 30)]),
        ("full", [("p", "p", 2), ("q", None, 20), (None, "r", 30)]),
    ],
)
def test_outer_join_pads_what_finds_no_partner(kind, expected):
    plan = join(kind, keys=((col("x", S), col("x", S)),))
    assert pairs(plan, tags((1, "p"), (20, "q")), tags((2, "p"), (30, "r"))) == Counter(expected)


def test_null_keys_match_nothing():
    plan = join("full", keys=((col("x", S), col("x", S)),))
    nothing = [Row(1, {"x": None})]
    assert pairs(plan, nothing, nothing) == Counter([(None, None, 1)] * 2)


def test_padded_row_keeps_its_own_expiry():
    first = Join(Scan("a", TAG), Scan("b", TAG), "left", (), None, Extent(10), Extent(10), ("y",))
    plan = Join(first, Scan("c", TAG), "inner", (), None, None, Extent(10), ("z",))
    assert len(answer(plan, {"a": tags((0, "a")), "b": [], "c": tags((10, "c"))})) == 1
    assert answer(plan, {"a": tags((0, "a")), "b": [], "c": tags((11, "c"))}) == []


def test_rows_extent_remembers_the_newest_in_total_order():
    plan = join(left=Extent(None, 1), right=Extent(None, 1))
    # order: a1, then at 2 first the left a2, then b1; b1 sees a2 only; a3 sees b1
    assert pairs(plan, tags((1, "a1"), (2, "a2"), (5, "a3")), tags((2, "b1"))) == Counter(
        [("a2", "b1", 2), ("a3", "b1", 5)]
    )


def test_rows_extent_by_group_counts_each_group_alone():
    plan = join(left=Extent(None, 1, (call("left", col("x", S), lit(1)),)), right=Extent(0))
    assert pairs(plan, tags((1, "a1"), (2, "b1"), (3, "b2")), tags((9, "r"))) == Counter(
        [("a1", "r", 9), ("b2", "r", 9)]
    )


def test_unbounded_extent_and_now_extent():
    plan = join(left=Extent(None), right=Extent(0))
    assert pairs(plan, tags((1, "a1"), (8, "a2")), tags((5, "b1"), (8, "b2"))) == Counter(
        [("a1", "b1", 5), ("a1", "b2", 8), ("a2", "b2", 8)]
    )


CALLS = Schema.of(id=L, caller=S, event=S, at=T)


def outgoing() -> list[Row]:
    events = [(0, 1, "alice", "START"), (10, 2, "bob", "START"), (70, 2, "bob", "END"), (601, 1, "alice", "END")]
    return [Row(s * SECOND, {"id": i, "caller": c, "event": e, "at": s * SECOND}) for s, i, c, e in events]


def self_join(extra: Expr | None = None) -> Join:
    def side(event: str) -> Filter:
        return Filter(Scan("outgoing", CALLS), call("=", col("event", S), lit(event)))

    extent = Extent(24 * HOUR)
    return Join(
        side("START"),
        side("END"),
        "inner",
        ((col("id"), col("id")),),
        extra,
        extent,
        extent,
        ("id2", "caller2", "event2", "at2"),
    )


def duration() -> Call:
    return call("-", col("at2", T), col("at", T))


def test_long_calls_of_the_telecom_example():
    plan = self_join(call(">", duration(), Literal(10 * MINUTE, Type.INTERVAL)))
    assert [(row.values["id"], row.values["caller"]) for row in answer(plan, {"outgoing": outgoing()})] == [
        (1, "alice")
    ]


def test_total_connection_time_of_the_telecom_example():
    seconds = Project(
        self_join(),
        (("caller", col("caller", S)), ("s", call("unix_seconds", Cast(call("+", lit_instant(0), duration()), T)))),
    )
    plan = Aggregate(
        seconds, Range(DAY, DAY), (("caller", col("caller", S)),), (AggregateCall("total", "sum", col("s"), L),)
    )
    assert {row.values["caller"]: row.values["total"] for row in answer(plan, {"outgoing": outgoing()})} == {
        "alice": 601,
        "bob": 60,
    }


def lit_instant(value: int) -> Literal:
    return Literal(value, T)


# late tuples, values, functions ---------------------------------------------------------------------------------------


def test_late_is_more_than_the_skew_behind_the_newest_before():
    kept, late = split_late(rows((10, "a", 1), (8, "a", 2), (7, "a", 3), (12, "a", 4), (9, "a", 5)), 2)
    assert ([row.ts for row in kept], [row.ts for row in late]) == ([10, 8, 12], [7, 9])
    assert [row.seq for row in kept] == [0, 1, 3]


def test_plain_turns_times_into_numbers():
    row = {
        "t": dt.datetime(1970, 1, 1, 0, 0, 1),  # noqa: DTZ001
        "d": dt.date(1970, 1, 3),
        "i": dt.timedelta(milliseconds=2),
        "z": dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC),
    }
    assert plain([row]) == [{"t": SECOND, "d": 2, "i": 2000, "z": HOUR}]


def test_multisets_forgive_the_last_digits_and_tell_null_from_zero():
    assert as_multiset([Row(1, {"v": 0.1 + 0.2})]) == as_multiset([Row(1, {"v": 0.3})])
    assert as_multiset([Row(1, {"v": -0.0})]) == as_multiset([Row(1, {"v": 0.0})])
    assert as_multiset([Row(1, {"v": None})]) != as_multiset([Row(1, {"v": 0})])
    assert as_multiset([Row(1, {"v": 1}), Row(1, {"v": 1})]) != as_multiset([Row(1, {"v": 1})])


def test_every_function_has_a_meaning_here():
    assert set(SCALARS) == set(FUNCTIONS)


N = lit(None)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("and", lit(False), N), False),
        (call("and", lit(True), N), None),
        (call("or", lit(True), N), True),
        (call("or", N, lit(False)), None),
        (call("not", Cast(N, B)), None),
        (call("=", lit(1), lit(1.0)), True),
        (call("<=>", N, N), True),
        (call("<=>", lit(1), N), False),
        (call("is_null", N), True),
        (call("in", lit(1), lit(2), lit(1)), True),
        (call("in", lit(1), lit(2), N), None),
        (call("in", N, lit(2)), None),
        (call("coalesce", N, lit(1), lit(2.0)), 1.0),
        (call("nullif", lit(1), lit(1)), None),
        (call("nullif", lit(1), N), 1),
        (call("greatest", lit(1), N, lit(3)), 3),
        (call("least", lit(1), N, lit(3)), 1),
        (call("+", lit(2**63 - 1), lit(1)), -(2**63)),
        (call("/", lit(1), lit(2)), 0.5),
        (call("/", lit(1), lit(0)), None),
        (call("%", lit(-7), lit(3)), -1),
        (call("%", lit(7), lit(-3)), 1),
        (call("%", lit(-7.5), lit(2)), -1.5),
        (call("%", lit(7), lit(0)), None),
        (call("div", lit(-7), lit(2)), -3),
        (call("div", lit(7), lit(0)), None),
        (call("round", lit(2.5)), 3.0),
        (call("round", lit(-2.5)), -3.0),
        (call("round", lit(0.125), lit(2)), 0.13),
        (call("floor", lit(-0.5)), -1),
        (call("ceil", lit(-0.5)), 0),
        (call("ln", lit(0)), None),
        (call("pow", lit(2), lit(10)), 1024.0),
        (call("sign", lit(-3)), -1.0),
        (call("||", lit("a"), lit(1), lit(True), lit(0.5)), "a1true0.5"),
        (call("||", lit("a"), N), None),
        (call("substring", lit("hello"), lit(2), lit(3)), "ell"),
        (call("left", lit("hello"), lit(2)), "he"),
        (call("right", lit("hello"), lit(2)), "lo"),
        (call("lpad", lit("ab"), lit(4), lit("*")), "**ab"),
        (call("rpad", lit("abcde"), lit(4), lit("*")), "abcd"),
        (call("split_part", lit("a,b"), lit(","), lit(2)), "b"),
        (call("split_part", lit("a,b"), lit(","), lit(3)), ""),
        (call("position", lit("l"), lit("hello")), 3),
        (call("position", lit("z"), lit("hello")), 0),
        (call("like", lit("h%o"), lit("h\\%_")), True),
        (call("like", lit("hello"), lit("h%l")), False),
        (call("ilike", lit("HELLO"), lit("h%")), True),
        (call("rlike", lit("hello"), lit("l+")), True),
        (call("regexp_extract", lit("a12"), lit("([a-z])([0-9]+)"), lit(2)), "12"),
        (call("regexp_extract", lit("a"), lit("([0-9])")), ""),
        (call("dayofweek", Literal(0, T)), 5),  # 1970-01-01 was a Thursday
        (call("week", Literal(0, Type.DATE)), 1),
        (call("date_trunc", lit("week"), Literal(0, T)), -3 * DAY),
        (call("to_date", Literal(-1, T)), -1),
        (call("unix_seconds", Literal(-1, T)), -1),
        (call("+", Literal(1, Type.DATE), Literal(HOUR, Type.INTERVAL)), DAY + HOUR),
        (call("<", Literal(1, Type.DATE), Literal(DAY + 1, T)), True),
        (call("date_add", Literal(1, Type.DATE), lit(2)), 3),
        (call("datediff", Literal(5, Type.DATE), Literal(2, Type.DATE)), 3),
        (Case(((N, lit(1)), (lit(True), lit(2))), None, D), 2.0),
        (Case(((lit(False), lit(1)),), None, L), None),
        (Cast(lit("x"), L), None),
        (Cast(lit(" 12 "), L), 12),
        (Cast(lit("1.9"), L), 1),
        (Cast(lit(2.9), L), 2),
        (Cast(lit(1e10), S), "1.0E10"),
        (Cast(lit(-0.00012), S), "-1.2E-4"),
        (Cast(Literal(HOUR + SECOND // 2, Type.INTERVAL), S), "INTERVAL '0 01:00:00.5' DAY TO SECOND"),
        (Cast(lit("1970-1-1T01:00+01:00"), T), 0),
        (Cast(lit("1970-02-30"), T), None),
        (Cast(lit(2**40), Type.INT), None),
        (Cast(Literal(SECOND // 2, T), S), "1970-01-01 00:00:00.5"),
        (Cast(lit("1970-01-02"), Type.DATE), 1),
    ],
)
def test_expression(expr, expected):
    value = value_of(expr, {})
    assert (value, type(value)) == (expected, type(expected))


# an independent judge -------------------------------------------------------------------------------------------------

JUDGED = rows(*((i * 7 % 50, "abc"[i % 3] if i % 5 else None, i % 4 if i % 3 else None) for i in range(40)))


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (20, 5), (7, 3), (3, 10)])
def test_time_windows_agree_with_duckdb(size, slide):
    plan = agg(Range(size, slide), "n", "sum", "avg", "min", "max", "stddev", "count_distinct")
    found = as_multiset(answer(plan, {"s": JUDGED}))
    with duckdb.connect() as db:
        db.execute("create table s(ts bigint, k varchar, v bigint)")
        db.executemany("insert into s values (?, ?, ?)", [(row.ts, row.values["k"], row.values["v"]) for row in JUDGED])
        names = ("k", "n", "sum", "avg", "min", "max", "stddev", "count_distinct", "window_start", "window_end")
        judged = db.execute(
            "select k, count(*), sum(v)::bigint, avg(v), min(v), max(v), stddev_samp(v), count(distinct v), "
            "w * $slide, w * $slide + $size "
            "from s, range(-20, 60) as g(w) where ts >= w * $slide and ts < w * $slide + $size group by k, w",
            {"slide": slide, "size": size},
        ).fetchall()
    assert found == as_multiset(Row(values[-1], dict(zip(names, values, strict=True))) for values in judged)
