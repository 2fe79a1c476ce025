from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import EXPIRY, TS, Field, Schema
from headrace.model.time import BEGIN, END
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators import arrays
from headrace.operators.capabilities import held_by
from headrace.operators.joins.join import Join, JoinOperator
from headrace.operators.operator import Operator
from headrace.testing.contract import run_join

A = Schema.of(a=Type.STRING)
B = Schema.of(b=Type.STRING)
C = Schema.of(c=Type.STRING)
ONE = Literal(1, Type.INT)

LEFT = Schema.of(k=Type.INT, s=Type.STRING, v=Type.BIGINT)
RIGHT = Schema.of(k=Type.BIGINT, s=Type.STRING, w=Type.BIGINT)
RIGHT_NAMES = ("rk", "rs", "w")
KEYS: dict[str, tuple[tuple[Expr, Expr], ...]] = {
    "none": (),
    "integer": ((Column("k", Type.INT), Column("k", Type.BIGINT)),),
    "string": ((Column("s", Type.STRING), Column("s", Type.STRING)),),
    "both": ((Column("k", Type.INT), Column("k", Type.BIGINT)), (Column("s", Type.STRING), Column("s", Type.STRING))),
    "computed": (
        (Call("+", (Column("k", Type.INT), ONE), Type.BIGINT), Call("+", (Column("w", Type.BIGINT), ONE), Type.BIGINT)),
    ),
    "time": ((Column(TS, Type.BIGINT), Column("w", Type.BIGINT)), (Column("s", Type.STRING), Column("s", Type.STRING))),
}
RESIDUAL = Call("<", (Column("v", Type.BIGINT), Column("w", Type.BIGINT)), Type.BOOLEAN)


def crossing(
    left: Schema, right: Schema, left_span: int | None, right_span: int | None, *, expiry: bool = False
) -> Join:
    extents = [None if span is None else Extent(span) for span in (left_span, right_span)]
    return Join("inner", left, right, right.names, (), None, extents[0], extents[1], expiry)


def keyed(kind: Any, keys: str = "integer", span: int | None = 5, **changes: Any) -> Join:
    spec = Join(kind, LEFT, RIGHT, RIGHT_NAMES, KEYS[keys], None, Extent(span), Extent(span), False)
    return msgspec.structs.replace(spec, **changes)


def rows_of(elements: Any) -> list[tuple[Any, ...]]:
    return [row for element in elements if isinstance(element, Page) for row in element.rows.rows()]


def bounds_of(elements: Any) -> list[int]:
    return [element.bound for element in elements if isinstance(element, Punctuation)]


def feed(operator: Operator, port: int, ts: int, *values: Any) -> list[tuple[Any, ...]]:
    schema = {0: LEFT, 1: RIGHT}[port]
    return rows_of(operator.on_page(port, page_of(schema, [dict(zip(schema.names, values, strict=True))], [ts])))


def feed_one(operator: Operator, port: int, name: str, value: str, ts: int) -> list[tuple[Any, ...]]:
    return rows_of(operator.on_page(port, page_of(Schema.of(**{name: Type.STRING}), [{name: value}], [ts])))


def test_pairs_meet_while_both_are_in_their_windows() -> None:
    operator = crossing(A, B, 5, 5).build()
    results = []
    for value, ts in (("b1", 1), ("a1", 3), ("b2", 6), ("a2", 6), ("a3", 12), ("b3", 13)):
        results += feed_one(operator, "ab".index(value[0]), value[0], value, ts)
    expected = [("a1", "b1", 3), ("a2", "b1", 6), ("a1", "b2", 6), ("a2", "b2", 6), ("a3", "b3", 13)]
    assert Counter(results) == Counter(expected)


