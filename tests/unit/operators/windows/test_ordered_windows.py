from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Rows, Sliding, While
from headrace.operators.capabilities import held_by
from headrace.operators.windows.rows_window import RowsAggregate
from headrace.operators.windows.sliding import SlidingAggregate
from headrace.operators.windows.while_window import WhileAggregate
from headrace.testing import windows

pytestmark = pytest.mark.slow

COUNT = (AggregateCall("n", "count", None, Type.BIGINT),)
K, V = Column("k", Type.INT), Column("v", Type.DOUBLE)
IS_POSITIVE = Call(">", (V, Literal(0.0, Type.DOUBLE)), Type.BOOLEAN)
NAN = float("nan")
LAST = (AggregateCall("last", "last", V, Type.DOUBLE),)
Row = dict[str, Any]


def tuples(*given_: tuple[int, float]) -> Page:
    return windows.page([{"ts": ts, "seq": i, "k": 0, "v": v} for i, (ts, v) in enumerate(given_)])


def tuples_at(*instants: int) -> Page:
    return tuples(*((ts, 1.0) for ts in instants))


def rows_of(elements: list[Any]) -> list[tuple[int, int, int]]:
    """Window start, stamp, count."""
    return [
        (start, ts, n)
        for r in elements
        if isinstance(r, Page)
        for start, ts, n in r.rows.select(pl.col("window_start").cast(pl.Int64), TS, "n").rows()
    ]


def test_a_sliding_window_gives_one_result_per_tuple_and_includes_its_far_edge() -> None:
    inputs = [tuples_at(0, 4), None, tuples_at(10, 11, 11), Punctuation(11)]
    output = windows.run(lambda: [SlidingAggregate(Sliding(10), (), COUNT).build()], inputs)
    assert rows_of(output) == [(0, 0, 1), (0, 4, 2), (0, 10, 3), (1, 11, 3), (1, 11, 4)]
    assert output[-1] == Punctuation(11)


def test_an_unbounded_window_grows() -> None:
    inputs = [tuples_at(3, 4, 4), None, tuples_at(1000), Punctuation(END)]
    output = windows.run(lambda: [SlidingAggregate(Sliding(None), (), COUNT).build()], inputs)
    assert rows_of(output) == [(3, 3, 1), (3, 4, 2), (3, 4, 3), (3, 1000, 4)]


def test_a_rows_window_counts_tuples_and_gives_complete_windows_only() -> None:
    inputs = [tuples_at(1, 2), None, tuples_at(3, 5, 8), Punctuation(END)]
    output = windows.run(lambda: [RowsAggregate(Rows(3, 2), (), COUNT).build()], inputs)
    assert rows_of(output) == [(1, 3, 3), (3, 8, 3)]


def test_a_rows_window_keeps_less_than_its_size() -> None:
    operator = RowsAggregate(Rows(4, 1), (), COUNT).build()
    list(operator.on_page(0, tuples_at(*range(100))))
    assert held_by(operator) == 3


def test_a_while_window_is_stamped_by_the_tuple_that_ends_it() -> None:
    inputs = [
        tuples((1, 0.0), (2, 1.0), (3, 2.0)),
        None,
        tuples((4, 5.0), (6, -1.0), (7, -1.0), (8, 1.0)),
        Punctuation(END),
    ]
    output = windows.run(lambda: [WhileAggregate(While(IS_POSITIVE), (), COUNT).build()], inputs)
    assert rows_of(output) == [(2, 6, 3)]


def test_rows_beyond_a_sliding_window_are_forgotten_at_a_punctuation() -> None:
    operator = SlidingAggregate(Sliding(10), (), COUNT).build()
    list(operator.on_page(0, tuples_at(1, 5)))
    assert held_by(operator) == 2
    list(operator.on_punctuation(0, Punctuation(12)))
    assert held_by(operator) == 1


