from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.schema import TS, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.capabilities import held_by
from headrace.operators.joins import sequence_match
from headrace.operators.joins.consuming_join import ConsumingJoin
from headrace.operators.joins.sequence_join import SequenceJoin
from headrace.operators.joins.sequence_match import earliest_unused, number_rows
from headrace.operators.operator import Operator
from headrace.plan.nodes import Scan
from headrace.plan.nodes import SequenceJoin as Node
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import Row, answer, as_multiset

LEFT = Schema.of(k=Type.BIGINT, s=Type.STRING, x=Type.DOUBLE, v=Type.BIGINT)
RIGHT = Schema.of(k=Type.BIGINT, s=Type.STRING, x=Type.DOUBLE, w=Type.BIGINT)
RIGHT_NAMES = ("rk", "rs", "rx", "w")
K, S, X = Column("k", Type.BIGINT), Column("s", Type.STRING), Column("x", Type.DOUBLE)
KEYS: dict[str, tuple[tuple[Expr, Expr], ...]] = {
    "none": (),
    "integer": ((K, K),),
    "text": ((S, S),),
    "float": ((X, X),),
    "both": ((K, K), (S, S)),
}
LESS = Call("<", (Column("v", Type.BIGINT), Column("w", Type.BIGINT)), Type.BOOLEAN)
AFTER = Call("<", (Column("v", Type.BIGINT), Column(TS, Type.BIGINT)), Type.BOOLEAN)


def sequence(
    mode: Any,
    keys: str = "none",
    *,
    inclusive: bool = False,
    residual: Expr | None = None,
    span: int | None = 100,
    right_span: int | None = 100,
) -> SequenceJoin:
    right = right_span if mode == "consuming" else UNSET
    return SequenceJoin(mode, inclusive, LEFT, RIGHT, RIGHT_NAMES, KEYS[keys], residual, span, right_span=right)


def page(port: int, *times: int, key: int = 1) -> Page:
    """Tuples whose value is their timestamp."""
    schema = (LEFT, RIGHT)[port]
    return page_of(
        schema, [dict(zip(schema.names, (key, str(key), float(key), ts), strict=True)) for ts in times], list(times)
    )


def step(operator: Operator, port: int, element: Element) -> tuple[list[tuple[int, int]], list[int]]:
    """The pairs and the bounds that come out upon an element."""
    out = list(operator.on_element(port, element))
    pages = [each for each in out if isinstance(each, Page)]
    pairs = [pair for each in pages for pair in each.rows.select("v", "w").rows()]
    return pairs, [each.bound for each in out if isinstance(each, Punctuation)]


def pairs_of(spec: SequenceJoin, lefts: list[int], rights: list[int]) -> list[tuple[int, int]]:
    script = [(1, page(1, *rights)), (0, page(0, *lefts))]
    found = check_operator(spec, script, ports=2)
    assert all(row.ts == row.values["w"] for row in found), "a result has the timestamp of its right tuple"
    return sorted((row.values["v"], row.values["w"]) for row in found)


def test_v9_products_take_the_most_recent_case_or_the_first_that_is_left() -> None:
    cases, products = [1, 3, 8], [4, 5, 6, 9]
    assert pairs_of(sequence("recent"), cases, products) == [(3, 4), (3, 5), (3, 6), (8, 9)]
    assert pairs_of(sequence("chronicle"), cases, products) == [(1, 4), (3, 5), (8, 9)]


def test_v9_ties_are_strict() -> None:
    cases, products = [1, 5, 9], [2, 5, 6, 9, 10]
    assert pairs_of(sequence("recent"), cases, products) == [(1, 2), (1, 5), (5, 6), (5, 9), (9, 10)]
    assert pairs_of(sequence("chronicle"), cases, products) == [(1, 2), (5, 6), (9, 10)]


def test_v9_ties_are_taken_if_inclusive() -> None:
    cases, products = [1, 5, 9], [2, 5, 6, 9, 10]
    assert pairs_of(sequence("recent", inclusive=True), cases, products) == [(1, 2), (5, 5), (5, 6), (9, 9), (9, 10)]
    assert pairs_of(sequence("chronicle", inclusive=True), cases, products) == [(1, 2), (5, 5), (9, 9)]