@pytest.mark.parametrize("arrival", [("a", "b", "a'"), ("b", "a", "a'")])
def test_tuples_of_equal_time_pair_once_in_any_arrival_order(arrival: tuple[str, ...]) -> None:
    operator = crossing(A, B, 5, 5).build()
    results = [row for value in arrival for row in feed_one(operator, "ab".index(value[0]), value[0], value, 5)]
    assert Counter(results) == Counter([("a", "b", 5), ("a'", "b", 5)])


def three_ways(tuples: list[tuple[str, str, int]], window: int) -> list[Counter[tuple[Any, ...]]]:
    """The results of (A B) C, A (B C) and (A C) B as sets of values by column."""
    found = []
    schemas = {"a": A, "b": B, "c": C}
    for first, second, third in ("abc", "bca", "acb"):
        lower = crossing(schemas[first], schemas[second], window, window, expiry=True).build()
        both = Schema(schemas[first].fields + schemas[second].fields)
        upper = crossing(both, schemas[third], None, window).build()
        results: list[dict[str, Any]] = []
        for name, value, ts in tuples:
            page = page_of(schemas[name], [{name: value}], [ts])
            if name == third:
                out = list(upper.on_page(1, page))
            else:
                out = [
                    made
                    for joined in lower.on_page((first, second).index(name), page)
                    if isinstance(joined, Page)
                    for made in upper.on_page(0, joined)
                ]
            results += [row for made in out for row in made.rows.to_dicts()]
        found.append(Counter((row["a"], row["b"], row["c"], row[TS]) for row in results))
    return found


def test_a_chain_wider_than_the_window_joins_in_no_plan_shape() -> None:
    assert three_ways([("a", "a", 0), ("b", "b", 10), ("c", "c", 20)], 10) == [Counter()] * 3


def test_every_plan_shape_gives_the_same_results() -> None:
    random = Random(7)
    tuples = [(name := random.choice("abc"), f"{name}{i}", random.randrange(60)) for i in range(60)]
    shapes = three_ways(tuples, 10)
    expected = Counter(
        (a, b, c, max(x, y, z))
        for n, a, x in tuples if n == "a"
        for m, b, y in tuples if m == "b"
        for o, c, z in tuples if o == "c" and max(x, y, z) - min(x, y, z) <= 10
    )  # fmt: skip
    assert expected
    assert shapes == [expected] * 3


def test_null_keys_meet_nobody_and_are_padded_where_preserved() -> None:
    operator = keyed("left").build()
    assert feed(operator, 1, 1, None, "x", 1) == []
    assert feed(operator, 0, 2, None, "x", 7) == [(None, "x", 7, None, None, None, 2)]
    assert held_by(operator) == 0


def test_lonely_row_comes_out_padded_when_it_dies_and_holds_the_promise_back() -> None:
    operator = keyed("left").build()
    feed(operator, 0, 10, 1, "x", 7)
    feed(operator, 0, 11, 2, "y", 8)
    feed(operator, 1, 12, 2, "z", 9)
    assert list(operator.on_punctuation(0, Punctuation(30))) == []
    assert bounds_of(operator.on_punctuation(1, Punctuation(15))) == [10]
    out = list(operator.on_punctuation(1, Punctuation(16)))
    assert rows_of(out) == [(1, "x", 7, None, None, None, 10)]
    assert bounds_of(out) == [16]


def test_row_is_alive_at_its_very_expiry() -> None:
    operator = keyed("left", span=1000).build()
    feed(operator, 0, 10, 1, "x", 7)
    feed(operator, 0, 11, 2, "y", 8)
    assert rows_of(operator.on_punctuation(1, Punctuation(1011))) == [(1, "x", 7, None, None, None, 10)]
    assert feed(operator, 1, 1011, 2, "z", 9) == [(2, "y", 8, 2, "z", 9, 1011)]
    assert rows_of(operator.on_punctuation(1, Punctuation(END))) == []


def test_padded_row_keeps_its_own_expiry() -> None:
    operator = keyed("full", expiry=True).build()
    feed(operator, 1, 3, 1, "x", 7)
    assert rows_of(operator.on_punctuation(0, Punctuation(END))) == [(None, None, None, 1, "x", 7, 3, 8)]


