from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Session
from headrace.operators.windows.session_window import SessionAggregate
from headrace.testing import windows
from headrace.testing.strategies.window_histories import histories

COUNT = (AggregateCall("n", "count", None, Type.BIGINT),)
Row = dict[str, Any]


def counting(gap: int) -> list[Any]:
    return [SessionAggregate(Session(gap), (), COUNT).build()]


def tuples_at(*instants: int) -> Page:
    return windows.page([{"ts": ts, "seq": i, "k": 0, "v": 1.0} for i, ts in enumerate(instants)])


def stamped(elements: list[Any]) -> list[tuple[int, int]]:
    return [row for item in elements if isinstance(item, Page) for row in item.rows.select(TS, "n").rows()]


def promises(elements: list[Any]) -> list[int]:
    return [item.bound for item in elements if isinstance(item, Punctuation)]


def test_a_session_closes_when_the_punctuation_reaches_its_last_tuple_plus_gap() -> None:
    output = windows.run(lambda: counting(10), [tuples_at(1, 5, 14), Punctuation(23), Punctuation(24)])
    assert stamped(output) == [(24, 3)]
    assert promises(output) == [24, 25]


def test_tuples_exactly_a_gap_apart_are_in_different_sessions() -> None:
    output = windows.run(lambda: counting(10), [tuples_at(0, 10, 19), Punctuation(END)])
    assert stamped(output) == [(10, 1), (29, 2)]


def test_a_late_tuple_joins_two_sessions() -> None:
    output = windows.run(lambda: counting(10), [tuples_at(0, 16), tuples_at(8), Punctuation(END)])
    assert stamped(output) == [(26, 3)]


def test_an_old_fragment_lives_on_in_a_session_that_goes_on() -> None:
    output = windows.run(
        lambda: counting(10),
        [tuples_at(0), None, tuples_at(9), None, Punctuation(12), None, Punctuation(19)],
    )
    assert stamped(output) == [(19, 2)]


def test_an_old_fragment_in_a_large_run_lives_on_in_its_session_only() -> None:
    # The sizes keep the runs apart: 100 fragments, 21 fragments, and the one that lives on.
    early = windows.page([{"ts": 0, "seq": k, "k": k, "v": 1.0} for k in range(100)])
    later = windows.page([{"ts": 9, "seq": k, "k": k, "v": 1.0} for k in (0, *range(100, 120))])
    spec = SessionAggregate(Session(10), windows.KEYS, COUNT)
    output = windows.run(lambda: [spec.build()], [early, None, later, Punctuation(12), None, Punctuation(END)])
    assert stamped(output) == [(10, 1)] * 99 + [(19, 2)] + [(19, 1)] * 20


def test_a_fragment_that_merges_just_when_it_would_ripen_closes_nothing() -> None:
    output = windows.run(lambda: counting(8), [tuples_at(0), None, tuples_at(1), Punctuation(8), Punctuation(9)])
    assert stamped(output) == [(9, 2)]


def test_groups_are_found_by_the_key_expressions() -> None:
    keys = (("key", Column("x", Type.STRING)),)
    assert SessionAggregate(Session(1), keys, COUNT).partition_by(0) == (Column("x", Type.STRING),)


def test_state_is_gone_once_all_sessions_have_closed() -> None:
    (operator,) = counting(10)
    list(operator.on_page(0, tuples_at(1, 2, 50)))
    list(operator.on_punctuation(0, Punctuation(40)))
    assert operator.held() == 1
    list(operator.on_punctuation(0, Punctuation(END)))
    assert operator.state() == {}


def naive(rows: list[Row], gap: int, inclusive: bool, grouped: bool) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for k in {row["k"] if grouped else 0 for row in rows}:
        sessions: list[list[Row]] = []
        for row in sorted((row for row in rows if not grouped or row["k"] == k), key=lambda row: row["ts"]):
            if sessions and row["ts"] - sessions[-1][-1]["ts"] < gap + inclusive:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        for session in sessions:
            end = session[-1]["ts"] + gap
            key = {"k": k} if grouped else {}
            found[windows.expect(session, **key, window_start=session[0]["ts"], window_end=end, **{TS: end})] += 1
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(histories(most=6), st.sampled_from([1, 3, 8, 20]), st.booleans(), st.booleans())
def test_sessions_agree_with_the_plain_meaning(history: list[Any], gap: int, inclusive: bool, grouped: bool) -> None:
    spec = SessionAggregate(Session(gap, inclusive), windows.KEYS if grouped else (), windows.CALLS)
    inputs = windows.inputs_of(history)
    rows = [row for item in history if isinstance(item, list) for row in item]
    assert Counter(windows.results(windows.run(lambda: [spec.build()], inputs))) == naive(rows, gap, inclusive, grouped)