@pytest.mark.parametrize("mode", ["recent", "chronicle"])
def test_v9_a_product_is_answered_on_arrival_if_the_cases_have_promised(mode: str) -> None:
    operator = sequence(mode).build()
    step(operator, 0, page(0, 1))
    step(operator, 0, page(0, 3))
    assert step(operator, 0, Punctuation(4)) == ([], [])
    assert step(operator, 1, page(1, 4)) == ([(3 if mode == "recent" else 1, 4)], [])
    assert step(operator, 1, page(1, 5)) == ([], [])
    assert step(operator, 0, Punctuation(5)) == ([(3, 5)], [])


@pytest.mark.parametrize("case_first", [True, False])
def test_v11_a_coarse_clock_does_not_make_the_order_of_arrival_matter(case_first: bool) -> None:
    operator = sequence("recent").build()
    step(operator, 0, page(0, 1))
    step(operator, 0, Punctuation(1))
    found = []
    ties: list[tuple[int, Page]] = [(0, page(0, 5)), (1, page(1, 5))]
    for port, element in ties if case_first else reversed(ties):
        found += step(operator, port, element)[0]
        found += step(operator, port, Punctuation(5))[0]
    found += step(operator, 1, page(1, 7))[0] + step(operator, 0, Punctuation(7))[0]
    assert found == [(1, 5), (5, 7)]


@pytest.mark.parametrize("case_first", [True, False])
def test_v11_an_inclusive_sequence_waits_for_cases_beyond_the_tie(case_first: bool) -> None:
    operator = sequence("recent", inclusive=True).build()
    step(operator, 0, page(0, 1))
    if not case_first:
        assert step(operator, 1, page(1, 5)) == ([], [])
    step(operator, 0, page(0, 5))
    assert step(operator, 0, Punctuation(5)) == ([], [])
    assert step(operator, 1, page(1, 5) if case_first else page(1, 6)) == ([], [])
    assert step(operator, 0, Punctuation(6))[0] == [(5, 5)]


@pytest.mark.parametrize("mode", ["recent", "chronicle"])
def test_2_8_a_product_without_an_earlier_case_is_used_up_and_gives_nothing(mode: str) -> None:
    assert pairs_of(sequence(mode), [5], [2, 5]) == []
    assert pairs_of(sequence(mode), [5], [2, 6]) == [(5, 6)]


def test_2_8_chronicle_takes_the_earliest_case_that_matches_and_uses_it_up_only_then() -> None:
    even = Call(
        "=",
        (
            Call(
                "%",
                (Call("+", (Column("v", Type.BIGINT), Column("w", Type.BIGINT)), Type.BIGINT), Literal(2, Type.BIGINT)),
                Type.BIGINT,
            ),
            Literal(0, Type.BIGINT),
        ),
        Type.BOOLEAN,
    )
    # case 1 does not match product 4 and stays for product 5; case 2 is taken by 4
    assert pairs_of(sequence("chronicle", residual=even), [1, 2], [4, 5]) == [(1, 5), (2, 4)]
    assert pairs_of(sequence("recent", residual=even), [1, 2, 3], [4, 6]) == [(2, 4), (2, 6)]


def test_2_8_releasing_a_product_needs_the_cases_to_have_come_as_far() -> None:
    operator = sequence("recent").build()
    step(operator, 0, page(0, 1))
    assert step(operator, 1, page(1, 4)) == ([], [])
    assert step(operator, 0, Punctuation(3)) == ([], [])
    assert step(operator, 0, Punctuation(4))[0] == [(1, 4)]


def test_both_sides_hold_the_promise_back_whether_a_tuple_waits_or_not() -> None:
    waiting, empty = sequence("recent").build(), sequence("recent").build()
    step(waiting, 1, page(1, 4))
    for operator in (waiting, empty):  # one that waits may come from another bucket
        assert step(operator, 1, Punctuation(3)) == ([], [])
        assert step(operator, 0, Punctuation(2)) == ([], [3])
        assert step(operator, 1, Punctuation(9)) == ([], [])
        assert step(operator, 0, Punctuation(4)) == ([], [5])
        assert step(operator, 0, Punctuation(8)) == ([], [9])


