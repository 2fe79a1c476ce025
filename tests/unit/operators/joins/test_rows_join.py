from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Column, Expr
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import EXPIRY, TS, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.capabilities import held_by
from headrace.operators.joins.rows_join import RowsJoin
from headrace.operators.operator import Operator
from headrace.testing.contract import run_join

LEFT = Schema.of(k=Type.BIGINT, s=Type.STRING, v=Type.BIGINT)
RIGHT = Schema.of(k=Type.BIGINT, s=Type.STRING, w=Type.BIGINT)
RIGHT_NAMES = ("rk", "rs", "w")
K, S = Column("k", Type.BIGINT), Column("s", Type.STRING)
KEYS: dict[str, tuple[tuple[Expr, Expr], ...]] = {"none": (), "integer": ((K, K),), "both": ((K, K), (S, S))}
RESIDUAL = Call("<", (Column("v", Type.BIGINT), Column("w", Type.BIGINT)), Type.BOOLEAN)


def rows_join(
    kind: Any,
    left: Extent | None,
    right: Extent | None,
    keys: str = "integer",
    residual: Expr | None = None,
    expiry: bool = False,
) -> RowsJoin:
    return RowsJoin(kind, LEFT, RIGHT, RIGHT_NAMES, KEYS[keys], residual, left, right, expiry)


def feed(operator: Operator, port: int, *tuples: tuple[int, int]) -> None:
    """Feed (ts, value) tuples with key 1."""
    schema = (LEFT, RIGHT)[port]
    page = page_of(
        schema, [dict(zip(schema.names, (1, "x", value), strict=True)) for _, value in tuples], [ts for ts, _ in tuples]
    )
    assert list(operator.on_page(port, page)) == []


