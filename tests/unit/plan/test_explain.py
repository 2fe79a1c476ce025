"""Plans as text and JSON."""

from __future__ import annotations

import msgspec
import pytest

import headrace
from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.schema import Schema
from headrace.model.time import DAY, MINUTE, SECOND
from headrace.model.types import Type
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
from headrace.plan.explain import as_json, explain, format_window
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

A = Column("a", Type.INT)
POSITIVE = Call(">", (A, Literal(0, Type.INT)), Type.BOOLEAN)


def every_node() -> Node:
    s, t = Scan("s", Schema.of(a=Type.INT, b=Type.STRING)), Scan("t.late", Schema.of(a=Type.INT, b=Type.STRING))
    union = Union((Filter(s, POSITIVE), Order(t)))
    narrow = Project(t, (("a", A), ("twice", Call("+", (A, A), Type.BIGINT))))
    residual = Call("<>", (Column("b", Type.STRING), Column("v", Type.STRING)), Type.BOOLEAN)
    join = Join(union, narrow, "left", ((A, A),), None, Extent(span=MINUTE), Extent(rows=3, by=(A,)), ("a2", "twice"))
    table = TableJoin(join, "places", Schema.of(k=Type.INT, v=Type.STRING), "inner", ((A, "k"),), residual, ("k", "v"))
    count = AggregateCall("n", "count", None, Type.BIGINT)
    return Distinct(Aggregate(table, Range(MINUTE, MINUTE), (("g", Column("b", Type.STRING)),), (count,)), 10 * SECOND)


def test_a_plan_explains_itself_one_line_a_node() -> None:
    assert explain(every_node()).splitlines() == [
        "Distinct within 10 s",
        "  Aggregate count(*) AS n OVER [RANGE 1 min] GROUP BY b AS g",
        "    Join INNER table places ON a = k AND b <> v (table: k, v)",
        "      Join LEFT [RANGE 1 min] with [PARTITION BY a ROWS 3] ON a = a2 (right: a AS a2, twice)",
        "        Union",
        "          Filter a > 0",
        "            Scan s (a, b)",
        "          Order by time",
        "            Scan t.late (a, b)",
        "        Project a, a + a AS twice",
        "          Scan t.late (a, b)",
    ]


def test_a_sequence_explains_itself_and_comes_back_from_its_json() -> None:
    s, t = Scan("s", Schema.of(a=Type.INT)), Scan("t", Schema.of(a=Type.INT))
    plan = SequenceJoin(s, t, "chronicle", True, ((A, A),), POSITIVE, MINUTE, ("b",))
    assert explain(plan).splitlines() == [
        "Join FOLLOWING CHRONICLE INCLUSIVE [RANGE 1 min] ON a = b AND a > 0 (right: a AS b)",
        "  Scan s (a)",
        "  Scan t (a)",
    ]
    assert (
        explain(SequenceJoin(s, t, "recent", False, (), None, None, ("b",))).splitlines()[0]
        == "Join FOLLOWING RECENT [UNBOUNDED] (right: a AS b)"
    )
    assert msgspec.json.decode(as_json(plan), type=Node) == plan


def test_a_plan_comes_back_from_its_json() -> None:
    plan = every_node()
    assert msgspec.json.decode(as_json(plan), type=Node) == plan


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Range(MINUTE, 10 * SECOND), "[RANGE 1 min SLIDE 10 s]"),
        (Cumulative(DAY, MINUTE), "[RANGE 1 d STEP 1 min]"),
        (Sliding(MINUTE), "[RANGE 1 min SLIDE TUPLE]"),
        (Sliding(None), "[UNBOUNDED SLIDE TUPLE]"),
        (Rows(4, 4), "[ROWS 4]"),
        (Rows(4, 2, (A,)), "[PARTITION BY a ROWS 4 SLIDE 2]"),
        (Session(30 * SECOND), "[SESSION 30 s]"),
        (Landmark(DAY, MINUTE), "[LANDMARK FROM '1970-01-02 00:00:00' SLIDE 1 min]"),
        (Landmark(None, MINUTE), "[UNBOUNDED SLIDE 1 min]"),
        (While(POSITIVE), "[WHILE a > 0]"),
    ],
)
def test_a_window_prints_as_it_is_written(window: Window, text: str) -> None:
    assert format_window(window) == text


def test_a_call_with_over_is_shown_as_what_it_computes() -> None:
    with headrace.Session(host="local") as session:
        session.execute("CREATE STREAM s (at TIMESTAMP, a INT, b INT) TIMESTAMP BY at FROM MEMORY")
        shown = session.explain(
            "SELECT a, sum(a + b) OVER (PARTITION BY a ORDER BY at) - lag(b) OVER (ORDER BY at) AS c FROM s;"
            "SELECT a, b FROM s [RANGE 1 MINUTE] QUALIFY rank() OVER (PARTITION BY a ORDER BY b) < 3"
        )
    assert "$" not in shown
    assert "Project a, sum(a + b) OVER w0 - CASE WHEN count(*) OVER w1 = 2 THEN first(b) OVER w1 END AS c" in shown
    assert "Over sum(a + b) PARTITION BY a RANGE UNBOUNDED PRECEDING (w0)" in shown
    assert "Filter rank() OVER (PARTITION BY a ORDER BY b) < 3" in shown
