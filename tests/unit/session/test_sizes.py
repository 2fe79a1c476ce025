"""What is accepted runs, and what is too large is refused with a place: model/limits.py."""

from __future__ import annotations

import datetime as dt

import pytest

from headrace.errors import HeadraceError, NotSupported
from headrace.model import limits
from headrace.session import Session

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v INT, n STRING) TIMESTAMP BY at FROM MEMORY;"


def answer(statements: str) -> list[dict[str, object]]:
    """Return the results of query q over one tuple with k = 1, v = 2 and n = 'a'."""
    with Session(host="local") as session:
        session.execute(STREAM + statements)
        session.push("s", [{"at": START, "k": 1, "v": 2, "n": "a"}])
        session.drain(60)
        return session.results("q")


def refusal(statements: str) -> str:
    """Return the error of statements, which has a place and changes nothing."""
    with Session(host="local") as session:
        with pytest.raises(HeadraceError) as caught:
            session.execute(STREAM + statements)
        assert caught.value.span is not None
        assert not session.catalog.names()
    return caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT v FROM s WHERE " + " AND ".join(f"v <> {i + 10}" for i in range(1_000)), {"v": 2}),
        ("SELECT v FROM s WHERE " + " OR ".join(f"(v = {i} AND k = 1)" for i in range(400)), {"v": 2}),
        ("SELECT " + " || ".join("n" for _ in range(500)) + " AS t FROM s", {"t": "a" * 500}),
        ("SELECT " + " + ".join("v" for _ in range(limits.EXPRESSION_DEPTH + 1)) + " AS t FROM s", {"t": 202}),
        ("SELECT v FROM s WHERE v IN (" + ", ".join(map(str, range(2_000))) + ")", {"v": 2}),
        ("SELECT count(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 MILLISECOND] LIMIT 1", {"n": 1}),
    ],
    ids=["and", "or", "concatenation", "sum", "in", "windows"],
)
def test_the_largest_statements_run(select: str, expected: dict[str, object]) -> None:
    assert answer(f"CREATE QUERY q AS {select} INTO MEMORY") == [expected]


def test_many_parts_of_a_union_and_many_joins_run() -> None:
    union = " UNION ALL ".join(f"SELECT v FROM s WHERE v > {i - 300}" for i in range(300))
    assert len(answer(f"CREATE QUERY q AS {union} INTO MEMORY")) == 300
    items = ", ".join(f"s [RANGE 1 SECOND] AS a{i}" for i in range(limits.JOINS + 1))
    equal = " AND ".join(f"a{i}.k = a0.k" for i in range(1, limits.JOINS + 1))
    assert answer(f"CREATE QUERY q AS SELECT a0.v FROM {items} WHERE {equal} INTO MEMORY") == [{"v": 2}]


def test_a_filter_over_columns_that_double_at_each_level_stays_small() -> None:
    select = "SELECT v FROM s"
    for _ in range(30):
        select = f"SELECT v + v AS v FROM ({select}) AS a"
    assert answer(f"CREATE QUERY q AS SELECT v FROM ({select}) AS b WHERE v > 3 INTO MEMORY") == [{"v": 2 * 2**30}]


def test_projections_are_merged_only_up_to_the_depth_that_runs() -> None:
    deep = " + ".join(["v"] + ["1"] * 90)
    nested = f"SELECT {deep} AS v FROM (SELECT {deep} AS v FROM (SELECT {deep} AS v FROM s) AS a) AS b"
    assert answer(f"CREATE QUERY q AS {nested} INTO MEMORY") == [{"v": 2 + 270}]