def test_row_that_is_dead_on_arrival_is_padded_and_not_stored() -> None:
    operator = keyed("left").build()
    list(operator.on_punctuation(1, Punctuation(100)))
    assert feed(operator, 0, 10, 1, "x", 7) == [(1, "x", 7, None, None, None, 10)]
    assert held_by(operator) == 0


def test_unbounded_rows_stay_until_the_other_side_ends() -> None:
    operator = keyed("inner", span=None).build()
    feed(operator, 0, 0, 1, "x", 7)
    list(operator.on_punctuation(1, Punctuation(10**15)))
    assert feed(operator, 1, 10**15, 1, "y", 8) == [(1, "x", 7, 1, "y", 8, 10**15)]
    list(operator.on_punctuation(1, Punctuation(END)))
    assert feed(operator, 0, 2, 1, "z", 9) == [(1, "z", 9, 1, "y", 8, 10**15)]
    list(operator.on_punctuation(0, Punctuation(END)))
    assert held_by(operator) == 0


def test_state_stays_bounded_while_both_sides_move_on() -> None:
    operator, most = keyed("full", span=100).build(), 0
    for ts in range(0, 1500, 10):
        for port, schema in enumerate((LEFT, RIGHT)):
            page = page_of(
                schema,
                [dict(zip(schema.names, (i % 3, "x", i), strict=True)) for i in range(10)],
                list(range(ts, ts + 10)),
            )
            list(operator.on_page(port, page))
            list(operator.on_punctuation(port, Punctuation(ts + 10)))
        most = max(most, held_by(operator))
    assert 200 <= most <= 300


def test_large_results_come_in_several_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PAIRS_AT_ONCE", 50)
    monkeypatch.setattr("headrace.operators.joins.hits.PAIRS_AT_ONCE", 50)
    operator = crossing(A, B, 5, 5).build()
    many = {
        name: page_of(schema, [{name: str(i)} for i in range(30)], [1] * 30) for name, schema in (("a", A), ("b", B))
    }
    assert list(operator.on_page(0, many["a"])) == []
    pages = list(operator.on_page(1, many["b"]))
    assert max(len(page) for page in pages if isinstance(page, Page)) <= 100
    assert Counter(rows_of(pages)) == Counter((str(i), str(j), 1) for i in range(30) for j in range(30))


def test_different_keys_of_one_hash_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headrace.operators.joins.pairing.hash_columns", lambda columns: np.zeros(len(columns[0]), np.uint64)
    )
    operator = keyed("full", "string").build()
    feed(operator, 0, 1, 1, "x", 7)
    assert feed(operator, 1, 2, 1, "y", 8) == []
    assert feed(operator, 1, 3, 1, "x", 9) == [(1, "x", 7, 1, "x", 9, 3)]
    assert rows_of(operator.on_punctuation(0, Punctuation(END))) == [(None, None, None, 1, "y", 8, 2)]


def test_partition_keys_are_those_of_the_side() -> None:
    spec = keyed("inner", "both")
    assert spec.partition_by(0) == (Column("k", Type.INT), Column("s", Type.STRING))
    assert spec.partition_by(1) == (Column("k", Type.BIGINT), Column("s", Type.STRING))


def test_spec_survives_json() -> None:
    spec = keyed("full", "both", residual=RESIDUAL)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Join) == spec
    assert hash(spec) == hash(msgspec.structs.replace(spec))


def test_sides_without_columns_join() -> None:
    spec = Join("full", Schema(()), Schema((Field("b", Type.STRING),)), ("b",), (), None, Extent(5), Extent(5), False)
    operator = spec.build()
    list(operator.on_page(0, Page(pl.DataFrame({TS: [1, 20]}))))
    assert feed_one(operator, 1, "b", "b", 3) == [("b", 3)]
    assert rows_of(operator.on_punctuation(1, Punctuation(END))) == [(None, 20)]


