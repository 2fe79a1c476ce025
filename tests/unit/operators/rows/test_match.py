"""Matches of row patterns: as the oracle finds them, however pages and bounds are cut; and what is kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import TRUE, Call, Column, Expr, Literal
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.row_pattern import Fold, Lookup, RowPattern, Variable
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.rows import matcher
from headrace.operators.rows.match import MatchRows
from headrace.operators.rows.values import Conditions
from headrace.plan import nodes
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer
from headrace.testing.oracle.rows import Row, as_multiset

SCHEMA = Schema.of(k=Type.INT, v=Type.BIGINT)
K, V = Column("k", Type.INT), Column("v", Type.BIGINT)
Tuple = tuple[int, int | None, int | None]  # ts, k, v


def page(rows: Sequence[Tuple]) -> Page:
    return page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])


def compare(sign: str, left: Expr, right: Expr) -> Expr:
    return Call(sign, (left, right), Type.BOOLEAN)


def number(value: int) -> Literal:
    return Literal(value, Type.BIGINT)


LAST_A, PREV = Column("last_a", Type.BIGINT), Column("prev", Type.BIGINT)
FIRST_B, TOTAL = Column("first_b", Type.BIGINT), Column("total", Type.BIGINT)
LOOKUPS = (
    Lookup("last_a", V, "A", "last"),
    Lookup("prev", V, None, "prev", 1),
    Lookup("first_b", V, "B", "first"),
    Lookup("second_to_last_b", V, "B", "last", 1),
)
FOLDS = (Fold("B", AggregateCall("total", "sum", V, Type.BIGINT)),)
#: Conditions of B and C that look at the row alone, at a row before, at another variable, at an aggregate.
CONDITIONS: tuple[tuple[Expr, Expr], ...] = (
    (compare(">", V, number(2)), compare("<", V, number(3))),
    (compare("<", V, PREV), compare(">", V, PREV)),
    (compare(">", V, LAST_A), compare("=", V, LAST_A)),
    (compare("<", TOTAL, number(9)), compare(">=", V, FIRST_B)),
    (TRUE, compare("=", V, number(1))),
)
QUANTIFIERS = ((1, 1), (1, None), (0, None), (0, 1), (2, 3), (2, None))
PICKED = (
    Lookup("a", V, "A", "last"),
    Lookup("b1", V, "B", "first", 1),
    Lookup("bn", V, "B", "last"),
    Lookup("c", V, "C", "last"),
    Lookup("first", V, None, "first"),
)
COUNTED = (
    Fold("B", AggregateCall("bs", "count", None, Type.BIGINT)),
    Fold("B", AggregateCall("sum", "sum", V, Type.BIGINT)),
    Fold(None, AggregateCall("mean", "avg", V, Type.DOUBLE)),
)


def row_pattern(
    conditions: tuple[Expr, Expr], of_b: tuple[int, int | None], of_c: tuple[int, int | None], within: int | None,
    *, overlapping: bool, first: Expr = TRUE,
) -> RowPattern:  # fmt: skip
    variables = (
        Variable("A", 1, 1, first),
        Variable("B", *of_b, conditions[0]),
        Variable("C", *of_c, conditions[1]),
        Variable("D", 1, 1, compare("<", V, number(4))),
    )
    return RowPattern(variables, within, overlapping, LOOKUPS, FOLDS)


_ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([1, 2, None]), st.sampled_from([1, 2, 3, 4, 5, None])), max_size=16
)


@pytest.mark.parametrize("conditions", CONDITIONS, ids=lambda pair: str(CONDITIONS.index(pair)))
@settings(deadline=None, max_examples=5)
@given(
    rows=_ROWS,
    of_b=st.sampled_from(QUANTIFIERS),
    of_c=st.sampled_from(QUANTIFIERS),
    within=st.sampled_from([None, 4, 9]),
    overlapping=st.booleans(),
    keyed=st.booleans(),
    first=st.sampled_from([TRUE, compare(">=", V, number(3))]),
)
def test_matches_agree_with_the_oracle_and_keep_the_contract(
    conditions: tuple[Expr, Expr], rows: list[Tuple], of_b: tuple[int, int | None], of_c: tuple[int, int | None],
    within: int | None, overlapping: bool, keyed: bool, first: Expr,
) -> None:  # fmt: skip
    pattern = row_pattern(conditions, of_b, of_c, within, overlapping=overlapping, first=first)
    by = (K,) if keyed else ()
    found = check_operator(MatchRows(by, pattern, PICKED, COUNTED, ("k", "v")), [(0, page(rows))])
    # content decides ties, as in a stream that no source numbers
    derived = nodes.Union((nodes.Scan("s", SCHEMA), nodes.Scan("none", SCHEMA)))
    expected = answer(
        nodes.MatchRows(derived, by, (), pattern, PICKED, COUNTED),
        {"s": [Row(ts, {"k": k, "v": v}) for ts, k, v in rows], "none": []},
    )
    assert as_multiset(found) == as_multiset(expected)


def test_at_the_end_a_match_that_stayed_open_no_longer_holds_back_the_next() -> None:
    # from the first row, C+ could go on for ever; from the second, where C must be 2 at least, the match is complete
    rows: list[Tuple] = [(at, 1, value) for at, value in enumerate((1, 1, 2, 2, 1))]
    pattern = row_pattern(CONDITIONS[3], (1, 1), (1, None), None, overlapping=False)
    operator = MatchRows((), pattern, PICKED, COUNTED, ("k", "v")).build()
    assert not list(operator.on_page(0, page(rows)))
    assert list(operator.on_punctuation(0, Punctuation(100))) == [Punctuation(4)]
    found, mark = operator.on_punctuation(0, Punctuation(END))
    assert isinstance(found, Page)
    assert found.rows["bn"].to_list() == [2]
    assert mark == Punctuation(END)
    assert operator.held() == 0


@settings(deadline=None, max_examples=6)
@given(st.lists(st.integers(1, 5), max_size=60), st.sampled_from([1, 3]))
def test_few_starts_at_a_time_find_the_same(values: list[int], starts: int) -> None:
    """A round tries few rows, and lets a start that is not the first go one row far."""
    pattern = row_pattern(CONDITIONS[2], (1, None), (1, 1), 30, overlapping=False)
    spec = MatchRows((K,), pattern, PICKED, COUNTED, ("k", "v"))
    rows = [(ts, ts % 2, value) for ts, value in enumerate(values)]

    def run() -> list[list[tuple[object, ...]]]:
        operator = spec.build()
        operator.on_page(0, page(rows))
        return [out.rows.rows() for out in operator.on_punctuation(0, Punctuation(100)) if isinstance(out, Page)]

    whole = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matcher, "_STARTS", starts)
        patch.setattr(matcher, "_FAR", 1)
        patch.setattr(matcher, "_BLOCK", 2)
        assert run() == whole


@settings(deadline=None, max_examples=60)
@given(
    values=st.lists(st.integers(1, 5), max_size=80),
    of_b=st.sampled_from([*(pair for pair in QUANTIFIERS if pair != (0, 1)), (2, 2), (0, 2)]),
    of_c=st.sampled_from([(1, 1), (1, None), (0, None), (3, 3)]),
    within=st.sampled_from([None, 6, 30]),
    bounds=st.lists(st.integers(0, 90), max_size=4),
    overlapping=st.booleans(),
    first=st.sampled_from([TRUE, compare(">=", V, number(3))]),
)
def test_a_pattern_without_a_look_at_other_rows_gives_the_same_in_both_searches(
    values: list[int], of_b: tuple[int, int | None], of_c: tuple[int, int | None], within: int | None,
    bounds: list[int], overlapping: bool, first: Expr,
) -> None:  # fmt: skip
    pattern = row_pattern(CONDITIONS[0], of_b, of_c, within, overlapping=overlapping, first=first)
    spec = MatchRows((K,), pattern, PICKED, COUNTED, ("k", "v"))
    rows = [(ts, ts % 3 % 2, value) for ts, value in enumerate(values)]

    def run(is_plain: bool) -> list[object]:
        operator, seen = spec.build(), list[object]()
        assert operator._matcher.is_plain
        operator._matcher.is_plain = is_plain
        done = 0
        for bound in [*sorted(bounds), 100]:
            if ready := rows[done:bound]:
                operator.on_page(0, page(ready))
            done = max(done, bound)
            seen += [out.rows.rows() for out in operator.on_punctuation(0, Punctuation(bound)) if isinstance(out, Page)]
            seen.append(operator.held())
        return seen

    assert run(True) == run(False)


def test_only_rows_from_an_open_match_on_are_kept() -> None:
    pattern = row_pattern((compare("=", V, number(2)), compare("=", V, number(3))), (1, None), (1, 1), 50,
                          overlapping=False, first=compare("=", V, number(1)))  # fmt: skip
    operator = MatchRows((K,), pattern, PICKED, COUNTED, ("k", "v")).build()
    operator.on_page(0, page([(ts, 1, 5) for ts in range(10)] + [(10, 1, 1), (11, 1, 2), (12, 2, 4)]))
    list(operator.on_punctuation(0, Punctuation(13)))
    assert operator.held() == 2, "A and one B of partition 1"
    list(operator.on_punctuation(0, Punctuation(59)))
    assert operator.held() == 2
    list(operator.on_punctuation(0, Punctuation(60)))
    assert operator.held() == 0, "a row that comes now is too late for this match"


def test_a_long_repetition_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 rows of one variable are tested in blocks, not one by one."""
    twice = Call("and", (compare("=", V, number(2)), compare(">", V, LAST_A)), Type.BOOLEAN)
    pattern = row_pattern((twice, compare("=", V, number(3))), (1, None), (1, 1), 10**9,
                          overlapping=False, first=compare("=", V, number(1)))  # fmt: skip
    operator = MatchRows((K,), pattern, PICKED, COUNTED, ("k", "v")).build()
    steps = 0
    test = Conditions.test

    def counted(*args: object) -> object:
        nonlocal steps
        steps += 1
        return test(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Conditions, "test", counted)
    values = [1, *[2] * 20_000, 3, 3]
    operator.on_page(0, page([(ts, 1, value) for ts, value in enumerate(values)]))
    results = [out for out in operator.on_punctuation(0, Punctuation(10**6)) if isinstance(out, Page)]
    assert results[0].rows["bs"].to_list() == [20_000]
    assert steps < 200
