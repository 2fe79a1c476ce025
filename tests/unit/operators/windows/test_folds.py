"""Aggregates in SQL: generated Python beside the oracle, which takes statement by statement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.define import define_aggregate
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateAggregate
from headrace.model.expressions.expression import TRUE, Column
from headrace.model.fold import STEP_FUNCTIONS
from headrace.model.types import ArrayType
from headrace.model.window import AggregateCall
from headrace.operators.windows import fold_rows
from headrace.operators.windows.fold_code import code_of
from headrace.operators.windows.fold_functions import KNOWN
from headrace.operators.windows.fold_vectors import vectors_of
from headrace.operators.windows.folds import fold_lists
from headrace.plan.binding.fold import fold_of
from headrace.plan.binding.fold_calls import compiled, hoisted
from headrace.testing.oracle.expressions import folded, value_of


def defined(text: str) -> tuple[AggregateCall, int]:
    """Return a call of an aggregate over columns x, y, ... of the types that it declares."""
    (statement,) = parse(text)
    assert isinstance(statement, CreateAggregate)
    aggregate = define_aggregate(statement)
    args = {f".{param.name}": Column(param.name, param.type) for param in aggregate.params}
    steps, values = hoisted(fold_of(aggregate), args)
    return AggregateCall("r", "fold", TRUE, ArrayType(aggregate.result), values, steps), len(values)


def test_every_function_that_steps_may_use_has_code() -> None:
    assert KNOWN == STEP_FUNCTIONS


_NUMBERS = ("t", "u", "x", "y", "1", "-2", "NULL", "2.5")
_CONDITIONS = ("t < x", "u >= t", "x = y", "t IS NULL", "NOT (t > u)", "x <=> t", "t IN (1, 2, u)", "x > 1 AND t < 3",
               "t > 0 OR u IS NULL")  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Draw an aggregate with a table of one row and one of several."""

    def number(depth: int = 2, *, state: bool = True) -> str:
        atoms = [atom for atom in _NUMBERS if state or atom not in ("t", "u")]
        if depth == 0 or draw(st.integers(0, 2)) == 0:
            return draw(st.sampled_from(atoms))
        first, second = number(depth - 1, state=state), number(depth - 1, state=state)
        shapes = ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})", "coalesce({}, {})",
                  "nullif({}, {})", "greatest({}, {})", "least({}, {})"]  # fmt: skip
        if state:
            shapes.append("CASE WHEN " + draw(st.sampled_from(_CONDITIONS)) + " THEN {} ELSE {} END")
            shapes.append("abs({} - sign({}))")
        return draw(st.sampled_from(shapes)).format(first, second)

    changed = ", ".join(f"{column} = {number()}" for column in draw(st.sampled_from([("t",), ("u",), ("t", "u")])))
    where = draw(st.sampled_from(["", *(f" WHERE {condition}" for condition in _CONDITIONS)]))
    keep = draw(st.sampled_from(["", " KEEP 2 ROWS"]))
    removed = draw(st.sampled_from(["", "DELETE FROM seen WHERE z < y;", "UPDATE seen SET z = z + y WHERE z <> x;"]))
    return f"""CREATE AGGREGATE f(x BIGINT, y DOUBLE) RETURNS DOUBLE {{
      TABLE state(t DOUBLE, u DOUBLE); TABLE seen(z DOUBLE){keep};
      INITIALIZE: INSERT INTO state VALUES ({number(state=False)}, {number(state=False)});
      ITERATE: UPDATE state SET {changed}{where};
        INSERT INTO seen VALUES (x) WHERE NOT EXISTS (SELECT * FROM seen WHERE z = x);
        {removed}
        INSERT INTO RETURN SELECT {number()} FROM state{where};
      TERMINATE: INSERT INTO RETURN SELECT z FROM seen; INSERT INTO RETURN SELECT t - u FROM state;
    }}"""


_VALUES = st.tuples(st.integers(-3, 3), st.sampled_from([0.0, 1.5, -2.0, 3.0, math.nan, math.inf]))