# against a nested loop over whole histories ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    spec: Join
    #: (port, rows as (ts, life, values)) or (port, bound)
    steps: tuple[tuple[int, Any], ...]

    def history(self, port: int) -> list[tuple[int, int, tuple[Any, ...]]]:
        return [row for at, step in self.steps if at == port and isinstance(step, list) for row in step]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    spans = [draw(st.sampled_from([0, 1, 3, 10, 40, None])) for _ in range(2)]
    own = [draw(st.booleans()) for _ in range(2)]  # whether the input carries its own expiry
    extents = [None if own[i] else Extent(spans[i]) for i in range(2)]
    spec = Join(
        draw(st.sampled_from(["inner", "left", "right", "full"])), LEFT, RIGHT, RIGHT_NAMES,
        KEYS[draw(st.sampled_from(sorted(KEYS)))],
        draw(st.sampled_from([None, RESIDUAL])), extents[0], extents[1], draw(st.booleans()),
    )  # fmt: skip
    number = st.sampled_from([None, 0, 1, 2, 3])
    life = st.sampled_from([0, 2, 9, END])
    row = st.tuples(st.integers(0, 30), life, st.tuples(number, st.sampled_from([None, "x", "y"]), number))
    waiting = [draw(st.lists(row, max_size=12)) for _ in range(2)]
    for port in range(2):
        waiting[port] = [
            (ts, END if own[port] and life == END else ts + life if own[port] else _expiry(ts, spans[port]), v)
            for ts, life, v in waiting[port]
        ]
    steps: list[tuple[int, Any]] = []
    while waiting[0] or waiting[1]:
        port = draw(st.integers(0, 1))
        cut = draw(st.integers(0, 5))
        if cut:
            steps.append((port, waiting[port][:cut]))
            waiting[port] = waiting[port][cut:]
        if draw(st.booleans()):
            late = draw(st.integers(0, 3))
            steps.append((port, min((ts for ts, _, _ in waiting[port]), default=40) - late))
    last = draw(st.permutations([0, 1]))
    return Script(spec, tuple(steps + [(port, END) for port in last]))


def _expiry(ts: int, span: int | None) -> int:
    return END if span is None else ts + span


def expected_rows(script: Script) -> Counter[tuple[Any, ...]]:
    spec = script.spec
    left, right = script.history(0), script.history(1)
    met: list[set[int]] = [set(), set()]
    found: Counter[tuple[Any, ...]] = Counter()
    which = next(name for name, keys in KEYS.items() if keys == spec.keys)
    for i, (lts, lexp, lrow) in enumerate(left):
        for j, (rts, rexp, rrow) in enumerate(right):
            ts, exp = max(lts, rts), min(lexp, rexp)
            if (
                ts <= exp
                and keys_agree(which, lts, lrow, rrow)
                and (spec.residual is None or smaller(lrow[2], rrow[2]))
            ):
                found[(*lrow, *rrow, ts, *([exp] if spec.expiry else []))] += 1
                met[0].add(i)
                met[1].add(j)
    nulls = (None, None, None)
    for port, history in enumerate((left, right)):
        for i, (ts, exp, row) in enumerate(history):
            if spec.preserves(port) and i not in met[port]:
                padded = (*row, *nulls) if port == 0 else (*nulls, *row)
                found[(*padded, ts, *([exp] if spec.expiry else []))] += 1
    return found


