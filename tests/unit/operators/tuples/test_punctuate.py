"""Marks that end keys: what is let through, what is late, what is said, and what operators do with it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Completion, Element, Page, Punctuation, page_of
from headrace.model.patterns.completion import is_complete
from headrace.model.patterns.match import IsNull, OneOf, at_least, less
from headrace.model.patterns.pattern import STAMP, pattern
from headrace.model.schema import TS, Schema
from headrace.model.time import END, LATEST
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Range, Session
from headrace.operators.capabilities import held_by, late_at
from headrace.operators.specs import PaneAggregate, PartialAggregate, Project, Punctuate, SessionAggregate, Union
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

SCHEMA = Schema.of(k=Type.INT, v=Type.BIGINT, done=Type.BOOLEAN)
K, DONE = Column("k", Type.INT), Column("done", Type.BOOLEAN)
SPEC = Punctuate(DONE, (K,))
Tuple = tuple[int, int | None, bool]  # ts, k, done


def page(*rows: Tuple) -> Page:
    values = [{"k": k, "v": ts, "done": done} for ts, k, done in rows]
    return page_of(SCHEMA, values, [ts for ts, _, _ in rows])


def ends(*rows: tuple[int | None, int], name: str = "k") -> Completion:
    return Completion(pl.DataFrame(rows, schema={name: pl.Int32, TS: pl.Int64}, orient="row"))


def tuples(out: Sequence[Element]) -> list[tuple[int, int]]:
    return [(ts, k) for item in out if isinstance(item, Page) for k, ts in item.rows.select("k", TS).rows()]


def said(out: Sequence[Element]) -> list[tuple[object, ...]]:
    return [row for item in out if isinstance(item, Completion) for row in item.rows.rows()]


def test_a_mark_is_no_tuple_and_what_comes_after_it_is_late() -> None:
    operator = SPEC.build()
    out = list(operator.on_page(0, page((1, 1, False), (5, 1, True), (4, 1, False), (4, 2, False), (5, 1, False))))
    assert tuples(out) == [(1, 1), (4, 2), (5, 1)]
    assert said(out) == [(1, 5)]
    assert isinstance(out[-1], Completion), "what is said of later tuples follows those before"
    assert late_at(operator) == 1
    assert late_at(operator) == 0, "each is counted once"
    assert said(list(operator.on_page(0, page((5, 1, True), (3, 1, True))))) == [], "nothing new is said"
    assert tuples(list(operator.on_page(0, page((4, 1, False), (6, 1, False))))) == [(6, 1)]
    list(operator.on_punctuation(0, Punctuation(5)))
    assert held_by(operator) == 0, "the bound says the same by now"
    assert operator.state() == {}


def test_a_mark_can_be_a_time() -> None:
    schema = Schema.of(k=Type.INT, until=Type.TIMESTAMP)
    operator = Punctuate(Column("until", Type.TIMESTAMP), (K,)).build()
    rows = [{"k": 1, "until": None}, {"k": 1, "until": 9}, {"k": 2, "until": 2**58}, {"k": None, "until": -5}]
    frame = pl.DataFrame(rows, schema={"k": pl.Int32, "until": pl.Int64}, orient="row")
    frame = frame.with_columns(pl.col("until").cast(pl.Datetime("us")), pl.Series(TS, [1, 2, 3, 4], dtype=pl.Int64))
    assert schema.names == ("k", "until")
    out = list(operator.on_page(0, Page(frame)))
    assert tuples(out) == [(1, 1)]
    assert said(out) == [(1, 9), (2, LATEST), (None, -5)]


_ROWS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2, None]), st.sampled_from([False, False, True])))


@settings(deadline=None, max_examples=15)
@given(rows=_ROWS, late=st.booleans())
def test_what_comes_out_agrees_with_the_oracle_and_keeps_the_contract(rows: list[Tuple], late: bool) -> None:
    found = check_operator(Punctuate(DONE, (K,), late), [(0, page(*rows))])
    plan = nodes.Punctuate(nodes.Scan("s", SCHEMA), "done", ("k",), late)
    history = [Row(ts, {"k": k, "v": ts, "done": done}) for ts, k, done in rows]
    assert as_multiset(found) == as_multiset(answer(plan, {"s": history}))


COUNT = (AggregateCall("n", "count", None, Type.BIGINT),)


def counted(size: int, slide: int, script: Sequence[Element], *, checked: bool = True) -> list[list[tuple[int, ...]]]:
    """Return the results of windows, step by step, and check the contract."""
    window, keys = Range(size, slide), (("k", K),)
    first, second = (
        PartialAggregate(window if slide > size else Range(2, 2), keys, COUNT).build(),
        PaneAggregate(window, keys, COUNT),
    )
    partials: list[tuple[int, Element]] = []
    for item in script:
        partials += [(0, part) for part in first.on_element(0, item)]
    if checked:
        check_operator(second, partials, sizes=(1, 10_000))
    operator, steps = second.build(), list[list[tuple[int, ...]]]()
    for _, part in partials:
        out = list(operator.on_element(0, part))
        steps.append([row for item in out if isinstance(item, Page) for row in item.rows.select("k", TS, "n").rows()])
    assert held_by(operator) == 0
    return steps


def test_a_window_of_a_key_closes_with_the_key() -> None:
    steps = counted(
        4,
        4,
        [
            page((0, 1, False), (1, 1, False), (5, 1, False), (2, 2, False)),
            ends((1, 4)),
            page((4, 1, False), (7, 1, False)),
            Punctuation(6),
            Punctuation(END),
        ],
    )
    assert steps == [[], [(1, 4, 2)], [], [(2, 4, 1)], [(1, 8, 3)]]


def test_windows_that_overlap_close_once() -> None:
    steps = counted(
        4,
        2,
        [
            page((0, 1, False), (1, 1, False), (5, 1, False), (2, 2, False)),
            ends((1, 5), (3, 9)),
            page((6, 1, False)),
            ends((1, 6)),
            Punctuation(4),
            Punctuation(END),
        ],
    )
    assert steps[1] == [(1, 2, 2), (1, 4, 2)]
    assert steps[3] == [(1, 6, 1)]
    assert steps[4] == [(2, 4, 1)]
    assert sorted(steps[5]) == [(1, 8, 2), (1, 10, 1), (2, 6, 1)]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(0, 20), st.sampled_from([1, 2, None])), max_size=10),
    cut=st.integers(0, 10),
    marks=st.lists(
        st.tuples(st.sampled_from([1, 2, None]), st.integers(0, 22)), min_size=1, max_size=3, unique_by=lambda m: m[0]
    ),
    bound=st.integers(0, 20),
    shape=st.sampled_from([(4, 4), (6, 2), (4, 6), (4, 2)]),
)
def test_ends_change_when_windows_close_and_nothing_else(rows, cut, marks, bound, shape):
    known = dict(marks)
    first = page(*((ts, k, False) for ts, k in rows[:cut]))
    rest = [(ts, k, False) for ts, k in rows[cut:] if ts >= max(bound, known.get(k, 0))]
    script: list[Element] = [first, ends(*marks), Punctuation(bound), page(*rest), ends(*marks), Punctuation(END)]
    plain = [item for item in script if not isinstance(item, Completion)]
    size, slide = shape
    with_ends, without = counted(size, slide, script, checked=False), counted(size, slide, plain, checked=False)
    assert sorted(map(str, (row for step in with_ends for row in step))) == sorted(
        map(str, (row for step in without for row in step))
    )


def test_a_session_of_a_key_ends_with_the_key() -> None:
    spec = SessionAggregate(Session(3), (("key", K),), COUNT)
    script: list[tuple[int, Element]] = [
        (0, page((0, 1, False), (2, 1, False), (9, 1, False), (0, 2, False))),
        (0, ends((1, 10))),
        (0, page((11, 1, False))),
        (0, Punctuation(4)),
    ]
    check_operator(spec, script)
    operator = spec.build()
    list(operator.on_element(0, script[0][1]))
    out = list(operator.on_completion(0, ends((1, 10))))
    assert [row for item in out if isinstance(item, Page) for row in item.rows.select("key", TS, "n").rows()] == [
        (1, 5, 2)
    ]
    assert said(out) == [(1, 11)]
    assert held_by(operator) == 2


def test_a_union_says_what_all_its_inputs_said() -> None:
    operator = Union(2).build()
    assert list(operator.on_completion(0, ends((1, 5), (2, 9)))) == []
    assert said(list(operator.on_completion(1, ends((1, 7))))) == [(1, 5)]
    out = list(operator.on_punctuation(1, Punctuation(6)))
    assert said(out) == [(2, 6)], "all keys of an input are complete up to its bound"
    other = Union(2).build()
    other.restore(operator.state())
    assert said(list(other.on_punctuation(0, Punctuation(1)))) == [(1, 5), (2, 6)], "said again after a restart"


def test_a_projection_passes_on_ends_of_columns_that_it_shows() -> None:
    assert said(list(Project((("x", K),)).build().on_completion(0, ends((1, 5))))) == [(1, 5)]
    assert list(Project((("v", Column("v", Type.BIGINT)),)).build().on_completion(0, ends((1, 5)))) == []


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (((K, OneOf((1, 2))), (STAMP, less(5))), True),
        (((K, OneOf((1, 2))), (STAMP, less(6))), False),
        (((K, OneOf((3,))),), True),
        (((K, OneOf((1,))),), False),
        (((K, IsNull()), (STAMP, less(4))), True),
        (((K, at_least(1)), (STAMP, less(2))), False),
        (((STAMP, less(2)),), False),
        (((K, OneOf((9,))), (STAMP, less(2))), False),
    ],
)
def test_a_pattern_is_complete_if_all_its_keys_are(terms, expected):
    assert is_complete(pattern(*terms), ends((1, 5), (2, 7), (3, LATEST), (None, 4))) is expected