def test_a_left_tuple_waits_as_long_as_its_window_says() -> None:
    for mode in ("recent", "chronicle"):
        assert pairs_of(sequence(mode, span=3), [1], [4]) == [(1, 4)]
        assert pairs_of(sequence(mode, span=3), [1], [5]) == []
    assert pairs_of(sequence("chronicle", span=3), [1, 3], [5, 6]) == [(3, 5)]


def valued(port: int, *tuples: tuple[int, int]) -> Page:
    """Tuples (ts, value)."""
    schema = (LEFT, RIGHT)[port]
    return page_of(
        schema,
        [dict(zip(schema.names, (1, "1", 1.0, value), strict=True)) for _, value in tuples],
        [ts for ts, _ in tuples],
    )


def test_recent_takes_the_newest_that_matches() -> None:
    script = [(0, valued(0, (1, 5), (2, 9))), (1, valued(1, (3, 7), (4, 10), (5, 2)))]
    found = check_operator(sequence("recent", "integer", residual=LESS), script, ports=2)
    assert [(row.values["v"], row.values["w"], row.ts) for row in found] == [(5, 7, 3), (9, 10, 4)]


def test_chronicle_takes_the_earliest_that_matches_and_only_success_uses_up() -> None:
    script = [(0, valued(0, (1, 9), (2, 1))), (1, valued(1, (3, 5), (4, 0), (5, 20), (6, 20)))]
    found = check_operator(sequence("chronicle", "integer", residual=LESS), script, ports=2)
    assert [(row.values["v"], row.values["w"], row.ts) for row in found] == [(1, 5, 3), (9, 20, 5)]


def test_a_right_tuple_without_a_left_one_is_gone() -> None:
    operator = sequence("chronicle").build()
    step(operator, 1, page(1, 2))
    assert step(operator, 0, Punctuation(2)) == ([], [])
    assert held_by(operator) == 0
    step(operator, 0, page(0, 3))
    assert step(operator, 0, Punctuation(END)) == ([], [])


def test_recent_by_key_keeps_the_newest_of_each_key_before_what_comes_and_all_later_ones() -> None:
    operator = sequence("recent", "text", span=None).build()
    for ts in range(1, 10):
        step(operator, 0, page(0, ts, key=ts % 3))
    step(operator, 0, Punctuation(10))
    assert held_by(operator) == 9
    step(operator, 1, Punctuation(5))  # 2, 3 and 4 are the newest below; 5 to 9 are later
    assert held_by(operator) == 8
    step(operator, 1, Punctuation(10))
    assert held_by(operator) == 3


def test_chronicle_forgets_what_is_used_and_what_has_expired() -> None:
    operator = sequence("chronicle", span=10).build()
    step(operator, 0, page(0, *range(1, 9)))
    step(operator, 0, Punctuation(9))
    step(operator, 1, page(1, 5, 6, 7))
    assert held_by(operator) == 5
    step(operator, 1, Punctuation(16))
    assert held_by(operator) == 3


def test_chronicle_uses_up_what_was_taken_and_nothing_else_when_keys_interleave() -> None:
    operator = sequence("chronicle", "integer").build()
    for ts, key in ((1, 2), (2, 1), (4, 1)):
        step(operator, 0, page(0, ts, key=key))
    step(operator, 0, Punctuation(9))
    both = Page(pl.concat([page(1, 5, key=1).rows, page(1, 5, key=2).rows]))
    assert sorted(step(operator, 1, both)[0]) == [(1, 5), (2, 5)]
    assert step(operator, 1, page(1, 6, key=1))[0] == [(4, 6)]
    assert step(operator, 1, page(1, 7, key=1))[0] == []