def test_sliding_partitions_by_its_keys_and_the_others_by_the_window() -> None:
    assert SlidingAggregate(Sliding(1), windows.KEYS, COUNT).partition_by(0) == (K,)
    assert RowsAggregate(Rows(1, 1, (V,)), windows.KEYS, COUNT).partition_by(0) == (V,)
    assert WhileAggregate(While(IS_POSITIVE), windows.KEYS, COUNT).partition_by(0) == ()


def groups(rows: list[Row], by: tuple[Expr, ...]) -> list[list[Row]]:
    names = [column.name for column in by if isinstance(column, Column)]
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(found.values())


def naive_sliding(rows: list[Row], window: Sliding) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for group in groups(rows, (K,)):
        for i, row in enumerate(group):
            ts = row["ts"]
            inside = [other for other in group[: i + 1] if window.size is None or other["ts"] >= ts - window.size]
            start = group[0]["ts"] if window.size is None else max(ts - window.size, group[0]["ts"])
            found[windows.expect(inside, k=row["k"], window_start=start, window_end=ts, **{TS: ts})] += 1
    return found


def naive_rows(rows: list[Row], window: Rows) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for part in groups(rows, window.by):
        for start in range(0, len(part) - window.size + 1, window.slide):
            inside = part[start : start + window.size]
            end = inside[-1]["ts"]
            for group in groups(inside, (K,)):
                found[
                    windows.expect(group, k=group[0]["k"], window_start=inside[0]["ts"], window_end=end, **{TS: end})
                ] += 1
    return found


def naive_while(rows: list[Row], window: While) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for part in groups(rows, window.by):
        run: list[Row] = []
        for row in part:
            if row["v"] is not None and row["v"] > 0:
                run.append(row)
                continue
            for group in groups(run, (K,)):
                found[
                    windows.expect(
                        group, k=group[0]["k"], window_start=run[0]["ts"], window_end=row["ts"], **{TS: row["ts"]}
                    )
                ] += 1
            run = []
    return found


@st.composite
def histories(draw: Any) -> list[Any]:
    """Pages in timestamp order, punctuations that hold, and restarts."""
    ts = draw(st.integers(-20, 5))
    items: list[list[dict[str, Any]] | None] = []
    seq = 0
    for _ in range(draw(st.integers(1, 6))):
        page = []
        for dt, k, v in draw(
            st.lists(
                st.tuples(st.integers(0, 6), st.sampled_from([None, 0, 1]), st.sampled_from([None, -2.0, 1.0, 3.0])),
                max_size=8,
            )
        ):
            ts, seq = ts + dt, seq + 1
            page.append({"ts": ts, "seq": seq, "k": k, "v": v})
        items.append(page)
        ts += draw(st.integers(0, 5))
        match draw(st.integers(0, 3)):
            case 0:
                items.append(None)
            case 1:
                items.append(ts)
            case _:
                pass
    return [*items, END]


def check(history: list[Any], build: Callable[[], Any], naive: Callable[[list[Row]], Counter[Any]]) -> None:
    inputs = [
        None if item is None else Punctuation(item) if isinstance(item, int) else windows.page(item) for item in history
    ]
    rows = [row for item in history if isinstance(item, list) for row in item]
    output = windows.run(lambda: [build()], inputs)
    assert Counter(windows.results(output)) == naive(rows)
    assert output[-1] == Punctuation(END)
    stamps = [ts for item in output if isinstance(item, Page) for ts in item.rows[TS].to_list()]
    assert stamps == sorted(stamps)


@settings(deadline=None, max_examples=35)
@given(histories(), st.sampled_from([0, 1, 5, 12, None]))
def test_sliding_windows_agree_with_the_plain_meaning(history: list[Any], size: int | None) -> None:
    window = Sliding(size)
    check(
        history,
        SlidingAggregate(window, windows.KEYS, windows.CALLS).build,
        lambda rows: naive_sliding(rows, window),
    )