def run(operator: Operator, *marks: tuple[int, int]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The pairs (v, w, ts) and the bounds that come out upon punctuation."""
    rows: list[tuple[Any, ...]] = []
    bounds = []
    for port, bound in marks:
        for element in operator.on_punctuation(port, Punctuation(bound)):
            if isinstance(element, Page):
                rows += element.rows.select("v", "w", TS).rows()
            else:
                bounds.append(element.bound)
    return rows, bounds


def test_only_the_newest_rows_are_seen() -> None:
    operator = rows_join("inner", Extent(rows=2), Extent(0)).build()
    feed(operator, 0, (1, 10), (2, 20), (3, 30))
    feed(operator, 1, (2, 7), (5, 8))
    rows, _ = run(operator, (0, END), (1, END))
    assert Counter(rows) == Counter([(10, 7, 2), (20, 7, 2), (20, 8, 5), (30, 8, 5)])


def test_left_precedes_right_at_equal_time() -> None:
    operator = rows_join("inner", Extent(rows=1), Extent(rows=1)).build()
    feed(operator, 1, (5, 7))
    feed(operator, 0, (5, 10), (5, 20))
    rows, _ = run(operator, (0, END), (1, END))
    assert rows == [(20, 7, 5)]


def test_right_row_is_seen_until_its_successor_precedes_the_left_one() -> None:
    operator = rows_join("inner", Extent(0), Extent(rows=1)).build()
    feed(operator, 1, (1, 7), (5, 8))
    feed(operator, 0, (5, 10), (6, 20))
    rows, _ = run(operator, (0, END), (1, END))
    assert Counter(rows) == Counter([(10, 7, 5), (10, 8, 5), (20, 8, 6)])


def test_nothing_comes_before_both_sides_have_passed() -> None:
    operator = rows_join("inner", Extent(rows=1), Extent(rows=1)).build()
    feed(operator, 0, (1, 10))
    feed(operator, 1, (2, 7))
    assert run(operator, (0, 9), (1, 2)) == ([], [2])
    assert run(operator, (1, 3)) == ([(10, 7, 2)], [3])


def test_replaced_row_comes_out_padded_and_holds_the_promise_back() -> None:
    operator = rows_join("left", Extent(rows=1), Extent(0)).build()
    feed(operator, 0, (1, 10), (8, 20))
    assert run(operator, (1, 5), (0, 5)) == ([], [1])
    assert run(operator, (1, 9)) == ([], [])
    assert run(operator, (0, 9)) == ([(10, None, 1)], [8])
    assert run(operator, (1, END)) == ([(20, None, 8)], [9])
    assert held_by(operator) == 0


def test_row_is_seen_at_its_very_expiry() -> None:
    operator = rows_join("left", Extent(5), Extent(rows=1)).build()
    feed(operator, 0, (10, 1))
    assert run(operator, (0, 20), (1, 15)) == ([], [10])
    feed(operator, 1, (15, 7))
    assert run(operator, (1, 16)) == ([(1, 7, 15)], [16])


def test_counts_are_per_group() -> None:
    operator = rows_join(
        "inner",
        Extent(rows=1, by=(Call("%", (Column("v", Type.BIGINT), Column("k", Type.BIGINT)), Type.BIGINT),)),
        Extent(0),
    ).build()
    two = page_of(LEFT, [{"k": 2, "s": "x", "v": value} for value in (1, 2, 3)], [1, 2, 3])
    list(operator.on_page(0, two))
    list(operator.on_page(1, page_of(RIGHT, [{"k": 2, "s": "x", "w": 9}], [4])))
    rows, _ = run(operator, (0, END), (1, END))
    assert Counter(rows) == Counter([(2, 9, 4), (3, 9, 4)])


@pytest.mark.parametrize(
    ("left", "right", "keys", "partitioned"),
    [
        (Extent(rows=2), Extent(5), "integer", False),
        (Extent(rows=2, by=(K,)), Extent(5), "integer", True),
        (Extent(rows=2, by=(K,)), Extent(rows=1), "integer", False),
        (Extent(rows=2, by=(K,)), Extent(rows=1, by=(K,)), "integer", True),
        (Extent(rows=2, by=(K,)), None, "both", False),
        (Extent(rows=2, by=(S, K)), None, "both", False),
        (None, Extent(rows=2, by=(K, S)), "both", True),
        (Extent(rows=2), Extent(5), "none", False),
    ],
)
def test_is_partitioned_only_if_groups_are_keys(
    left: Extent | None, right: Extent | None, keys: str, partitioned: bool
) -> None:
    spec = rows_join("inner", left, right, keys)
    expected = [tuple(pair[port] for pair in KEYS[keys]) if partitioned else () for port in (0, 1)]
    assert [spec.partition_by(0), spec.partition_by(1)] == expected


def test_spec_survives_json() -> None:
    spec = rows_join("full", Extent(rows=2, by=(K,)), None, "both", RESIDUAL)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RowsJoin) == spec


# against tuple-at-a-time over whole histories -------------------------------------------------------------------------

Tuple = tuple[int, int, tuple[Any, ...]]  # ts, own expiry, values


@dataclass(frozen=True)
class Script:
    spec: RowsJoin
    steps: tuple[tuple[int, Any], ...]

    def history(self, port: int) -> list[Tuple]:
        return [row for at, step in self.steps if at == port and isinstance(step, list) for row in step]


@st.composite
def extents(draw: st.DrawFn, *, counted: bool) -> Extent | None:
    if counted:
        return Extent(rows=draw(st.integers(1, 4)), by=draw(st.sampled_from([(), (K,), (K, S), (S,)])))
    return draw(st.sampled_from([None, Extent(0), Extent(4), Extent(15), Extent()]))


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    counted = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    left, right = (draw(extents(counted=by_rows)) for by_rows in counted)
    kind = draw(st.sampled_from(["inner", "left", "right", "full"]))
    spec = rows_join(
        kind,
        left,
        right,
        draw(st.sampled_from(sorted(KEYS))),
        draw(st.sampled_from([None, RESIDUAL])),
        draw(st.booleans()),
    )
    number = st.sampled_from([None, 0, 1, 2])
    row = st.tuples(
        st.integers(0, 20), st.sampled_from([0, 2, 9]), st.tuples(number, st.sampled_from([None, "x", "y"]), number)
    )
    drawn = [sorted(draw(st.lists(row, max_size=12)), key=lambda row: row[0]) for _ in (0, 1)]
    waiting = [
        [(ts, _expiry(spec.extent(port), ts, life), values) for ts, life, values in drawn[port]] for port in (0, 1)
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
            steps.append((port, (waiting[port][0][0] if waiting[port] else 30) - late))
    return Script(spec, tuple(steps + [(port, END) for port in draw(st.permutations([0, 1]))]))


def _expiry(extent: Extent | None, ts: int, life: int) -> int:
    if extent is None:
        return ts + life
    return END if extent.span is None else ts + extent.span


def expected_rows(script: Script) -> Counter[tuple[Any, ...]]:
    spec = script.spec
    order = sorted(
        ((row[0], port, place, row) for port in (0, 1) for place, row in enumerate(script.history(port))),
        key=lambda item: item[:3],
    )
    seen: tuple[list[Tuple], list[Tuple]] = ([], [])
    met: set[tuple[int, int]] = set()
    found: Counter[tuple[Any, ...]] = Counter()
    for ts, port, place, row in order:
        for at in places_in_window(spec.extent(1 - port), seen[1 - port], ts):
            other = seen[1 - port][at]
            left, right = (row[2], other[2]) if port == 0 else (other[2], row[2])
            if agree(spec, left, right):
                found[(*left, *right, ts, *([min(row[1], other[1])] if spec.expiry else []))] += 1
                met |= {(port, place), (1 - port, at)}
        seen[port].append(row)
    nulls = (None, None, None)
    for ts, port, place, row in order:
        if spec.preserves(port) and (port, place) not in met:
            padded = (*row[2], *nulls) if port == 0 else (*nulls, *row[2])
            found[(*padded, ts, *([row[1]] if spec.expiry else []))] += 1
    return found


def places_in_window(extent: Extent | None, seen: list[Tuple], ts: int) -> list[int]:
    if extent is None or extent.rows is None:
        return [place for place, row in enumerate(seen) if ts <= row[1]]
    names = [expr.name for expr in extent.by if isinstance(expr, Column)]
    groups = [tuple(row[2]["ks".index(name)] for name in names) for row in seen]
    return [
        place
        for place, group in enumerate(groups)
        if sum(later == group for later in groups[place + 1 :]) < extent.rows
    ]


def agree(spec: RowsJoin, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    for place in range(len(spec.keys)):
        if left[place] is None or left[place] != right[place]:
            return False
    return spec.residual is None or (left[2] is not None and right[2] is not None and left[2] < right[2])


def page_from(spec: RowsJoin, port: int, rows: list[Tuple]) -> Page:
    schema = spec.schema(port)
    page = page_of(
        schema, [dict(zip(schema.names, values, strict=True)) for _, _, values in rows], [ts for ts, _, _ in rows]
    )
    if spec.extent(port) is None:
        return Page(page.rows.with_columns(pl.Series(EXPIRY, [exp for _, exp, _ in rows], dtype=pl.Int64)))
    return page


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(script=scripts(), restarts=st.booleans())
def test_results_are_those_of_one_tuple_at_a_time_in_total_order(script: Script, restarts: bool) -> None:
    steps = [
        (port, page_from(script.spec, port, step) if isinstance(step, list) else step) for port, step in script.steps
    ]
    assert run_join(script.spec, steps, restarts=restarts) == expected_rows(script)


def test_window_stays_as_small_as_it_says() -> None:
    operator, most = rows_join("full", Extent(rows=3, by=(K,)), Extent(10)).build(), 0
    for ts in range(0, 300, 10):
        for port in (0, 1):
            feed(operator, port, *((ts + i, i) for i in range(10)))
        run(operator, (0, ts + 10), (1, ts + 10))
        most = max(most, held_by(operator))
    assert 3 < most <= 3 + 11