def test_keys_whose_numbers_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headrace.operators.joins.pairing.hash_columns", lambda columns: np.zeros(len(columns[0]), np.uint64)
    )
    for mode in ("recent", "chronicle"):
        operator = sequence(mode, "text", span=None).build()
        step(operator, 0, page(0, 1, key=1))
        step(operator, 0, page(0, 2, key=2))
        step(operator, 0, Punctuation(END))
        step(operator, 1, Punctuation(3))
        assert held_by(operator) == 2
        assert step(operator, 1, page(1, 4, key=1))[0] == [(1, 4)]


@pytest.mark.slow
def test_state_and_its_chunks_stay_small() -> None:
    operator = sequence("recent", "integer", span=None).build()
    for ts in range(0, 600, 2):
        step(operator, 0, page(0, ts, key=ts % 40))
        step(operator, 0, Punctuation(ts + 1))
        step(operator, 1, page(1, ts + 1, key=ts % 40))
        step(operator, 1, Punctuation(ts + 2))
    assert held_by(operator) == 20
    assert len(operator.state()) <= 8


def test_consuming_lets_a_tuple_leave_with_its_first_partner_whichever_side_comes_first() -> None:
    def pairs(spec: SequenceJoin, lefts: list[int], rights: list[int]) -> list[tuple[int, int]]:
        found = check_operator(spec, [(1, page(1, *rights)), (0, page(0, *lefts))], ports=2)
        assert all(row.ts == max(row.values["v"], row.values["w"]) for row in found)
        return sorted((row.values["v"], row.values["w"]) for row in found)

    assert pairs(sequence("consuming"), [2, 6, 7], [1, 3, 4]) == [(2, 1), (6, 3), (7, 4)]
    assert pairs(sequence("consuming"), [1, 2], [3, 4, 5]) == [(1, 3), (2, 4)]
    assert pairs(sequence("consuming"), [5, 5], [5]) == [(5, 5)]
    assert pairs(sequence("consuming", span=1), [1, 3], [4]) == [(3, 4)], "1 has left its window alone"
    assert pairs(sequence("consuming", right_span=1), [5], [1, 4]) == [(5, 4)]
    assert pairs(sequence("consuming", "integer", residual=LESS), [4, 1], [3]) == [(1, 3)]


def test_consuming_goes_on_where_its_keys_were_taken_to() -> None:
    here, there = sequence("consuming", "integer").build(), sequence("consuming", "integer").build()
    for operator in (here, there):
        step(operator, 0, Punctuation(3))
    step(here, 0, page(0, 3, key=1))
    step(here, 1, page(1, 1, key=1))
    step(here, 1, page(1, 2, key=2))
    step(here, 1, Punctuation(3))
    assert isinstance(here, ConsumingJoin)
    assert isinstance(there, ConsumingJoin)
    there.take(here.give(((K,), (K,)), lambda frame, keys: (frame["__key"] == 1).to_numpy()))
    assert (held_by(here), held_by(there)) == (1, 2)
    step(there, 1, Punctuation(9))
    assert step(there, 0, Punctuation(9))[0] == [(3, 1)]


def test_spec_survives_json() -> None:
    spec = sequence("chronicle", "both", inclusive=True, residual=LESS)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=SequenceJoin) == spec
    assert (spec.partition_by(0), spec.partition_by(1)) == ((K, S), (K, S))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30))
def test_the_scan_takes_what_one_after_the_other_would_take(steps: list[tuple[int, int]]) -> None:
    start, stop, first, last = [], [], 0, 0
    for more_first, more_last in steps:
        last += more_last
        first = min(first + more_first, last)
        start.append(first)
        stop.append(last)
    expected, used = [], set()
    for low, high in zip(start, stop, strict=True):
        free = [place for place in range(low, high) if place not in used]
        expected.append(free[0] if free else -1)
        used.update(free[:1])
    found = earliest_unused(np.array(start, np.int64), np.array(stop, np.int64)) if steps else np.empty(0)
    assert found.tolist() == expected