@settings(deadline=None, max_examples=35)
@given(
    histories(), st.sampled_from([(1, 1), (3, 1), (3, 2), (2, 3), (1, 4), (4, 4)]), st.sampled_from([(), (K,), (V,)])
)
def test_rows_windows_agree_with_the_plain_meaning(
    history: list[Any], shape: tuple[int, int], by: tuple[Expr, ...]
) -> None:
    window = Rows(*shape, by)
    check(
        history,
        RowsAggregate(window, windows.KEYS, windows.CALLS).build,
        lambda rows: naive_rows(rows, window),
    )


@settings(deadline=None, max_examples=35)
@given(histories(), st.sampled_from([(), (K,)]))
def test_while_windows_agree_with_the_plain_meaning(history: list[Any], by: tuple[Expr, ...]) -> None:
    window = While(IS_POSITIVE, by)
    check(
        history,
        WhileAggregate(window, windows.KEYS, windows.CALLS).build,
        lambda rows: naive_while(rows, window),
    )


@pytest.mark.parametrize(
    "spec",
    [
        SlidingAggregate(Sliding(None), (), LAST),
        SlidingAggregate(Sliding(9), (), LAST),
        WhileAggregate(While(IS_POSITIVE), (), LAST),
    ],
)
def test_the_last_of_equal_instants_is_the_newest_after_a_restart_too(spec: Any) -> None:
    inputs = [
        tuples((5, 1.0), (5, 2.0), (5, 3.0)),
        None,
        tuples((5, 4.0)),
        tuples((5, -1.0)),
        Punctuation(END),
    ]
    values = [
        value
        for item in windows.run(lambda: [spec.build()], inputs)
        if isinstance(item, Page)
        for value in item.rows["last"].to_list()
    ]
    assert values == ([4.0] if isinstance(spec, WhileAggregate) else [1.0, 2.0, 3.0, 4.0, -1.0])


def test_instants_far_apart_in_many_groups_find_their_windows() -> None:
    rows = [
        {"ts": ts, "seq": i, "k": i % 3, "v": 1.0}
        for i, ts in enumerate((-(2**61), -(2**61) + 1, 0, 3, 2**61, 2**61 + 5))
    ]
    output = windows.run(
        lambda: [SlidingAggregate(Sliding(2**61 + 10), windows.KEYS, COUNT).build()],
        [windows.page(rows), Punctuation(END)],
    )
    assert [n for _, _, n in rows_of(output)] == [1, 1, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("dtype", "values", "least", "greatest"),
    [
        (pl.Int32, [None, 5, -3, None, None], [None, 5, -3, -3, None], [None, 5, 5, 5, None]),
        (
            pl.Date,
            [None, date(2026, 1, 2), date(2026, 1, 1), None, None],
            [None, date(2026, 1, 2), date(2026, 1, 1), date(2026, 1, 1), None],
            None,
        ),
        (pl.String, [None, "b", "a", None, None], [None, "b", "a", "a", None], [None, "b", "b", "b", None]),
        (pl.Boolean, [None, True, False, None, None], [None, True, False, False, None], [None, True, True, True, None]),
        (pl.Float64, [None, NAN, 1.0, None, None], [None, NAN, 1.0, 1.0, None], [None, NAN, NAN, NAN, None]),
    ],
)
def test_extremes_of_slices_skip_null_in_every_type(
    dtype: Any, values: list[Any], least: list[Any], greatest: list[Any] | None
) -> None:
    types = {
        pl.Int32: Type.INT,
        pl.Date: Type.DATE,
        pl.String: Type.STRING,
        pl.Boolean: Type.BOOLEAN,
        pl.Float64: Type.DOUBLE,
    }
    x = Column("x", types[dtype])
    calls = (AggregateCall("least", "min", x, x.type), AggregateCall("greatest", "max", x, x.type))
    page = Page(pl.DataFrame({"x": pl.Series(values, dtype=dtype), TS: pl.Series([0, 10, 11, 12, 30], dtype=pl.Int64)}))
    (result,) = SlidingAggregate(Sliding(5), (), calls).build().on_page(0, page)
    assert str(result.rows["least"].to_list()) == str(least)
    if greatest is not None:
        assert str(result.rows["greatest"].to_list()) == str(greatest)
