"""Changes of groups: pages cut anywhere and restarts give what the oracle gives, and groups are forgotten in time."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import TS, Schema
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.windows.changes import Changes
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer, as_multiset
from headrace.testing.oracle.rows import Row

SCHEMA = Schema.of(k=Type.STRING, v=Type.BIGINT)
K, V = Column("k", Type.STRING), Column("v", Type.BIGINT)
CALLS = (AggregateCall("n", "count", None, Type.BIGINT), AggregateCall("m", "max", V, Type.BIGINT))
N, M = Column("n", Type.BIGINT), Column("m", Type.BIGINT)
SMALL: Expr = Call("<", (N, Literal(3, Type.BIGINT)), Type.BOOLEAN)
ROWS: list[tuple[int, dict[str, Any]]] = [
    (1, {"k": "a", "v": 1}),
    (1, {"k": "a", "v": 4}),
    (2, {"k": "b", "v": None}),
    (2, {"k": None, "v": 2}),
    (4, {"k": "a", "v": 2}),
    (5, {"k": "a", "v": 9}),
    (9, {"k": "a", "v": 1}),
    (9, {"k": None, "v": 3}),
]


def spec(ttl: int, condition: Expr | None = None, columns: tuple[tuple[str, Expr], ...] = ()) -> Changes:
    return Changes((("k", K),), CALLS, ttl, columns or (("k", K), ("n", N), ("m", M)), condition, "change")


def page(rows: list[tuple[int, dict[str, Any]]]) -> Page:
    return page_of(SCHEMA, [row for _, row in rows], [ts for ts, _ in rows])


@pytest.mark.parametrize("ttl", [1, 3, 4, 100])
@pytest.mark.parametrize("condition", [None, SMALL], ids=["all", "some"])
def test_it_gives_what_the_oracle_gives(ttl: int, condition: Expr | None) -> None:
    made = spec(ttl, condition)
    plan = nodes.Changes(nodes.Scan("s", SCHEMA), made.keys, CALLS, ttl, made.columns, condition, "change")
    expected = answer(plan, {"s": [Row(ts, row, at) for at, (ts, row) in enumerate(ROWS)]})
    found = check_operator(made, [(0, page(ROWS[:3])), (0, page(ROWS[3:6])), (0, page(ROWS[6:]))])
    assert as_multiset(found) == as_multiset(expected)


def changes(operator: Any, bound: int) -> list[tuple[Any, ...]]:
    pages = [element for element in operator.on_punctuation(0, Punctuation(bound)) if isinstance(element, Page)]
    return [row for made in pages for row in made.rows.drop(TS).rows()]


def test_the_old_row_comes_before_the_new_one_and_a_row_that_stays_does_not_come() -> None:
    operator = spec(100, columns=(("k", K), ("m", M))).build()
    operator.on_page(0, page(ROWS))
    assert changes(operator, 100) == [
        ("a", 4, "insert"),
        (None, 2, "insert"),
        ("b", None, "insert"),
        ("a", 4, "update_before"),
        ("a", 9, "update_after"),
        (None, 2, "update_before"),
        (None, 3, "update_after"),
    ]


def test_groups_are_forgotten_once_their_time_is_over() -> None:
    operator: Any = spec(8).build()
    operator.on_page(0, page(ROWS[:4]))
    changes(operator, 3)
    assert operator.held() == 3
    changes(operator, 10)  # those of 1 would begin anew
    assert operator.held() == 2
    changes(operator, 1_000)
    assert operator.held() == 0
    assert set(operator.state()) == {"swept"}
