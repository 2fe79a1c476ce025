"""SELECT to plan. Plans are compared in the words of `explain`; `check` proves each one sound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Aggregate as OwnAggregate
from headrace.catalog.definitions import Connector, Query, Stream, Table, Timing
from headrace.errors import HeadraceError, InternalError, NameFault, NotSupported, UnboundedStateFault
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Literal, walk
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.model.schema import Schema
from headrace.model.time import DAY, END, HOUR, MINUTE, SECOND, parse_instant
from headrace.model.types import Type
from headrace.model.window import Cumulative, Extent, Landmark, Range, Rows, Session, Sliding, While, Window
from headrace.plan.binding.binder import bind
from headrace.plan.binding.expressions.function import ALIASES
from headrace.plan.check import check
from headrace.plan.explain import explain
from headrace.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Order,
    Project,
    Scan,
    SequenceJoin,
    TableJoin,
    Union,
)

S = Schema.of(id=Type.INT, seg=Type.INT, at=Type.TIMESTAMP, speed=Type.DOUBLE, day=Type.DATE, name=Type.STRING)
P = Schema.of(car=Type.BIGINT, seg=Type.BIGINT, speed=Type.DOUBLE)
T = Schema.of(seg=Type.BIGINT, lane=Type.INT, kind=Type.STRING)
SLOW = "SELECT seg, count(*) AS n, window_end FROM s [RANGE 1 MINUTE] WHERE speed < 20 GROUP BY seg"


def catalog() -> Catalog:
    known, memory = Catalog(), Connector("MEMORY", {})
    known.add(Stream("s", S, memory, Timing.EXTERNAL, "at"))
    known.add(Stream("p", P, memory, Timing.INTERNAL))
    known.add(Table("t", T, memory))
    known.add(OwnAggregate("geo", Type.DOUBLE, Type.DOUBLE, "means:Geo"))
    known.add(Query("slow", SLOW, Schema.of(seg=Type.INT, n=Type.BIGINT, window_end=Type.TIMESTAMP), (memory,)))
    return known


CATALOG = catalog()


def plan(text: str, *, ordered: bool = False) -> Node:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    node = bind(statement.select, statement.text, CATALOG, ordered=ordered)
    check(node)
    return node


def value(written: str) -> Expr:
    node = plan(f"SELECT {written} AS x FROM s")
    assert isinstance(node, Project)
    return node.columns[0][1]


def below(node: Node) -> Node:
    assert isinstance(node, Project | Filter | Order | Distinct | Aggregate | TableJoin)
    return node.input


def aggregate(text: str) -> Aggregate:
    node = plan(text)
    while not isinstance(node, Aggregate):
        node = below(node)
    return node


def join(text: str) -> Join:
    node = plan(text)
    while not isinstance(node, Join):
        node = below(node)
    return node


def test_a_bare_select_is_a_scan() -> None:
    assert plan("SELECT * FROM s") == Scan("s", S)
    assert plan("SELECT * FROM S.late AS x") == Scan("s.late", S)


def test_filter_and_projection_stand_in_that_order() -> None:
    node = plan("SELECT id, speed * 2 AS double_speed FROM s WHERE speed < 45 AND at > '2026-01-01'")
    assert explain(node).splitlines()[0].startswith("Project")
    assert isinstance(below(node), Filter)
    assert node.schema == Schema.of(id=Type.INT, double_speed=Type.DOUBLE)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("5", Literal(5, Type.INT)),
        ("-5", Literal(-5, Type.INT)),
        ("3000000000", Literal(3_000_000_000, Type.BIGINT)),
        ("1.5", Literal(1.5, Type.DOUBLE)),
        ("1e3", Literal(1000.0, Type.DOUBLE)),
        ("'it''s'", Literal("it's", Type.STRING)),
        ("TRUE", Literal(True, Type.BOOLEAN)),
        ("CAST(NULL AS INT)", Literal(None, Type.INT)),
        ("TIMESTAMP '2026-01-01 00:00:01'", Literal(parse_instant("2026-01-01") + SECOND, Type.TIMESTAMP)),
        ("DATE '1970-01-03'", Literal(2, Type.DATE)),
        ("INTERVAL '5' MINUTE", Literal(5 * MINUTE, Type.INTERVAL)),
        ("INTERVAL 5 MINUTES", Literal(5 * MINUTE, Type.INTERVAL)),
        ("INTERVAL '1 h 30 min'", Literal(90 * MINUTE, Type.INTERVAL)),
        ("INTERVAL -2 DAYS", Literal(-2 * DAY, Type.INTERVAL)),
        ("rowtime", Call("timestamp_micros", (Column("__ts", Type.BIGINT),), Type.TIMESTAMP)),
        ("TRY_CAST('2026-02-30' AS DATE)", Cast(Literal("2026-02-30", Type.STRING), Type.DATE)),  # as in a column
    ],
)
def test_constants(written: str, expected: Expr) -> None:
    assert value(written) == expected


ID, SPEED, AT, NAME = (
    Column("id", Type.INT),
    Column("speed", Type.DOUBLE),
    Column("at", Type.TIMESTAMP),
    Column("name", Type.STRING),
)
B = Type.BOOLEAN


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("id = speed", Call("=", (Cast(ID, Type.DOUBLE), SPEED), B)),
        ("id = 3", Call("=", (ID, Literal(3, Type.INT)), B)),
        ("speed > 3", Call(">", (SPEED, Literal(3.0, Type.DOUBLE)), B)),
        ("at < '1970-01-02'", Call("<", (AT, Literal(DAY, Type.TIMESTAMP)), B)),
        ("day < '1970-01-02'", Call("<", (Column("day", Type.DATE), Literal(1, Type.DATE)), B)),
        (
            "day < '1970-01-01 01:00:00'",
            Call("<", (Cast(Column("day", Type.DATE), Type.TIMESTAMP), Literal(HOUR, Type.TIMESTAMP)), B),
        ),
        (
            "id IN (1, 2.5)",
            Call("in", (Cast(ID, Type.DOUBLE), Literal(1.0, Type.DOUBLE), Literal(2.5, Type.DOUBLE)), B),
        ),
        ("id NOT IN (1)", Call("not", (Call("in", (ID, Literal(1, Type.INT)), B),), B)),
        ("name NOT LIKE 'a%'", Call("not", (Call("like", (NAME, Literal("a%", Type.STRING)), B),), B)),
        ("name IS NOT NULL", Call("not", (Call("is_null", (NAME,), B),), B)),
        ("(id = 1) IS FALSE", Call("<=>", (Call("=", (ID, Literal(1, Type.INT)), B), Literal(False, B)), B)),
        ("id IS NOT DISTINCT FROM 1", Call("<=>", (ID, Literal(1, Type.INT)), B)),
        (
            "id BETWEEN 1 AND 2",
            Call("and", (Call(">=", (ID, Literal(1, Type.INT)), B), Call("<=", (ID, Literal(2, Type.INT)), B)), B),
        ),
        ("id || name", Call("||", (Cast(ID, Type.STRING), NAME), Type.STRING)),
        ("id::STRING", Cast(ID, Type.STRING)),
        ("nvl(id, speed)", Call("coalesce", (Cast(ID, Type.DOUBLE), SPEED), Type.DOUBLE)),
        ("at - INTERVAL 1 SECOND", Call("-", (AT, Literal(SECOND, Type.INTERVAL)), Type.TIMESTAMP)),
        ("at + '1 second'", Call("+", (AT, Literal(SECOND, Type.INTERVAL)), Type.TIMESTAMP)),
        ("at - at", Call("-", (AT, AT), Type.INTERVAL)),
        ("hour(day)", Call("hour", (Cast(Column("day", Type.DATE), Type.TIMESTAMP),), Type.BIGINT)),
        ("EXTRACT(YEAR FROM at)", Call("year", (AT,), Type.BIGINT)),
        ("date_part('dow', at)", Call("dayofweek", (AT,), Type.BIGINT)),
        ("DATE_TRUNC('HOUR', at)", Call("date_trunc", (Literal("hour", Type.STRING), AT), Type.TIMESTAMP)),
        ("position('x' IN name)", Call("position", (Literal("x", Type.STRING), NAME), Type.BIGINT)),
        ("instr(name, 'x')", Call("position", (Literal("x", Type.STRING), NAME), Type.BIGINT)),
        (
            "SUBSTRING(name FROM 2 FOR 3)",
            Call("substring", (NAME, Literal(2, Type.INT), Literal(3, Type.INT)), Type.STRING),
        ),
        ("trim(LEADING FROM name)", Call("ltrim", (NAME,), Type.STRING)),
        (
            "if(id = 1, 'a', NULL)",
            Case(
                ((Call("=", (ID, Literal(1, Type.INT)), B), Literal("a", Type.STRING)),),
                Literal(None, Type.STRING),
                Type.STRING,
            ),
        ),
        (
            "CASE id WHEN 1 THEN 2 END",
            Case(((Call("=", (ID, Literal(1, Type.INT)), B), Literal(2, Type.INT)),), None, Type.INT),
        ),
        (
            "CASE WHEN id = 1 THEN 2 ELSE speed END",
            Case(((Call("=", (ID, Literal(1, Type.INT)), B), Literal(2.0, Type.DOUBLE)),), SPEED, Type.DOUBLE),
        ),
    ],
)
def test_expressions_are_typed_and_converted(written: str, expected: Expr) -> None:
    assert value(written) == expected


def test_every_alias_means_a_function_that_exists() -> None:
    assert set(ALIASES.values()) <= FUNCTIONS.keys() | AGGREGATES.keys()


def test_names_ignore_case_and_outputs_are_unique() -> None:
    node = plan(
        "SELECT ID, S.Speed, id, abs(id), abs(seg), id + 1, id + 2, CAST(name AS DATE), EXTRACT(hour FROM at) FROM s"
    )
    assert node.schema.names == ("ID", "Speed", "id_1", "abs", "abs_1", "expr", "expr_1", "name", "hour")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("RANGE 1 MINUTE", Range(MINUTE, MINUTE)),
        ("RANGE 1 MINUTE SLIDE 1 SECOND", Range(MINUTE, SECOND)),
        ("RANGE 1 MINUTE SLIDE TUPLE", Sliding(MINUTE)),
        ("RANGE 1 DAY STEP 1 HOUR", Cumulative(DAY, HOUR)),
        ("ROWS 10", Rows(10, 10)),
        ("PARTITION BY seg ROWS 10 SLIDE 2", Rows(10, 2, (Column("seg", Type.INT),))),
        ("SESSION 1 SECOND", Session(SECOND)),
        ("LANDMARK FROM '1970-01-02' SLIDE 1 HOUR", Landmark(DAY, HOUR)),
        ("NOW", Range(1, 1)),
        ("UNBOUNDED", Sliding(None)),
        ("UNBOUNDED SLIDE 1 HOUR", Landmark(None, HOUR)),
        (
            "PARTITION BY seg WHILE speed < 20",
            While(Call("<", (SPEED, Literal(20.0, Type.DOUBLE)), B), (Column("seg", Type.INT),)),
        ),
    ],
)
def test_an_aggregate_works_over_the_window_of_its_input(written: str, expected: Window) -> None:
    assert aggregate(f"SELECT count(*) FROM s [{written}]").window == expected


def test_a_grouped_select_is_rewritten_over_keys_and_aggregates() -> None:
    text = (
        "SELECT seg + 1 AS k, (seg + 1) * 2, sum(speed) / count(*) AS mean, count(DISTINCT id) AS ids, window_start "
        "FROM s [RANGE 1 MINUTE] WHERE id > 1 GROUP BY seg + 1, window_end HAVING count(*) > 3 AND mean < 2"
    )
    node = plan(text)
    assert explain(node).splitlines() == [
        "Project key AS k, key * 2 AS expr, sum / count AS mean, count_distinct AS ids, window_start",
        "  Filter count > 3 AND sum / count < 2.0",
        "    Aggregate sum(speed) AS sum, count(*) AS count, count_distinct(id) AS count_distinct OVER [RANGE 1 min] "
        "GROUP BY seg + 1 AS key",
        "      Filter id > 1",
        "        Scan s (id, seg, at, speed, day, name)",
    ]


@pytest.mark.parametrize("group", ["seg", "1", "a", "s.seg"])
def test_keys_are_columns_outputs_or_positions(group: str) -> None:
    assert aggregate(f"SELECT seg AS a, max(id) FROM s [NOW] GROUP BY {group}").keys == (
        ("seg", Column("seg", Type.INT)),
    )


def test_equal_groupings_are_equal_plans_whatever_their_outputs_are_called() -> None:
    assert aggregate("SELECT seg AS a, count(*) AS n FROM s [NOW] AS x GROUP BY a") == aggregate(
        "SELECT seg, count(*) FROM s [NOW] GROUP BY 1"
    )


def test_aggregates_know_their_other_names_filters_and_own_classes() -> None:
    calls = aggregate(
        "SELECT mean(id), stddev_samp(speed), first_value(name), min(DISTINCT id), count(1), count_if(id > 2), "
        "sum(id) FILTER (WHERE id > 2), geo(id) FROM s [NOW]"
    ).calls
    assert [(call.name, call.function, call.type) for call in calls] == [
        ("avg", "avg", Type.DOUBLE),
        ("stddev", "stddev", Type.DOUBLE),
        ("first", "first", Type.STRING),
        ("min", "min", Type.INT),
        ("count", "count", Type.BIGINT),
        ("count_1", "count", Type.BIGINT),
        ("sum", "sum", Type.BIGINT),
        ("geo", "python:means:Geo", Type.DOUBLE),
    ]
    assert [call.arg is None for call in calls] == [False] * 4 + [True] + [False] * 3
    assert calls[-1].arg == Cast(ID, Type.DOUBLE)


def test_where_does_not_thin_out_a_window_that_counts_tuples() -> None:
    for window in ("ROWS 3", "WHILE id > 0"):
        node = aggregate(f"SELECT seg, count(*) FROM s [{window}] WHERE speed < 2 GROUP BY seg")
        assert isinstance(node.input, Scan)
        assert [name for name, _ in node.keys] == ["seg", "passed"]
    assert isinstance(aggregate("SELECT count(*) FROM s [RANGE 1 MINUTE] WHERE speed < 2").input, Filter)


def test_a_key_may_be_called_window_end_if_the_input_has_it() -> None:
    node = aggregate("SELECT window_end, count(*) FROM slow [NOW] GROUP BY window_end")
    assert node.keys == (("window_end_1", Column("window_end", Type.TIMESTAMP)),)


def test_joins_take_keys_residual_and_extents_from_the_text() -> None:
    node = join(
        "SELECT * FROM s [RANGE 1 MINUTE] AS a JOIN p [NOW] AS b ON a.seg = b.seg AND a.speed < b.speed "
        "WHERE b.car = a.id AND a.id > 3"
    )
    assert node.keys == (
        (Cast(Column("seg", Type.INT), Type.BIGINT), Column("seg", Type.BIGINT)),
        (Cast(ID, Type.BIGINT), Column("car", Type.BIGINT)),
    )
    assert node.residual == Call("<", (SPEED, Column("speed_1", Type.DOUBLE)), B)
    assert (node.left_extent, node.right_extent) == (Extent(span=MINUTE), Extent(span=0))
    assert node.right_names == ("car", "seg_1", "speed_1")


def test_a_chain_of_joins_is_left_deep_and_only_its_leaves_have_extents() -> None:
    node = join(
        "SELECT a.id FROM s [UNBOUNDED] a, p [ROWS 5] b, s [PARTITION BY seg ROWS 2] c "
        "WHERE a.seg = b.seg AND c.id = b.car"
    )
    assert isinstance(node.left, Join)
    assert (node.left_extent, node.right_extent) == (None, Extent(rows=2, by=(Column("seg", Type.INT),)))
    assert (node.left.left_extent, node.left.right_extent) == (Extent(), Extent(rows=5))
    assert len(node.keys) == len(node.left.keys) == 1


def test_where_stays_above_an_outer_join() -> None:
    node = plan("SELECT a.id FROM s [NOW] a LEFT JOIN p [NOW] b ON a.seg = b.seg AND a.id > 3 WHERE b.car = a.id")
    assert isinstance(below(node), Filter)
    joined = below(below(node))
    assert isinstance(joined, Join)
    assert (joined.kind, len(joined.keys), joined.residual) == ("left", 1, Call(">", (ID, Literal(3, Type.INT)), B))


def test_a_sequence_takes_its_condition_from_on_alone() -> None:
    on = "a.seg = b.seg AND a.speed < b.speed AND a.id > 3 AND b.car > 4"
    node = plan(
        f"SELECT a.id FROM s [RANGE 1 MINUTE] a JOIN p b ON {on} FOLLOWING CHRONICLE INCLUSIVE WHERE a.id = b.car"
    )
    assert explain(node).splitlines() == [
        "Project id",
        "  Filter CAST(id AS BIGINT) = car",
        "    Join FOLLOWING CHRONICLE INCLUSIVE [RANGE 1 min] ON CAST(seg AS BIGINT) = seg_1 AND speed < speed_1"
        " (right: car, seg AS seg_1, speed AS speed_1)",
        "      Filter id > 3",
        "        Scan s (id, seg, at, speed, day, name)",
        "      Filter car > 4",
        "        Scan p (car, seg, speed)",
    ]


@pytest.mark.parametrize(
    ("window", "span"),
    [
        ("", None),
        ("[UNBOUNDED]", None),
        ("[NOW]", 0),
        ("[RANGE 5 SECONDS]", 5 * SECOND),
        ("[LANDMARK FROM '1970-01-02']", None),
    ],
)
def test_the_first_of_a_sequence_waits_as_long_as_its_window(window: str, span: int | None) -> None:
    node = below(plan(f"SELECT a.id FROM s {window} a JOIN p b ON a.seg = b.seg FOLLOWING RECENT"))
    assert isinstance(node, SequenceJoin)
    assert (node.mode, node.inclusive, node.span) == ("recent", False, span)
    assert isinstance(node.left, Filter if "LANDMARK" in window else Scan)


def test_a_stored_table_may_be_looked_up_before_or_after_a_sequence() -> None:
    after = below(plan("SELECT a.id FROM s a JOIN p b ON a.seg = b.seg FOLLOWING RECENT JOIN t ON t.seg = b.seg"))
    assert isinstance(after, TableJoin)
    assert isinstance(after.input, SequenceJoin)
    before = below(
        plan(
            "SELECT a.id FROM s [NOW] a JOIN t ON t.seg = a.seg "
            "JOIN p b ON t.lane = b.car FOLLOWING CHRONICLE INCLUSIVE"
        )
    )
    assert isinstance(before, SequenceJoin)
    assert isinstance(before.left, TableJoin)
    assert before.span == 0


def test_using_makes_one_column_of_two() -> None:
    inner = plan("SELECT * FROM s [NOW] JOIN p [NOW] USING (seg)")
    assert inner.schema.names == ("seg", "id", "at", "speed", "day", "name", "car", "speed_1")
    full = plan("SELECT seg FROM s [NOW] FULL JOIN p [NOW] USING (seg)")
    assert full.schema == Schema.of(seg=Type.BIGINT)
    assert isinstance(full, Project)
    assert isinstance(full.columns[0][1], Call)


def test_a_landmark_in_a_join_drops_what_is_earlier() -> None:
    node = join("SELECT a.id FROM s [LANDMARK FROM '1970-01-02'] a JOIN p [NOW] b ON a.seg = b.seg")
    assert node.left == Filter(Scan("s", S), Call(">=", (Column("__ts", Type.BIGINT), Literal(DAY, Type.BIGINT)), B))
    assert node.left_extent == Extent()


@pytest.mark.parametrize(
    "text", ["SELECT * FROM s JOIN t ON s.seg = t.seg", "SELECT s.*, t.* FROM t, s WHERE s.seg = t.seg"]
)
def test_a_stored_table_is_looked_up_whichever_side_it_stands_on(text: str) -> None:
    node = plan(text)
    node = node if isinstance(node, TableJoin) else below(node)
    assert isinstance(node, TableJoin)
    assert node.keys == ((Cast(Column("seg", Type.INT), Type.BIGINT), "seg"),)
    assert node.table_names == ("seg_1", "lane", "kind")


def test_a_lookup_brings_the_tuple_to_the_type_of_the_table() -> None:
    node = plan("SELECT * FROM p LEFT JOIN t ON p.car = t.lane AND p.speed = t.lane")
    assert isinstance(node, TableJoin)
    assert node.kind == "left"
    assert node.keys == ((Cast(Column("car", Type.BIGINT), Type.INT), "lane"),)
    assert node.residual == Call("=", (SPEED, Cast(Column("lane", Type.INT), Type.DOUBLE)), B)


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (("RANGE 1 MINUTE", "RANGE 2 MINUTES"), Range(2 * MINUTE, 2 * MINUTE)),
        (("RANGE 1 MINUTE SLIDE 5 SECONDS", "RANGE 2 MINUTES"), Range(2 * MINUTE, 5 * SECOND)),
        (("RANGE 1 MINUTE SLIDE TUPLE", "NOW"), Sliding(MINUTE)),
        (("RANGE 1 MINUTE", "UNBOUNDED"), Range(MINUTE, MINUTE)),
        (("NOW", "NOW"), Range(1, 1)),
        (("UNBOUNDED", "NOW"), Sliding(None)),
    ],
)
def test_an_aggregate_over_a_join_takes_the_largest_range(windows: tuple[str, str], expected: Window) -> None:
    assert (
        aggregate(f"SELECT count(*) FROM s [{windows[0]}] a JOIN p [{windows[1]}] b ON a.seg = b.seg").window
        == expected
    )


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("SELECT DISTINCT seg FROM s [RANGE 1 MINUTE]", MINUTE),
        ("SELECT DISTINCT seg FROM s [NOW]", 0),
        ("SELECT DISTINCT seg FROM s [UNBOUNDED]", END),
        ("SELECT DISTINCT n FROM slow", 0),
        ("SELECT DISTINCT count(*) FROM s [ROWS 3] GROUP BY seg", 0),
    ],
)
def test_distinct_remembers_as_long_as_the_window(text: str, span: int) -> None:
    node = plan(text)
    assert isinstance(node, Distinct)
    assert node.span == span


def test_distinct_over_a_sliding_window_groups() -> None:
    node = aggregate("SELECT DISTINCT seg, id FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]")
    assert (node.window, [name for name, _ in node.keys], node.calls) == (Range(MINUTE, SECOND), ["seg", "id"], ())


def test_unions_are_flat_and_of_one_type() -> None:
    node = plan("SELECT id FROM s UNION ALL SELECT car FROM p UNION SELECT seg FROM p")
    assert isinstance(node, Union)
    assert len(node.inputs) == 3
    assert node.schema == Schema.of(id=Type.BIGINT)
    assert node.inputs[0] == Project(Scan("s", S), (("id", Cast(ID, Type.BIGINT)),))
    assert plan("SELECT * FROM s UNION s.late") == Union((Scan("s", S), Scan("s.late", S)))


def test_with_and_sub_queries_are_inlined() -> None:
    node = plan(
        "WITH a AS (SELECT id, seg FROM s), b(x) AS (SELECT id + 1 FROM a) SELECT y.z FROM (SELECT x FROM b "
        "WHERE x > 1) AS y(z)"
    )
    assert node.schema == Schema.of(z=Type.BIGINT)
    assert explain(node).splitlines()[-1].strip().startswith("Scan s")


def test_a_named_query_is_inlined_from_its_plan_or_its_text() -> None:
    (statement,) = parse("SELECT * FROM slow")
    assert isinstance(statement, Select)
    given = Order(Scan("given", Schema.of(seg=Type.INT)))
    assert bind(statement.select, statement.text, CATALOG) == plan(SLOW)
    assert bind(statement.select, statement.text, CATALOG, queries={"slow": given}) == given.input
    assert (
        bind(statement.select, statement.text, CATALOG, queries=lambda name: given if name == "slow" else None)
        == given.input
    )


def test_order_by_time_is_the_only_order() -> None:
    assert plan("SELECT * FROM s ORDER BY rowtime") == Order(Scan("s", S)) == plan("SELECT * FROM s", ordered=True)
    with pytest.raises(NotSupported):
        plan("SELECT * FROM s ORDER BY id")


def test_an_error_in_a_named_query_shows_that_query() -> None:
    known = catalog()
    known.replace(Query("broken", "SELECT spede FROM s", Schema.of(x=Type.INT), ()))
    (statement,) = parse("SELECT * FROM broken")
    assert isinstance(statement, Select)
    with pytest.raises(NameFault) as caught:
        bind(statement.select, statement.text, known)
    assert "SELECT spede FROM s" in caught.value.render(statement.text)


def test_unbounded_state_is_refused_with_a_way_out() -> None:
    for text in (
        "SELECT count(*) FROM s",
        "SELECT DISTINCT id FROM s",
        "SELECT s.id FROM s [NOW] JOIN p ON s.seg = p.seg",
    ):
        with pytest.raises(UnboundedStateFault) as caught:
            plan(text)
        assert "[RANGE 5 MINUTES]" in (caught.value.hint or "")


def test_a_very_long_condition_is_bound_and_a_very_deep_one_refused() -> None:
    node = plan("SELECT * FROM s WHERE " + " OR ".join(f"id = {i}" for i in range(2000)))
    assert isinstance(node, Filter)
    assert sum(isinstance(part, Literal) for part in walk(node.predicate)) == 2000
    with pytest.raises(NotSupported, match="levels deep"):
        plan("SELECT " + " + ".join(["id"] * 3000) + " FROM s")


def test_terms_keep_their_order_and_grouping() -> None:
    a, b, c = (Call(">", (ID, Literal(i, Type.INT)), B) for i in (1, 2, 3))
    assert value("id > 1 AND id > 2 AND id > 3") == Call("and", (Call("and", (a, b), B), c), B)
    assert value("id > 1 AND (id > 2 OR id > 3)") == Call("and", (a, Call("or", (b, c), B)), B)
    assert value("id > 1 AND id > 2 OR id > 3") == Call("or", (Call("and", (a, b), B), c), B)


def test_a_sub_query_needs_no_name() -> None:
    assert plan("SELECT id FROM (SELECT id, seg FROM s)").schema == Schema.of(id=Type.INT)
    with pytest.raises(NameFault, match="column 'x' does not exist in the sub-query"):
        plan("SELECT x FROM (SELECT id, seg FROM s)")


def test_a_window_may_follow_the_alias() -> None:
    assert plan("SELECT count(*) FROM s AS x [NOW]") == plan("SELECT count(*) FROM s [NOW] AS x")


PARTS = st.sampled_from(
    [
        "id", "speed", "s.seg", "count(*)", "sum(speed)", "name || 'x'", "CASE WHEN id > 1 THEN 2 ELSE speed END",
        "CAST(id AS STRING)", "at - '1 s'",
        "window_end", "rowtime", "*", "DISTINCT id", "max(name)", "id + speed", "-id", "nosuch", "abs(name)", "now()",
        "first(at)",
    ]
)  # fmt: skip
ITEMS = st.sampled_from(
    [
        "s",
        "s [NOW]",
        "s [RANGE 1 MINUTE SLIDE 1 SECOND]",
        "s [ROWS 3]",
        "s [SESSION 1 SECOND]",
        "slow [NOW] AS s",
        "t AS s",
        "s UNION s.late",
    ]
)
JOINS = st.sampled_from(
    [
        "",
        ", p [NOW]",
        " JOIN t USING (seg)",
        " LEFT JOIN p [ROWS 2] ON s.seg = p.seg",
        " FULL JOIN p [NOW] USING (seg)",
        " JOIN p ON 1 = 1",
        " JOIN p ON s.seg = p.seg FOLLOWING RECENT",
    ]
)
TAILS = st.sampled_from(
    [
        "",
        " WHERE id > 1",
        " WHERE speed",
        " GROUP BY seg",
        " GROUP BY id, 1",
        " GROUP BY seg HAVING count(*) > 1",
        " ORDER BY rowtime",
    ]
)


@given(st.lists(PARTS, min_size=1, max_size=3), ITEMS, JOINS, TAILS)
def test_any_select_gives_a_sound_plan_or_a_query_error(parts: list[str], item: str, joined: str, tail: str) -> None:
    text = f"SELECT {', '.join(parts)} FROM {item}{joined}{tail}"
    try:
        fault = "" if plan(text).schema.names else "no columns"
    except HeadraceError as error:
        fault = error.message if isinstance(error, InternalError) or not error.render(text) else ""
    assert fault == ""
