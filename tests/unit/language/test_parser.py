"""Text to statements."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp

from headrace.errors import HeadraceError, Span, SyntaxFault
from headrace.language.parser import parse
from headrace.language.syntax.clauses import (
    LandmarkClause,
    NowClause,
    RangeClause,
    RowsClause,
    SessionClause,
    UnboundedClause,
    WhileClause,
    WindowClause,
    following_of,
    unions_of,
    window_of,
)
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import (
    CreateAggregate,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Select,
    Show,
    Split,
    Statement,
)
from headrace.model.schema import Schema
from headrace.model.time import HOUR, MILLISECOND, MINUTE, SECOND, parse_instant
from headrace.model.types import Type


def only(text: str) -> Statement:
    (statement,) = parse(text)
    return statement


def window(written: str) -> WindowClause:
    statement = only(f"SELECT * FROM s {written} AS x")
    assert isinstance(statement, Select)
    item = statement.select.args["from_"].this
    assert item.alias == "x"
    found = window_of(item)
    assert found is not None
    return found


def test_a_stream_declares_columns_time_and_source() -> None:
    stream = only(
        "create stream detectors (id INT, at TIMESTAMP, speed DOUBLE PRECISION, note VARCHAR(20))\n"
        "  TIMESTAMP BY at SKEW 2 SECONDS FROM files (Path 'data/d', header TRUE, size 3, ratio 0.5, offset -1)"
    )
    assert isinstance(stream, CreateStream)
    assert stream.name.text == "detectors"
    assert stream.columns == Schema.of(id=Type.INT, at=Type.TIMESTAMP, speed=Type.DOUBLE, note=Type.STRING)
    assert (stream.timing, stream.time_column and stream.time_column.text, stream.skew_us) == (
        "EXTERNAL",
        "at",
        2 * SECOND,
    )
    assert stream.connector.kind == "FILES"
    assert stream.connector.options == {"path": "data/d", "header": True, "size": 3, "ratio": 0.5, "offset": -1}


@pytest.mark.parametrize(("written", "timing"), [("", "INTERNAL"), ("TIMESTAMP INTERNAL", "INTERNAL")])
def test_time_is_internal_unless_said_otherwise(written: str, timing: str) -> None:
    stream = only(f"CREATE OR REPLACE STREAM IF NOT EXISTS s {written} FROM MEMORY")
    assert isinstance(stream, CreateStream)
    assert (stream.timing, stream.time_column, stream.skew_us, stream.columns) == (timing, None, 0, None)
    assert stream.or_replace
    assert stream.if_not_exists


def test_a_table_may_leave_its_columns_to_the_source() -> None:
    table = only("CREATE TABLE segments FROM FILES (path 'x.csv', format 'csv')")
    assert isinstance(table, CreateTable)
    assert (table.name.text, table.columns) == ("segments", None)


def test_an_aggregate_names_a_python_class() -> None:
    aggregate = only("CREATE AGGREGATE geo_mean(DOUBLE) RETURNS DOUBLE FROM PYTHON 'stats.means:Geo'")
    assert isinstance(aggregate, CreateAggregate)
    assert aggregate.params == ((None, Type.DOUBLE),)
    assert (aggregate.result, aggregate.target) == (Type.DOUBLE, "stats.means:Geo")


def test_a_query_has_options_a_select_and_sinks() -> None:
    query = only(
        "CREATE QUERY q WITH (latency '500 ms' MUST, memory '64 MB' BEST EFFORT, throughput '1/s' DONT CARE, "
        "error 0.15, shed RANDOM, ordered)\n"
        "AS SELECT a FROM s INTO FILES (path 'out', format 'csv'), console"
    )
    assert isinstance(query, CreateQuery)
    assert query.options == {
        "latency": "500 ms",
        "latency.class": "MUST",
        "memory": "64 MB",
        "memory.class": "BEST EFFORT",
        "throughput": "1/s",
        "throughput.class": "DONT CARE",
        "error": 0.15,
        "shed": "RANDOM",
        "ordered": True,
    }
    assert query.select_text == "SELECT a FROM s"
    assert [sink.kind for sink in query.sinks] == ["FILES", "CONSOLE"]


def test_statements_are_cut_at_semicolons_but_not_inside_texts_and_comments() -> None:
    text = "-- first; a comment\nSELECT ';' AS x FROM s; /* ; */ SHOW QUERIES ;; DESCRIBE s.late;\n"
    statements = parse(text)
    assert [type(statement) for statement in statements] == [Select, Show, Describe]
    assert [text[each.offset : each.offset + len(each.text)] == each.text for each in statements] == [True] * 3
    assert isinstance(statements[2], Describe)
    assert statements[2].name.text == "s.late"


def test_a_text_that_cannot_be_written_in_utf_8_is_refused_where_it_begins() -> None:
    with pytest.raises(SyntaxFault, match="has a character that is not Unicode") as caught:
        parse("SHOW STREAMS; SELECT 'caf\udce9' AS a FROM s")
    assert caught.value.span == Span(25, 26)


def test_names_may_be_quoted_in_two_ways() -> None:
    statement = only('SELECT `a b`, "c d" FROM "my stream" AS `m`')
    assert isinstance(statement, Select)
    assert [each.name for each in statement.select.expressions] == ["a b", "c d"]
    assert statement.select.args["from_"].this.name == "my stream"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[RANGE 5 MINUTES]", RangeClause(5 * MINUTE, None, False, Span(16, 33))),
        ("[range 1 hour slide 10 minutes]", RangeClause(HOUR, 10 * MINUTE, False, Span(16, 47))),
        ("[RANGE 1 HOUR 30 MINUTES]", RangeClause(90 * MINUTE, None, False, Span(16, 41))),
        ("[RANGE '500 ms' SLIDE TUPLE]", RangeClause(500 * MILLISECOND, None, True, Span(16, 44))),
        ("[RANGE 500 MILLISECONDS]", RangeClause(500 * MILLISECOND, None, False, Span(16, 40))),
        ("[RANGE INTERVAL '5' MINUTE]", RangeClause(5 * MINUTE, None, False, Span(16, 43))),
        ("[ROWS 100 SLIDE 10]", RowsClause(100, 10, (), Span(16, 35))),
        ("[ROWS 100 SLIDE TUPLE]", RowsClause(100, 1, (), Span(16, 38))),
        ("[SESSION 30 SECONDS]", SessionClause(30 * SECOND, Span(16, 36))),
        (
            "[LANDMARK FROM '2026-01-01' SLIDE 1 MINUTE]",
            LandmarkClause(parse_instant("2026-01-01"), MINUTE, Span(16, 59)),
        ),
        ("[NOW]", NowClause(Span(16, 21))),
        ("[UNBOUNDED]", UnboundedClause(None, Span(16, 27))),
        ("[UNBOUNDED SLIDE 1 MINUTE]", UnboundedClause(MINUTE, Span(16, 42))),
    ],
)
def test_windows_stand_in_brackets(written: str, expected: WindowClause) -> None:
    assert window(written) == expected


def test_windows_partition_by_expressions() -> None:
    rows = window("[PARTITION BY id, x + 1 ROWS 5 SLIDE 1]")
    assert isinstance(rows, RowsClause)
    assert [type(each) for each in rows.by] == [exp.Column, exp.Add]
    runs = window("[PARTITION BY id WHILE speed < 20 AND b[1] > 2]")
    assert isinstance(runs, WhileClause)
    assert len(runs.by) == 1
    assert isinstance(runs.predicate, exp.And)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("JOIN b AS p ON c.k = p.k FOLLOWING RECENT", ("recent", False)),
        ("JOIN b ON c.k = b.k following chronicle inclusive WHERE c.k > 1", ("chronicle", True)),
        ("JOIN b FOLLOWING RECENT INCLUSIVE", ("recent", True)),
        ("JOIN b USING (k) FOLLOWING CHRONICLE GROUP BY k", ("chronicle", False)),
        (", b FOLLOWING RECENT", ("recent", False)),
    ],
)
def test_a_join_may_say_how_its_second_item_follows_the_first(written: str, expected: tuple[str, bool]) -> None:
    text = f"SELECT * FROM a [NOW] AS c {written}"
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    (join,) = statement.select.args["joins"]
    clause = following_of(join)
    assert clause is not None
    assert (clause.mode, clause.inclusive) == expected
    assert text[clause.span.start : clause.span.end].upper().split() == [
        "FOLLOWING",
        expected[0].upper(),
        *["INCLUSIVE"] * expected[1],
    ]


def test_following_is_still_a_name_where_nothing_follows() -> None:
    (statement,) = parse("SELECT following FROM a [NOW] AS c JOIN b [NOW] following ON c.k = following.k")
    assert isinstance(statement, Select)
    (join,) = statement.select.args["joins"]
    assert following_of(join) is None
    assert join.this.alias == "following"


def test_a_union_of_streams_differs_from_a_union_of_selects() -> None:
    streams = only("SELECT * FROM a [NOW] UNION b [NOW] AS x WHERE p > 1")
    selects = only("SELECT * FROM a UNION ALL SELECT * FROM b UNION (SELECT * FROM c)")
    assert isinstance(streams, Select)
    assert isinstance(selects, Select)
    (further,) = unions_of(streams.select.args["from_"].this)
    assert (further.name, further.alias) == ("b", "x")
    assert window_of(further) == NowClause(Span(30, 35))
    assert isinstance(selects.select, exp.Union)


def test_a_sub_query_in_from_may_have_a_window() -> None:
    statement = only("SELECT * FROM (SELECT a FROM s) [ROWS 3] AS x JOIN t [NOW] ON x.a = t.a")
    assert isinstance(statement, Select)
    item = statement.select.args["from_"].this
    assert isinstance(item, exp.Subquery)
    assert window_of(item) == RowsClause(3, None, (), Span(32, 40))
    assert item.alias == "x"


@pytest.mark.parametrize(
    ("text", "form", "analyze"),
    [
        ("EXPLAIN q", "text", False),
        ("EXPLAIN ANALYZE q", "text", True),
        ("EXPLAIN JSON q", "json", False),
        ("EXPLAIN (FORMAT JSON) q", "json", False),
        ("EXPLAIN ANALYZE JSON SELECT 1 FROM s", "json", True),
        ("EXPLAIN WITH x AS (SELECT 1 FROM s) SELECT * FROM x", "text", False),
    ],
)
def test_explain_takes_a_name_or_a_select(text: str, form: str, analyze: bool) -> None:
    explain = only(text)
    assert isinstance(explain, Explain)
    assert (explain.form, explain.analyze) == (form, analyze)
    assert isinstance(explain.target, exp.Select if "SELECT" in text else Name)


def test_drop_and_show_say_what() -> None:
    drop, show = parse("DROP STREAM IF EXISTS s; SHOW statistics")
    assert isinstance(drop, Drop)
    assert isinstance(show, Show)
    assert (drop.kind, drop.name.text, drop.if_exists, show.what) == ("STREAM", "s", True, "STATISTICS")


def test_an_error_points_into_the_whole_text() -> None:
    text = "SHOW TABLES;\nSELECT * FROM s [RANGE 5 PARSECS]"
    with pytest.raises(SyntaxFault) as caught:
        parse(text)
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == "PARSECS"


def test_deep_nesting_is_refused_not_crashed_on() -> None:
    with pytest.raises(HeadraceError, match="nested too deeply"):
        parse("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM s")


VOCABULARY = """
    SELECT FROM WHERE GROUP BY s t a b ( ) [ ] , . * + = < AND NOT IN LIKE IS NULL CASE
      WHEN END count RANGE ROWS 5 SECONDS SLIDE TUPLE PARTITION
    NOW WHILE LANDMARK 'x' AS JOIN LEFT ON UNION ALL DISTINCT CAST INT INTERVAL
      CREATE STREAM TABLE QUERY WITH ; DROP SHOW EXPLAIN INTO OVER ::
    -- /* ' " ` @ # $ ? { } => LATERAL VALUES trim( extract( position(
"""


@given(st.lists(st.sampled_from(VOCABULARY.split()), max_size=12).map(" ".join))
@example("SELECT * FROM s [")
@example("SELECT CAST(a AS b) FROM s")
def test_any_text_parses_or_is_refused_with_a_place_in_it(text: str) -> None:
    try:
        places = [each.offset for each in parse(text)]
    except HeadraceError as error:
        places = [-1 if error.span is None else error.span.start]
    assert all(0 <= place <= len(text) for place in places)


def test_split_makes_a_view_of_each_branch():
    text = 'SPLIT bids.late INTO "the dear" WHEN price > 10 OR item IN (1, 2), cheap WHEN price < 5, rest ELSE'
    (split,) = parse("SHOW STREAMS; " + text)[1:]
    assert isinstance(split, Split)
    assert (split.text, split.offset) == (text, 14)
    assert [(view.name.text, view.select_text) for view in split.views] == [
        ("the dear", "SELECT * FROM bids.late WHERE price > 10 OR item IN (1, 2)"),
        ("cheap", "SELECT * FROM bids.late WHERE price < 5"),
        (
            "rest",
            "SELECT * FROM bids.late WHERE NOT coalesce(price > 10 OR item IN (1, 2), FALSE) "
            "AND NOT coalesce(price < 5, FALSE)",
        ),
    ]
    assert [text[view.name.span.start : view.name.span.end] for view in split.views] == ['"the dear"', "cheap", "rest"]


def test_the_view_of_a_branch_can_be_written_by_itself():
    (split,) = parse("SPLIT bids INTO dear WHEN price > 10 /* much */ AND NOT item = 3, rest ELSE")
    assert isinstance(split, Split)
    for view in split.views:
        (again,) = parse(view.text)
        assert isinstance(again, CreateView)
        assert (again.name.text, again.select_text) == (view.name.text, view.select_text)
        assert again.select == view.select


def test_a_view_is_dropped_as_a_query():
    (drop,) = parse("DROP VIEW IF EXISTS v")
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name.text, drop.if_exists) == ("QUERY", "v", True)