def test_views_that_read_a_view_twice_are_planned_once() -> None:
    views = "CREATE VIEW v0 AS SELECT k, v FROM s WHERE v > 0;"
    for level in range(10):
        views += f"CREATE VIEW v{level + 1} AS SELECT k, v FROM v{level} UNION ALL SELECT k, v FROM v{level};"
    assert answer(views + "CREATE QUERY q AS SELECT count(*) AS n FROM v10 [RANGE 1 MINUTE] INTO MEMORY") == [
        {"n": 2**10}
    ]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT " + " + ".join("v" for _ in range(200)) + " AS t FROM s", "nested more than 100 levels"),
        ("SELECT " + "(" * 500 + "v" + ")" * 500 + " AS t FROM s", "nested too deeply"),
        ("SELECT v FROM s WHERE v IN (" + "1, " * limits.IN_VALUES + "1)", "IN has 20,001 values"),
        ("SELECT " + ", ".join(f"v AS c{i}" for i in range(limits.COLUMNS + 1)) + " FROM s", "SELECT has 2,001"),
        ("SELECT a.v FROM s [NOW] AS a" + ", s [NOW]" * (limits.JOINS + 1), "FROM has 33 joins"),
        ("SELECT count(*) AS n FROM s [RANGE 10 MINUTES SLIDE 1 MILLISECOND]", "each tuple would be in 600,000"),
        ("SELECT lpad(n, 2000000000, 'y') AS n FROM s", "lpad cannot make a text of 2,000,000,000"),
    ],
    ids=["sum", "parentheses", "in", "columns", "joins", "windows", "padding"],
)
def test_what_is_too_large_is_refused_with_its_place(statement: str, message: str) -> None:
    assert message in refusal(f"CREATE QUERY q AS {statement} INTO MEMORY")


@pytest.mark.slow
def test_views_that_read_each_other_too_often_or_too_deeply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAN_NODES", 2_000)
    views = "CREATE VIEW v0 AS SELECT k, v FROM s WHERE v > 0;"
    doubled = "".join(
        f"CREATE VIEW v{i + 1} AS SELECT k, v FROM v{i} UNION ALL SELECT k, v FROM v{i};" for i in range(40)
    )
    assert "more than 2,000 operators" in refusal(views + doubled)
    chained = "".join(f"CREATE VIEW v{i + 1} AS SELECT DISTINCT k, v FROM v{i} [RANGE 1 SECOND];" for i in range(110))
    assert "100 operators one behind the other" in refusal(views + chained)


def test_a_stream_with_too_many_columns_is_refused() -> None:
    columns = ", ".join(f"c{i} INT" for i in range(limits.COLUMNS + 1))
    assert "2,001 columns" in refusal(f"CREATE STREAM wide ({columns}) FROM MEMORY")


def test_an_event_of_too_many_parts_is_refused() -> None:
    parts = " SEQUENCE ".join(f"s AS a{i}" for i in range(60))
    assert "operators and parts" in refusal(f"CREATE EVENT e AS {parts}")


@pytest.mark.parametrize("options", ["tries 1000000000", "timeout '400 days'"])
def test_the_effort_for_a_call_is_limited(options: str) -> None:
    rule = f"CREATE EVENT e AS SELECT k FROM s; CREATE RULE r WITH ({options}) ON e DO CALL webhook('http://h/')"
    assert "must be at most" in refusal(rule)


def test_nested_conditions_count_the_levels_that_run() -> None:
    condition = "v = 0"
    for level in range(20):
        operator = "OR" if level % 2 else "AND"
        condition = f"({condition} {operator} " + f" {operator} ".join(f"v = {i}" for i in range(31)) + ")"
    with pytest.raises(NotSupported, match="nested more than 100 levels"):
        answer(f"CREATE QUERY q AS SELECT v FROM s WHERE {condition} INTO MEMORY")


def test_a_value_that_doubles_with_each_step_becomes_null():
    select = """CREATE QUERY q AS SELECT aggregate(sequence(1, 60), n, (a, x) -> a || a) AS text,
      size(aggregate(sequence(1, 60), array(k), (a, x) -> flatten(array(a, a)))) AS items,
      aggregate(sequence(1, 3), n, (a, x) -> a || a) AS short, length(repeat(repeat(n, 1000), 1000000)) AS repeated,
      length(repeat(repeat(n, 1000), 1000)) AS long FROM s INTO MEMORY"""
    null = dict.fromkeys(("text", "items", "repeated"))
    assert answer(select) == [{**null, "short": "a" * 8, "long": 1_000_000}]


DOUBLING = """CREATE AGGREGATE doubling(x STRING) RETURNS STRING {
  TABLE held(y STRING);
  INITIALIZE: INSERT INTO held VALUES (x);
  ITERATE: UPDATE held SET y = y || y;
  TERMINATE: INSERT INTO RETURN SELECT y FROM held; };"""
REPEATING = """CREATE AGGREGATE doubling(x STRING) RETURNS STRING {
  TABLE held(y STRING);
  INITIALIZE: INSERT INTO held VALUES (x);
  ITERATE: INSERT INTO held SELECT y FROM held;
  TERMINATE: INSERT INTO RETURN SELECT y FROM held; };"""