def keys_agree(which: str, lts: int, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    def same(x: Any, y: Any) -> bool:
        return x is not None and y is not None and x == y

    match which:
        case "none":
            return True
        case "integer":
            return same(left[0], right[0])
        case "string":
            return same(left[1], right[1])
        case "both":
            return same(left[0], right[0]) and same(left[1], right[1])
        case "computed":
            return same(left[0], right[2])
        case _:
            return same(lts, right[2]) and same(left[1], right[1])


def smaller(x: Any, y: Any) -> bool:
    return x is not None and y is not None and x < y


def page_from(spec: Join, port: int, rows: list[tuple[int, int, tuple[Any, ...]]]) -> Page:
    schema = spec.schema(port)
    page = page_of(
        schema, [dict(zip(schema.names, values, strict=True)) for _, _, values in rows], [ts for ts, _, _ in rows]
    )
    if spec.extent(port) is None:
        return Page(page.rows.with_columns(pl.Series(EXPIRY, [exp for _, exp, _ in rows], dtype=pl.Int64)))
    return page


@settings(deadline=None, max_examples=80)
@given(script=scripts(), restarts=st.booleans())
def test_results_are_those_of_a_nested_loop_over_the_histories(script: Script, restarts: bool) -> None:
    steps = [
        (port, page_from(script.spec, port, step) if isinstance(step, list) else step) for port, step in script.steps
    ]
    assert run_join(script.spec, steps, restarts=restarts) == expected_rows(script)


@settings(deadline=None, max_examples=50)
@given(script=scripts())
def test_no_row_outlives_its_slice(script: Script) -> None:
    operator = script.spec.build()
    bounds = [BEGIN, BEGIN]
    for port, step in script.steps:
        if isinstance(step, list):
            list(operator.on_page(port, page_from(script.spec, port, step)))
            continue
        list(operator.on_punctuation(port, Punctuation(step)))
        bounds[port] = max(bounds[port], step)
        for name, chunk in operator.state().items():
            if name.count("/") == 2:
                assert chunk[EXPIRY].max() >= bounds[1 - "LR".index(name[0])]


@pytest.mark.parametrize("kind", ["left", "right", "full"])
def test_an_outer_join_with_a_limit_of_time_promises_the_same_whatever_waits(kind: str) -> None:
    waiting, empty = (keyed(kind, life=5).build() for _ in range(2))
    for port in (0, 1):
        feed(waiting, port, 3, port, "x", 1)
    promises = []
    for operator in (waiting, empty):
        marks = [(0, 4), (1, 4), (0, 9), (1, 9), (1, 20), (0, 20), (0, END), (1, END)]
        promises.append(
            [bound for port, bound in marks for bound in bounds_of(operator.on_punctuation(port, Punctuation(bound)))]
        )
    assert promises[0] == promises[1]
    assert promises[0][-1] == END
    assert 15 in promises[0]


@pytest.mark.parametrize("kind", ["left", "right", "full"])
@pytest.mark.parametrize("life", [None, 5])
def test_an_outer_join_goes_on_elsewhere_with_those_that_have_come_out_and_those_that_wait(
    kind: str, life: int | None
) -> None:
    whole, sender, receiver = (keyed(kind, life=life).build() for _ in range(3))
    for operator in (whole, sender):
        for port, key in ((0, 1), (1, 1), (0, 2), (1, 3)):
            feed(operator, port, 3, key, "x", 1)
    for operator in (whole, sender, receiver):
        for port in (0, 1):
            list(operator.on_punctuation(port, Punctuation(4)))
    assert isinstance(sender, JoinOperator)
    assert isinstance(receiver, JoinOperator)
    keys = (KEYS["integer"][0][:1], KEYS["integer"][0][1:])
    receiver.take(sender.give(keys, lambda rows, by: np.ones(rows.height, np.bool_)))
    assert held_by(sender) == 0
    found = [
        [
            (rows_of(out), bounds_of(out))
            for port in (0, 1)
            if (out := list(operator.on_punctuation(port, Punctuation(9))))
        ]
        for operator in (whole, receiver)
    ]
    assert [Counter(rows) for rows, _ in found[0]] == [Counter(rows) for rows, _ in found[1]]
    assert sum(len(rows) for rows, _ in found[0]) == (2 if kind == "full" else 1)
    assert [list(sender.on_punctuation(port, Punctuation(END))) for port in (0, 1)][1] == [Punctuation(END)]
