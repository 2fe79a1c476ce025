from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Cumulative, Landmark, Panes, Range
from headrace.operators.capabilities import held_by
from headrace.operators.windows import range_windows
from headrace.operators.windows.pane_times import PANE
from headrace.operators.windows.panes import PaneAggregate, PartialAggregate
from headrace.testing import windows
from headrace.testing.strategies.window_histories import histories

COUNT = (AggregateCall("n", "count", None, Type.BIGINT),)
Row = dict[str, Any]


def counting(window: Panes) -> list[Any]:
    return [PartialAggregate(pane_of(window), (), COUNT).build(), PaneAggregate(window, (), COUNT).build()]


def pane_of(window: Panes) -> Range | Landmark:
    step = window.step if isinstance(window, Cumulative) else 0
    return Range(step, step, window.offset % step) if isinstance(window, Cumulative) else window


def tuples_at(*instants: int) -> Page:
    return windows.page([{"ts": ts, "seq": i, "k": 0, "v": 1.0} for i, ts in enumerate(instants)])


def stamped(elements: list[Any]) -> list[tuple[int, int]]:
    return [row for item in elements if isinstance(item, Page) for row in item.rows.select(TS, "n").rows()]


def test_a_tumbling_window_comes_out_when_a_punctuation_reaches_its_end() -> None:
    output = windows.run(lambda: counting(Range(10, 10)), [tuples_at(1, 4, 12), Punctuation(9), Punctuation(10)])
    assert stamped(output) == [(10, 2)]
    assert [item.bound for item in output if isinstance(item, Punctuation)] == [10, 20]
    assert output[1].rows["window_start"].cast(pl.Int64).to_list() == [0]


def test_overlapping_windows_share_panes() -> None:
    output = windows.run(lambda: counting(Range(10, 5)), [tuples_at(1, 6), tuples_at(7, 11), Punctuation(END)])
    assert stamped(output) == [(5, 1), (10, 3), (15, 3), (20, 1)]
    assert output[-1] == Punctuation(END)


def test_tuples_in_the_gaps_between_windows_are_dropped() -> None:
    output = windows.run(lambda: counting(Range(2, 10)), [tuples_at(-9, -8, 0, 1, 2, 9, 11), Punctuation(END)])
    assert stamped(output) == [(-8, 1), (2, 2), (12, 1)]


def test_windows_with_an_offset_are_the_windows_of_a_stream_that_is_earlier_by_it() -> None:
    instants = (-9, 0, 1, 2, 3, 8, 11, 30, 31, 64, 65)
    marks = [-5, 3, 4, 10, 13, 40, 60]
    for window in (Range(10, 10), Range(10, 4), Range(2, 10), Range(32, 2), Cumulative(15, 5)):
        longest = window.size if isinstance(window, Cumulative) else window.slide
        for offset in range(1, longest):
            moved = msgspec.structs.replace(window, offset=offset)
            outputs = [
                windows.run(
                    lambda given=given: counting(given),  # type: ignore[misc]
                    [
                        tuples_at(*(ts + by for ts in instants)),
                        *(element for mark in marks for element in (Punctuation(mark + by), None)),
                        Punctuation(END),
                    ],
                )
                for given, by in ((window, 0), (moved, offset))
            ]
            assert stamped(outputs[1]) == [(end + offset, n) for end, n in stamped(outputs[0])]
            bounds = [[item.bound for item in output if isinstance(item, Punctuation)] for output in outputs]
            assert bounds[1][:-1] == [bound + offset for bound in bounds[0][:-1]]


def test_windows_with_an_offset_that_begin_before_the_start_are_left_out() -> None:
    moved = Range(10, 5, 2)
    spec = PaneAggregate(moved, (), COUNT, since=8)
    output = windows.run(
        lambda: [PartialAggregate(pane_of(moved), (), COUNT).build(), spec.build()],
        [tuples_at(8, 11, 12, 18), Punctuation(END)],
    )
    assert stamped(output) == [(22, 2), (27, 1)]


def test_a_landmark_window_keeps_totals_and_speaks_only_of_groups_that_got_tuples() -> None:
    output = windows.run(
        lambda: counting(Landmark(5, 10)),
        [tuples_at(4, 5, 14, 16, 31), Punctuation(15), Punctuation(25), None, Punctuation(END)],
    )
    assert stamped(output) == [(15, 2), (25, 3), (35, 4)]