def test_rows_have_equal_numbers_iff_they_are_equal() -> None:
    rows = pl.DataFrame({"a": [0.0, -0.0, float("nan"), float("nan"), 1.0], "b": ["x", "x", "y", "y", "x"]})
    first, second, third, fourth, fifth = number_rows(rows).tolist()
    assert first == second
    assert third == fourth
    assert len({first, third, fifth}) == 3


# against the definition over whole histories --------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    spec: SequenceJoin
    steps: tuple[tuple[int, list[Row] | int], ...]

    def elements(self) -> list[tuple[int, Element]]:
        return [
            (port, Punctuation(step) if isinstance(step, int) else self._page(port, step)) for port, step in self.steps
        ]

    def history(self, port: int) -> list[Row]:
        rows = [row for at, step in self.steps if at == port and isinstance(step, list) for row in step]
        return [Row(row.ts, row.values, seq) for seq, row in enumerate(rows)]

    @staticmethod
    def _page(port: int, rows: list[Row]) -> Page:
        return page_of((LEFT, RIGHT)[port], [row.values for row in rows], [row.ts for row in rows])


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    mode = draw(st.sampled_from(["recent", "chronicle", "consuming"]))
    residual = draw(st.sampled_from([None, None, LESS, AFTER]))
    span = draw(st.sampled_from([None, 0, 3, 8, 30]))
    spec = sequence(
        mode,
        draw(st.sampled_from(sorted(KEYS))),
        inclusive=draw(st.booleans()),
        residual=residual,
        span=span,
        right_span=draw(st.sampled_from([None, 0, 3, 8])),
    )
    number = st.sampled_from([None, 0, 1, 1, 2, 2])
    values = st.tuples(
        number,
        st.sampled_from([None, "x", "x", "y"]),
        st.sampled_from([None, 0.0, -0.0, 0.5]),
        st.sampled_from([None, 0, 1, 4, 9]),
    )
    waiting: list[list[Row]] = []
    for schema in (LEFT, RIGHT):
        drawn = draw(st.lists(st.tuples(st.integers(0, 15), values), max_size=12))
        waiting.append(
            [
                Row(ts, dict(zip(schema.names, each, strict=True)))
                for ts, each in sorted(drawn, key=lambda pair: pair[0])
            ]
        )
    if mode == "recent":  # here the right side may come in any order
        waiting[1] = draw(st.permutations(waiting[1]))
    steps: list[tuple[int, list[Row] | int]] = []
    while waiting[0] or waiting[1]:
        port = draw(st.integers(0, 1))
        cut = draw(st.integers(0, 5))
        if cut and waiting[port]:
            steps.append((port, waiting[port][:cut]))
            waiting[port] = waiting[port][cut:]
        if draw(st.booleans()):
            steps.append((port, min((row.ts for row in waiting[port]), default=20) - draw(st.integers(0, 2))))
    return Script(spec, tuple(steps + [(port, END) for port in draw(st.permutations([0, 1]))]))


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(scripts(), st.sampled_from([1, 3, 1 << 20]))
def test_operator_keeps_its_promises_and_agrees_with_the_definition(script: Script, at_once: int) -> None:
    spec = script.spec
    right_span = None if spec.right_span is UNSET else spec.right_span
    node = Node(
        Scan("l", LEFT),
        Scan("r", RIGHT),
        spec.mode,
        spec.inclusive,
        spec.keys,
        spec.residual,
        spec.span,
        RIGHT_NAMES,
        right_span=right_span,
    )
    expected = answer(node, {"l": script.history(0), "r": script.history(1)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_match, "PAIRS_AT_ONCE", at_once)
        found = check_operator(spec, script.elements(), ports=2, sizes=(1, 3, 10_000))
    assert as_multiset(found) == as_multiset(expected)


@settings(deadline=None, max_examples=30)
@given(scripts())
def test_nothing_is_left_when_both_streams_have_ended(script: Script) -> None:
    operator = script.spec.build()
    bounds: list[int] = []
    for port, element in script.elements():
        bounds += step(operator, port, element)[1]
    assert bounds[-1] == END
    assert held_by(operator) == 0
    assert set(operator.state()) == {"bounds"}
