"""Membership: pages cut anywhere give what the oracle gives, with NULL on either side, for any table."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Column, Expr
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.joins.membership import Membership
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer, as_multiset
from headrace.testing.oracle.rows import Row

pytestmark = pytest.mark.slow

STREAM = Schema.of(a=Type.INT, s=Type.STRING)
TABLE = Schema.of(k=Type.INT, t=Type.STRING)
A, S, K, T = (
    Column("a", Type.INT),
    Column("s", Type.STRING),
    Column("k", Type.INT),
    Column("t", Type.STRING),
)
NAMES = ("b.k", "b.t")
SMALLER: Expr = Call("<", (A, Column("b.k", Type.INT)), Type.BOOLEAN)
NAMED: Expr = Call("not", (Call("is_null", (Column("b.t", Type.STRING),), Type.BOOLEAN),), Type.BOOLEAN)
Pairs = tuple[tuple[Expr, Expr], ...]
FORMS: dict[str, tuple[Pairs, Pairs, Expr | None]] = {
    "exists": ((), (), None),
    "exists of a key": (((A, K),), (), None),
    "exists of a key and a condition": (((S, T),), (), SMALLER),
    "in": ((), ((A, K),), None),
    "in some": ((), ((A, K),), NAMED),
    "in some of a key": (((S, T),), ((A, K),), None),
    "in with a condition": ((), ((S, T),), SMALLER),
    "two in": ((), ((A, K), (S, T)), None),
    "two in with conditions": ((), ((A, K), (S, T)), Call("and", (SMALLER, NAMED), Type.BOOLEAN)),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_gives_what_the_oracle_gives(form: str) -> None:
    keys, compared, residual = FORMS[form]
    numbers, texts = st.none() | st.integers(0, 2), st.none() | st.sampled_from(["", "x"])
    rows = st.lists(st.tuples(numbers, texts), max_size=5)

    @settings(deadline=None, max_examples=25)
    @given(rows, rows, st.integers(0, 5))
    def check(stream: list[tuple[Any, Any]], table: list[tuple[Any, Any]], cut: int) -> None:
        entries = [dict(zip(TABLE.names, row, strict=True)) for row in table]
        tuples = [dict(zip(STREAM.names, row, strict=True)) for row in stream]
        stored = Page(pl.DataFrame(table, schema=TABLE.polars(), orient="row")).encode()
        spec = Membership(stored, TABLE, "m", keys, compared, residual, NAMES)
        halves = ((0, min(cut, len(tuples))), (cut, len(tuples)))
        pages = [(0, page_of(STREAM, tuples[a:b], range(a, b))) for a, b in halves if tuples[a:b]]
        plan = nodes.Membership(nodes.Scan("s", STREAM), "m", "b", TABLE, keys, compared, residual, NAMES)
        expected = answer(plan, {"s": [Row(at, row, at) for at, row in enumerate(tuples)]}, {"b": entries})
        assert as_multiset(check_operator(spec, pages)) == as_multiset(expected)

    check()


def test_it_is_stateless_and_survives_json() -> None:
    spec = Membership(Page(pl.DataFrame(schema=TABLE.polars())).encode(), TABLE, "m", ((A, K),), (), SMALLER, NAMES)
    assert spec.is_stateless
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Membership) == spec
    assert spec.describe() == "m: a row of the table with a = `b.k` and a < `b.k`"


N, HIGH = Column("n", Type.BIGINT), Column("high", Type.INT)
CALLS = (AggregateCall("n", "count", None, Type.BIGINT), AggregateCall("high", "max", K, Type.INT))
VALUES: dict[str, tuple[Pairs, Expr | None, Expr]] = {
    "of all": ((), None, N),
    "of some": ((), NAMED, HIGH),
    "of a key": (((S, T),), None, HIGH),
    "of a key and a condition": (((A, K),), NAMED, Call("+", (N, N), Type.BIGINT)),
    "of two keys": (((A, K), (S, T)), None, N),
}


@pytest.mark.parametrize("form", VALUES)
def test_a_value_is_that_of_the_oracle(form: str) -> None:
    keys, residual, value = VALUES[form]
    numbers, texts = st.none() | st.integers(0, 2), st.none() | st.sampled_from(["", "x"])
    rows = st.lists(st.tuples(numbers, texts), max_size=5)

    @settings(deadline=None, max_examples=25)
    @given(rows, rows)
    def check(stream: list[tuple[Any, Any]], table: list[tuple[Any, Any]]) -> None:
        entries = [dict(zip(TABLE.names, row, strict=True)) for row in table]
        tuples = [dict(zip(STREAM.names, row, strict=True)) for row in stream]
        stored = Page(pl.DataFrame(table, schema=TABLE.polars(), orient="row")).encode()
        spec = Membership(stored, TABLE, "m", keys, (), residual, NAMES, calls=CALLS, value=value)
        plan = nodes.Membership(nodes.Scan("s", STREAM), "m", "b", TABLE, keys, (), residual, NAMES, CALLS, value)
        expected = answer(plan, {"s": [Row(at, row, at) for at, row in enumerate(tuples)]}, {"b": entries})
        found = check_operator(spec, [(0, page_of(STREAM, tuples, range(len(tuples))))])
        assert as_multiset(found) == as_multiset(expected)

    check()


def test_a_value_survives_json() -> None:
    empty = Page(pl.DataFrame(schema=TABLE.polars())).encode()
    spec = Membership(empty, TABLE, "m", ((A, K),), (), NAMED, NAMES, calls=CALLS, value=HIGH)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Membership) == spec
    assert spec.describe() == "m: high over count, max(k) of the table with a = `b.k` and `b.t` IS NOT NULL"