def test_an_unbounded_landmark_has_no_start() -> None:
    output = windows.run(lambda: counting(Landmark(None, 10)), [tuples_at(-3, 3), Punctuation(END)])
    assert stamped(output) == [(0, 1), (10, 2)]
    assert output[0].rows["window_start"].to_list() == [None, None]


def test_partials_are_one_row_per_pane_and_group_with_the_least_timestamp() -> None:
    spec = PartialAggregate(Range(10, 4), windows.KEYS, COUNT)
    rows = [{"ts": ts, "seq": 0, "k": k, "v": None} for ts, k in ((3, 1), (2, 1), (3, None), (4, 1))]
    (page,) = spec.build().on_page(0, windows.page(rows))
    assert spec.is_stateless
    assert sorted(page.rows.select(PANE, "k", TS, "__rows").rows(), key=str) == [
        (2, 1, 2, 2),
        (2, None, 3, 1),
        (4, 1, 4, 1),
    ]


def test_groups_are_found_by_the_names_of_the_keys() -> None:
    keys = (("key", Column("x", Type.STRING)),)
    assert PaneAggregate(Range(1, 1), keys, COUNT).partition_by(0) == (Column("key", Type.STRING),)


def test_a_punctuation_that_closes_nothing_changes_no_state() -> None:
    partial, panes = counting(Range(100, 10))
    for page in partial.on_page(0, tuples_at(1, 15)):
        assert list(panes.on_page(0, page)) == []
    before = panes.state()
    assert list(panes.on_punctuation(0, Punctuation(9))) == [Punctuation(10)]
    after = panes.state()
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in after)


def test_a_micro_batch_writes_little_beside_what_is_new() -> None:
    partial = PartialAggregate(Range(10**9, 10**9), windows.KEYS, COUNT).build()
    panes = PaneAggregate(Range(10**9, 10**9), windows.KEYS, COUNT).build()
    seen: set[int] = set()
    kept: list[pl.DataFrame] = []  # so that no id is given twice
    written = 0
    for batch in range(128):
        for page in partial.on_page(
            0, windows.page([{"ts": i, "seq": 0, "k": batch * 10 + i, "v": None} for i in range(10)])
        ):
            assert isinstance(page, Page)
            list(panes.on_page(0, page))
        for chunk in panes.state().values():
            if id(chunk) not in seen:
                seen.add(id(chunk))
                kept.append(chunk)
                written += chunk.height
    assert held_by(panes) == 1280
    assert written <= 1280 * 9  # each row about log2(128) times, not 64 times


@pytest.mark.slow
def test_a_long_silence_between_crowded_windows_costs_nothing() -> None:
    window = Range(10_000, 1)
    spec, operator = PartialAggregate(window, windows.KEYS, COUNT), PaneAggregate(window, windows.KEYS, COUNT).build()
    rows = [{"ts": ts, "seq": 0, "k": k, "v": None} for ts in (0, 10**15) for k in range(20)]
    for page in spec.build().on_page(0, windows.page(rows)):
        assert isinstance(page, Page)
        list(operator.on_page(0, page))
    result, _ = operator.on_punctuation(0, Punctuation(10**15 + 2))
    assert isinstance(result, Page)
    assert result.rows["n"].unique().to_list() == [1]
    assert len(result) == 20 * (10_000 + 2)


def test_windows_close_one_by_one_up_to_a_pane_that_is_in_none_of_them() -> None:
    with mock.patch.object(range_windows, "_BATCH_ROWS", 0):
        output = windows.run(lambda: counting(Range(10, 10)), [tuples_at(0, 30), Punctuation(35), Punctuation(END)])
    assert stamped(output) == [(10, 1), (40, 1)]


def test_a_cumulative_window_grows_to_its_size_and_starts_over() -> None:
    output = windows.run(lambda: counting(Cumulative(15, 5)), [tuples_at(6, 7, 12, 31), Punctuation(END)])
    assert stamped(output) == [(10, 2), (15, 3), (35, 1), (40, 1), (45, 1)]
    starts = [row for item in output if isinstance(item, Page) for row in item.rows["window_start"].cast(pl.Int64)]
    assert starts == [0, 0, 30, 30, 30]