def _key(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(body=bodies(), rows=st.lists(_VALUES, min_size=1, max_size=6), cut=st.integers(0, 6))
def test_code_agrees_with_the_oracle_however_tuples_are_cut(body: str, rows: list[tuple[int, float]], cut: int) -> None:
    call, count = defined(body)
    assert call.fold is not None
    frame = [{"x": x, "y": y} for x, y in rows]
    given_ = _arguments(call, frame)
    expected = folded(call, given_)
    tuples = [row[0] for row in given_] if count == 1 else given_
    nulls = tuple(any(row[i] is None for row in given_) for i in range(count))
    code = code_of(call.fold, nulls)
    assert list(map(_key, code.whole(tuples))) == [_key(value) for result in expected for value in result]
    state, returned = code.run(None, tuples[:cut]) if cut else (None, [])
    if tuples[cut:]:
        _, later = code.run(state, tuples[cut:])
        returned = returned + later
    assert [list(map(_key, result)) for result in returned] == [list(map(_key, r)) for r in expected[:-1]]


_PLAIN = ("t", "u", "x", "y", "1", "-2", "2.5")
_CLEAR = ("t < x", "u >= t", "y = t", "NOT (t > u)", "x > 1 AND t < 3", "t > 0 OR y <> u", "t <= y")


@st.composite
def bodies_of_numbers(draw: st.DrawFn) -> str:
    """Draw an aggregate whose values are never NULL, so that many groups can take a step together."""

    def number(depth: int = 2, *, state: bool = True) -> str:
        if depth == 0 or draw(st.integers(0, 2)) == 0:
            return draw(st.sampled_from([atom for atom in _PLAIN if state or atom not in ("t", "u")]))
        shapes = ["({} + {})", "({} - {})", "({} * {})", "greatest({}, {})", "least({}, {})", "abs({} - -({}))"]
        if state:
            shapes.append("CASE WHEN " + draw(st.sampled_from(_CLEAR)) + " THEN {} ELSE {} END")
        return draw(st.sampled_from(shapes)).format(number(depth - 1, state=state), number(depth - 1, state=state))

    sets = draw(st.sampled_from([f"t = {number()}", f"u = {number()}, t = {number()}", "t = u, u = t"]))
    where = draw(st.sampled_from(["", *(f" WHERE {condition}" for condition in _CLEAR)]))
    keep = draw(st.sampled_from(["", " KEEP 2 ROWS", " KEEP 3 ROWS"]))
    rows = draw(st.lists(st.sampled_from(_ROWS), max_size=3))
    return f"""CREATE AGGREGATE f(x INT, y DOUBLE) RETURNS DOUBLE {{ TABLE state(t DOUBLE, u DOUBLE, n BIGINT);
      TABLE seen(z DOUBLE, m BIGINT){keep};
      INITIALIZE: INSERT INTO state VALUES ({number(state=False)}, {number(state=False)}, x * 4611686018427387904);
        {draw(st.sampled_from(["", *_ROWS]))}
      ITERATE: UPDATE state SET {sets}{where}; UPDATE state SET n = n * 3 + x WHERE {draw(st.sampled_from(_CLEAR))};
        {" ".join(rows)}
      TERMINATE: INSERT INTO RETURN SELECT t FROM state; INSERT INTO RETURN SELECT u FROM state WHERE n > 0;
        INSERT INTO RETURN SELECT z FROM seen WHERE z < 2; INSERT INTO RETURN SELECT m FROM seen;
        {draw(st.sampled_from(["", "INSERT INTO RETURN SELECT n % 1000 FROM state;"]))}
    }}"""


#: Steps on a table of several rows.
_ROWS = (
    "INSERT INTO seen VALUES (y, x);",
    "INSERT INTO seen VALUES (x, 1) WHERE NOT EXISTS (SELECT * FROM seen WHERE z = x);",
    "INSERT INTO seen VALUES (2, x) WHERE x > 1 AND EXISTS (SELECT * FROM seen WHERE z <= y);",
    "INSERT INTO seen SELECT t, n FROM state WHERE x > 1;",
    "UPDATE seen SET m = m + x, z = z + 1 WHERE z = x;",
    "UPDATE seen SET z = m, m = m * 3;",
    "DELETE FROM seen WHERE z < y;",
    "INSERT INTO RETURN VALUES (y) WHERE NOT EXISTS (SELECT * FROM seen);",
    "INSERT INTO RETURN SELECT z - y FROM seen WHERE m <> x;",
    "INSERT INTO RETURN VALUES (x);",
)


_TIMED = st.lists(st.tuples(st.integers(0, 4), _VALUES), max_size=9)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(body=bodies_of_numbers(), groups=st.lists(_TIMED, min_size=1, max_size=5))
def test_groups_that_take_steps_together_return_what_each_returns_alone(
    body: str, groups: list[list[tuple[int, tuple[int, float]]]]
) -> None:
    call, count = defined(body)
    assert call.fold is not None
    assert vectors_of(call.fold, (False,) * count) is not None
    given_ = [_arguments(call, [{"x": x, "y": y} for _, (x, y) in group]) for group in groups]
    frame = pl.DataFrame({"ts": [[ts for ts, _ in group] for group in groups]}, schema={"ts": pl.List(pl.Int64)})
    types = [pl.List(expr.type.polars) for expr in call.more]
    lists = [pl.Series(f"v{i}", [[row[i] for row in rows] for rows in given_], type_) for i, type_ in enumerate(types)]
    together, alone = (
        [list(map(_key, result)) for result in fold_lists([frame["ts"], *lists], call.fold, least)]
        for least in (2, 1000)
    )
    assert together == alone
    in_order = [
        [row for _, row in sorted(zip(frame["ts"][i].to_list(), rows, strict=True), key=_place)]
        for i, rows in enumerate(given_)
    ]
    expected = [[value for result in folded(call, rows) for value in result] if rows else [] for rows in in_order]
    assert alone == [list(map(_key, result)) for result in expected]


def _place(timed: tuple[int, tuple[Any, ...]]) -> Any:
    ts, row = timed
    return ts, [(value != value, 0 if value != value else value) for value in row]


def test_steps_that_may_meet_null_take_single_groups() -> None:
    for body in (
        "TABLE state(t DOUBLE); INITIALIZE: INSERT INTO state VALUES (x); ITERATE: UPDATE state SET t = t / x;",
        "TABLE state(t STRING); INITIALIZE: INSERT INTO state VALUES ('a'); ITERATE: UPDATE state SET t = t || 'a';",
        "TABLE state(t DOUBLE); ITERATE: INSERT INTO state SELECT x FROM state; INSERT INTO state VALUES (x);",
    ):
        last = "TERMINATE: INSERT INTO RETURN SELECT 1.0 FROM state;"
        call, count = defined(f"CREATE AGGREGATE f(x DOUBLE) RETURNS DOUBLE {{ {body} {last} }}")
        assert call.fold is not None
        assert vectors_of(call.fold, (False,) * count) is None


@pytest.mark.parametrize("length", [fold_rows.MOST_ROWS // 2, fold_rows.MOST_ROWS + 40])
@pytest.mark.parametrize("keep", ["", " KEEP 300 ROWS"])
def test_groups_of_many_rows_and_a_few_long_ones(length: int, keep: str) -> None:
    """Tables that grow too large for steps together are handed over, and groups that end early are kept."""
    call, _ = defined(
        f"CREATE AGGREGATE f(x INT) RETURNS INT {{ TABLE seen(z INT){keep}; "
        "INITIALIZE: ITERATE: INSERT INTO seen VALUES (x); DELETE FROM seen WHERE z = x - 7 AND z % 3 = 0; "
        "INSERT INTO RETURN SELECT z FROM seen WHERE z = x - 5; TERMINATE: INSERT INTO RETURN SELECT z FROM seen; }"
    )
    assert call.fold is not None
    lengths = [3, length, 40, 0, length + 9, 1, 100]
    lists = [pl.Series("ts", [list(range(count)) for count in lengths]) for _ in range(2)]
    columns = [lists[0], lists[1].cast(pl.List(pl.Int32))]
    assert list(fold_lists(columns, call.fold, 2)) == list(fold_lists(columns, call.fold, 1000))


@pytest.mark.parametrize(
    ("first", "then", "argument"),
    [
        ("x", "p * x", 0),
        ("x", "x * p", 0),
        ("x", "p * x WHERE x > 1", None),
        ("x", "p * p", None),
        ("x", "p + x", None),
        ("1", "p * x", None),
        ("2 * x", "p * x", None),
    ],
)
def test_a_product_is_multiplied_in_the_order_of_time(first: str, then: str, argument: int | None) -> None:
    call, count = defined(
        f"CREATE AGGREGATE f(x DOUBLE) RETURNS DOUBLE {{ TABLE state(p DOUBLE); INITIALIZE: INSERT INTO state VALUES "
        f"({first}); ITERATE: UPDATE state SET p = {then}; TERMINATE: INSERT INTO RETURN SELECT p FROM state; }}"
    )
    if call.fold is None:  # a built-in aggregate does it
        assert then == "p + x"
        return
    vectors = vectors_of(call.fold, (False,) * count)
    assert vectors is not None
    assert vectors.product_of == argument
    chance = np.random.default_rng(7)
    lengths = [3, 0, 1, 500, 2, 40]
    times = pl.Series("ts", [chance.permutation(length).tolist() for length in lengths], pl.List(pl.Int64))
    values = pl.Series("v", [chance.uniform(-2, 2, length).tolist() for length in lengths], pl.List(pl.Float64))
    columns = [times, *[values] * count]
    together, alone = (list(fold_lists(columns, call.fold, least)) for least in (1, 1000))
    assert together == alone


_EXTREMES = ["max", "min"]


def _arguments(call: AggregateCall, frame: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(value_of(expr, row) for expr in call.more) for row in frame]


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        ("INSERT INTO state VALUES (x, 1); ITERATE: UPDATE state SET a = a + x, b = b + 1", ["sum", "sum"]),
        (
            "INSERT INTO state VALUES (x, x); ITERATE: UPDATE state SET a = greatest(a, x), b = least(x, b)",
            ["max", "min"],
        ),
        ("INSERT INTO state VALUES (x * x, 2); ITERATE: UPDATE state SET a = x * x + a, b = b + 2", ["sum", "sum"]),
        ("INSERT INTO state VALUES (x, 0); ITERATE: UPDATE state SET a = a + x, b = b + 1", None),  # the first differs
        ("INSERT INTO state VALUES (x, 1); ITERATE: UPDATE state SET a = a * 2 + x, b = b + 1", None),  # order matters
        ("INSERT INTO state VALUES (10 / x, 1); ITERATE: UPDATE state SET a = a + 10 / x, b = b + 1", None),  # NULL
        ("INSERT INTO state VALUES (x, 1); ITERATE: UPDATE state SET a = a + x, b = b + 1 WHERE x > 0", None),
    ],
)
def test_sums_and_extremes_become_built_in_aggregates(body: str, functions: list[str] | None) -> None:
    text = f"""CREATE AGGREGATE f(x DOUBLE) RETURNS DOUBLE {{ TABLE state(a DOUBLE, b BIGINT);
      INITIALIZE: {body}; TERMINATE: INSERT INTO RETURN SELECT a / b FROM state; }}"""
    text = text.replace("b BIGINT", "b DOUBLE") if "least" in body else text
    (statement,) = parse(text)
    assert isinstance(statement, CreateAggregate)
    made: list[str] = []

    def builtin(function: str, arg: Any, type_: Any) -> Column:
        made.append(function)
        return Column(f"c{len(made)}", type_)

    args = {".x": Column("v", define_aggregate(statement).params[0].type)}
    value = compiled(fold_of(define_aggregate(statement)), args, None, builtin)
    assert (value is None) == (functions is None)
    assert functions is None or made == functions
