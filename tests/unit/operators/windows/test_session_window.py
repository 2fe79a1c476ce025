from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Session
from headrace.operators.windows.session_window import SessionAggregate

COUNT = (AggregateCall("n", "count", None, Type.BIGINT),)
Row = dict[str, Any]


def counting(gap: int) -> list[Any]:
    return [SessionAggregate(Session(gap), (), COUNT).build()]


def tuples_at(windows: Any, *instants: int) -> Page:
    return windows.page([{"ts": ts, "seq": i, "k": 0, "v": 1.0} for i, ts in enumerate(instants)])


def stamped(elements: list[Any]) -> list[tuple[int, int]]:
    return [row for item in elements if isinstance(item, Page) for row in item.rows.select(TS, "n").rows()]


def promises(elements: list[Any]) -> list[int]:
    return [item.bound for item in elements if isinstance(item, Punctuation)]


def test_a_session_closes_when_the_punctuation_reaches_its_last_tuple_plus_gap(windows: Any) -> None:
    output = windows.run(lambda: counting(10), [tuples_at(windows, 1, 5, 14), Punctuation(23), Punctuation(24)])
    assert stamped(output) == [(24, 3)]
    assert promises(output) == [24, 34]


def test_tuples_exactly_a_gap_apart_are_in_different_sessions(windows: Any) -> None:
    output = windows.run(lambda: counting(10), [tuples_at(windows, 0, 10, 19), Punctuation(END)])
    assert stamped(output) == [(10, 1), (29, 2)]


def test_a_late_tuple_joins_two_sessions(windows: Any) -> None:
    output = windows.run(lambda: counting(10), [tuples_at(windows, 0, 16), tuples_at(windows, 8), Punctuation(END)])
    assert stamped(output) == [(26, 3)]


def test_an_old_fragment_lives_on_in_a_session_that_goes_on(windows: Any) -> None:
    output = windows.run(
        lambda: counting(10),
        [tuples_at(windows, 0), None, tuples_at(windows, 9), None, Punctuation(12), None, Punctuation(19)],
    )
    assert stamped(output) == [(19, 2)]


def test_an_old_fragment_in_a_large_run_lives_on_in_its_session_only(windows: Any) -> None:
    # The sizes keep the runs apart: 100 fragments, 21 fragments, and the one that lives on.
    early = windows.page([{"ts": 0, "seq": k, "k": k, "v": 1.0} for k in range(100)])
    later = windows.page([{"ts": 9, "seq": k, "k": k, "v": 1.0} for k in (0, *range(100, 120))])
    spec = SessionAggregate(Session(10), windows.keys, COUNT)
    output = windows.run(lambda: [spec.build()], [early, None, later, Punctuation(12), None, Punctuation(END)])
    assert stamped(output) == [(10, 1)] * 99 + [(19, 2)] + [(19, 1)] * 20


def test_a_fragment_that_merges_just_when_it_would_ripen_closes_nothing(windows: Any) -> None:
    output = windows.run(
        lambda: counting(8), [tuples_at(windows, 0), None, tuples_at(windows, 1), Punctuation(8), Punctuation(9)]
    )
    assert stamped(output) == [(9, 2)]


def test_groups_are_found_by_the_key_expressions() -> None:
    keys = (("key", Column("x", Type.STRING)),)
    assert SessionAggregate(Session(1), keys, COUNT).partition_by(0) == (Column("x", Type.STRING),)


def test_state_is_gone_once_all_sessions_have_closed(windows: Any) -> None:
    (operator,) = counting(10)
    list(operator.on_page(0, tuples_at(windows, 1, 2, 50)))
    list(operator.on_punctuation(0, Punctuation(40)))
    assert operator.held() == 1
    list(operator.on_punctuation(0, Punctuation(END)))
    assert operator.state() == {}


def naive(windows: Any, rows: list[Row], gap: int, grouped: bool) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for k in {row["k"] if grouped else 0 for row in rows}:
        sessions: list[list[Row]] = []
        for row in sorted((row for row in rows if not grouped or row["k"] == k), key=lambda row: row["ts"]):
            if sessions and row["ts"] - sessions[-1][-1]["ts"] < gap:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        for session in sessions:
            end = session[-1]["ts"] + gap
            key = {"k": k} if grouped else {}
            found[windows.expect(session, **key, window_start=session[0]["ts"], window_end=end, **{TS: end})] += 1
    return found


@st.composite
def histories(draw: Any) -> list[Any]:
    """Pages, punctuations that hold, and restarts."""
    bound, seq = draw(st.integers(-20, 5)), 0
    items: list[list[dict[str, Any]] | None] = []
    for _ in range(draw(st.integers(1, 6))):
        for _ in range(draw(st.integers(0, 3))):
            values = st.tuples(
                st.integers(0, 25), st.sampled_from([None, 0, 1]), st.sampled_from([None, -2.0, 0.0, 1.0, 3.0])
            )
            page = [
                {"ts": bound + dt, "seq": seq + i, "k": k, "v": v}
                for i, (dt, k, v) in enumerate(draw(st.lists(values, max_size=5)))
            ]
            seq += len(page)
            items.append(page)
            if draw(st.integers(0, 3)) == 0:
                items.append(None)
        bound += draw(st.integers(0, 15))
        items.append(bound)
    return [*items, END]


@settings(deadline=None, max_examples=40)
@given(histories(), st.sampled_from([1, 3, 8, 20]), st.booleans())
def test_sessions_agree_with_the_plain_meaning(windows: Any, history: list[Any], gap: int, grouped: bool) -> None:
    spec = SessionAggregate(Session(gap), windows.keys if grouped else (), windows.calls)
    inputs = [
        None if item is None else Punctuation(item) if isinstance(item, int) else windows.page(item) for item in history
    ]
    rows = [row for item in history if isinstance(item, list) for row in item]
    assert Counter(windows.results(windows.run(lambda: [spec.build()], inputs))) == naive(windows, rows, gap, grouped)