def test_a_cumulative_window_has_a_result_for_each_step_after_its_first_tuple_also_after_a_restart() -> None:
    output = windows.run(
        lambda: counting(Cumulative(20, 5)),
        [tuples_at(1), Punctuation(6), None, Punctuation(16), None, Punctuation(24)],
    )
    assert stamped(output) == [(5, 1), (10, 1), (15, 1), (20, 1)]
    assert [item.bound for item in output if isinstance(item, Punctuation)] == [10, 20, 25]


def test_a_cumulative_window_that_begins_before_the_start_is_left_out() -> None:
    spec = PaneAggregate(Cumulative(10, 5), (), COUNT, since=8)
    output = windows.run(
        lambda: [PartialAggregate(Range(5, 5), (), COUNT).build(), spec.build()], [tuples_at(8, 11), Punctuation(END)]
    )
    assert stamped(output) == [(15, 1), (20, 1)]


def test_a_cumulative_window_keeps_nothing_after_its_end() -> None:
    partial, panes = counting(Cumulative(10, 5))
    for page in partial.on_page(0, tuples_at(1, 6)):
        list(panes.on_page(0, page))
    list(panes.on_punctuation(0, Punctuation(5)))
    assert (panes.held(), panes.due()) == (2, 10)
    list(panes.on_punctuation(0, Punctuation(10)))
    assert (panes.state(), panes.held(), panes.due()) == ({}, 0, None)


def test_state_is_gone_once_all_windows_have_closed() -> None:
    partial, panes = counting(Range(10, 5))
    for page in partial.on_page(0, tuples_at(1, 6, 40)):
        list(panes.on_page(0, page))
    list(panes.on_punctuation(0, Punctuation(20)))
    assert panes.held() == 1
    list(panes.on_punctuation(0, Punctuation(END)))
    assert panes.state() == {}


def naive_range(rows: list[Row], window: Range) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for k in {row["k"] for row in rows}:
        for start in range(-200 // window.slide * window.slide, 200, window.slide):
            inside = [row for row in rows if row["k"] == k and start <= row["ts"] < start + window.size]
            if inside:
                end = start + window.size
                found[windows.expect(inside, k=k, window_start=start, window_end=end, **{TS: end})] += 1
    return found


def naive_landmark(rows: list[Row], window: Landmark) -> Counter[Any]:
    found: Counter[Any] = Counter()
    rows = [row for row in rows if window.start is None or row["ts"] >= window.start]
    origin = window.start or 0
    for k, pane in {(row["k"], (row["ts"] - origin) // window.slide) for row in rows}:
        end = origin + (pane + 1) * window.slide
        inside = [row for row in rows if row["k"] == k and row["ts"] < end]
        found[windows.expect(inside, k=k, window_start=window.start, window_end=end, **{TS: end})] += 1
    return found


def naive_cumulative(rows: list[Row], window: Cumulative) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for k in {row["k"] for row in rows}:
        for end in range(-200 // window.size * window.size, 200, window.step):
            start = (end - 1) // window.size * window.size
            inside = [row for row in rows if row["k"] == k and start <= row["ts"] < end]
            if inside:
                found[windows.expect(inside, k=k, window_start=start, window_end=end, **{TS: end})] += 1
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    histories(),
    st.sampled_from(
        [
            Range(10, 10),
            Range(10, 4),
            Range(9, 3),
            Range(3, 7),
            Range(1, 1),
            Range(12, 1),
            Range(16, 1),
            Range(27, 2),
            Landmark(0, 5),
            Landmark(None, 7),
            Landmark(-30, 4),
            Cumulative(12, 3),
            Cumulative(40, 4),
            Cumulative(5, 5),
        ]
    ),
    st.booleans(),
)
def test_panes_agree_with_the_plain_meaning(
    history: list[list[Row] | int | None], window: Panes, crowded: bool
) -> None:
    def build() -> list[Any]:
        return [
            PartialAggregate(pane_of(window), windows.KEYS, windows.CALLS).build(),
            PaneAggregate(window, windows.KEYS, windows.CALLS).build(),
        ]

    rows = [row for item in history if isinstance(item, list) for row in item]
    match window:
        case Range():
            expected = naive_range(rows, window)
        case Landmark():
            expected = naive_landmark(rows, window)
        case Cumulative():
            expected = naive_cumulative(rows, window)
    with mock.patch.object(
        range_windows, "_BATCH_ROWS", 0 if crowded else 1_000_000
    ):  # as if there were too many rows for one merge
        assert Counter(windows.results(windows.run(build, windows.inputs_of(history)))) == expected