@pytest.mark.parametrize(
    ("aggregate", "fails"), [(DOUBLING, False), pytest.param(REPEATING, True, marks=pytest.mark.slow)]
)
def test_an_aggregate_in_sql_that_doubles_its_rows_takes_no_more_memory_than_the_limit(aggregate, fails):
    query = "CREATE QUERY q AS SELECT doubling(n) AS n FROM s [RANGE 1 MINUTE] INTO MEMORY"
    with Session(host="local") as session:
        session.execute(STREAM + aggregate + query)
        session.push("s", [{"at": START, "k": 1, "v": 2, "n": "a"}] * 60)
        if fails:
            with pytest.raises(HeadraceError, match="the table held of an aggregate has more than 1,000,000 rows"):
                session.drain(60)
        else:
            session.drain(60)
            assert session.results("q") == [{"n": None}]


def nested(first: str, step: str, times: int, last: str) -> str:
    text = first
    for _ in range(times):
        text = f"SELECT {step} AS a FROM ({text})"
    return f"SELECT {last} AS n FROM ({text})"


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (nested("SELECT t AS a FROM s", "a || a", 40, "length(a)"), None),
        (nested("SELECT t AS a FROM s", "hex(replace(a, '7', '77'))", 40, "length(a)"), None),
        (nested("SELECT array(v) AS a FROM s", "flatten(array(a, a))", 40, "size(a)"), None),
        pytest.param(
            nested("SELECT map(1, array(t)) AS a FROM s", "map(1, flatten(array(a[1], a[1])))", 40, "size(a[1])"), None,
            marks=pytest.mark.slow),
        (nested("SELECT t AS a FROM s", "a || a", 20, "length(a)"), 2**20),
        ("SELECT size(transform(sequence(v, 100000), x -> sequence(v, 100000))) AS n FROM s", None),
        ("SELECT size(transform(sequence(1, 100000), x -> sequence(1, 100000))) AS n FROM s", None),
        ("SELECT size(transform(sequence(v, 100000), x -> repeat(t, 1000000))) AS n FROM s", None),
        ("SELECT size(zip_with(sequence(v, 9000), sequence(v, 9000), (x, y) -> sequence(x, 9000))) AS n FROM s", None),
        ("SELECT size(transform(sequence(v, 500), x -> transform(sequence(v, 500), y -> sequence(y, 500)))) AS n"
         " FROM s", None),
        ("SELECT size(flatten(transform(sequence(v, 99), x -> sequence(v, 9999)))) AS n FROM s", 99 * 9999),
        ("SELECT aggregate(sequence(v, 40), v, (a, x) -> a + size(sequence(v, 100000))) AS n FROM s", 4_000_001),
    ],
)  # fmt: skip
def test_values_that_multiply_are_null_beyond_a_limit(select: str, expected: int | None) -> None:
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (v INT, t STRING) FROM MEMORY")
        session.execute(f"CREATE QUERY q AS {select} INTO MEMORY")
        session.push("s", [{"v": 1, "t": "7"}, {"v": None, "t": None}])
        session.drain()
        assert [row["n"] for row in session.results("q")] in ([expected, None], [expected, expected])


def test_elements_that_are_taken_a_few_at_a_time_are_those_of_their_rows() -> None:
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (v INT, xs ARRAY<INT>) FROM MEMORY")
        session.execute(
            "CREATE QUERY q AS SELECT v, transform(xs, x -> size(sequence(1, x + v))) AS n,"
            " filter(xs, x -> size(sequence(1, x)) > 2) AS long, exists(xs, x -> size(sequence(1, x)) = v) AS found"
            " FROM s INTO MEMORY"
        )
        rows = [{"v": v, "xs": None if v == 7 else [v % 5 + x for x in range(1, v % 9 + 1)]} for v in range(1, 40)]
        session.push("s", rows)
        session.drain()
        for row, found in zip(rows, sorted(session.results("q"), key=lambda row: row["v"]), strict=True):
            xs, v = row["xs"], row["v"]
            assert found["n"] == (None if xs is None else [x + v for x in xs])
            assert found["long"] == (None if xs is None else [x for x in xs if x > 2])
            assert found["found"] == (None if xs is None else v in xs)
