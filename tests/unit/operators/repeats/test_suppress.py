"""Suppressors: what is let through, when, and what is kept meanwhile."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS, Schema
from headrace.model.suppression import Repeats, Standing, Suppression
from headrace.model.time import END, MINUTE, SECOND
from headrace.model.types import Type
from headrace.operators.capabilities import due_of, held_by
from headrace.operators.operator import Operator
from headrace.operators.repeats.suppress import Suppress

KEY, ACTION = Column("k", Type.STRING), Column("action", Type.STRING)
FIVE = Standing(5 * MINUTE, 11 * MINUTE, ACTION)


def built(rule: Suppression) -> Operator:
    schema = Schema.of(k=Type.STRING, n=Type.INT, action=Type.STRING)
    return Suppress(schema, (KEY,), rule, ("old_k", "old_n", "old_action", "old_ts")).build()


def give(operator: Operator, *rows: tuple[int, str | None, int, str]) -> list[tuple[int, str | None, int, int]]:
    page = Page(
        pl.DataFrame(rows, schema={TS: pl.Int64, "k": pl.String, "n": pl.Int32, "action": pl.String}, orient="row")
    )
    return shown(operator.on_page(0, page))


def reach(operator: Operator, bound: int) -> list[tuple[int, str | None, int, int]]:
    *pages, mark = operator.on_punctuation(0, Punctuation(bound))
    assert mark == Punctuation(bound)
    return shown(pages)


def shown(elements) -> list[tuple[int, str | None, int, int]]:
    """Timestamp, key, newest and oldest n."""
    return [row for page in elements for row in page.rows.select(TS, "k", "n", "old_n").iter_rows()]


def restarted(operator: Operator, rule: Suppression) -> Operator:
    again = built(rule)
    again.restore(operator.state())
    return again


def test_vector_2_4_the_eleventh_arrival_fires_and_the_window_is_cleared() -> None:
    operator = built(Repeats(10, 2 * 60 * MINUTE))
    assert give(operator, *((i, "a", i, "") for i in range(10))) == []
    assert give(operator, (10, "b", 10, ""), (11, "a", 11, "")) == [(11, "a", 11, 0)]
    assert held_by(operator) == 1  # b's
    assert give(operator, *((i, "a", i, "") for i in range(12, 22))) == []
    assert give(restarted(operator, Repeats(10, 2 * 60 * MINUTE)), (22, "a", 22, "")) == [(22, "a", 22, 12)]


def test_of_a_group_no_more_is_kept_than_can_count() -> None:
    operator = built(Repeats(3, 10))
    give(operator, *((i * 100, "a", i, "") for i in range(50)))
    assert held_by(operator) <= 3
    give(operator, (10_000, "a", 0, ""))
    assert held_by(operator) == 1


def test_vector_2_4_an_alarm_that_is_cleaned_after_four_minutes_stays_silent() -> None:
    operator = built(FIVE)
    assert give(operator, (0, "a", 1, "new"), (4 * MINUTE, "a", 2, "clean")) == []
    assert due_of(operator) is None
    assert reach(operator, END) == []


def test_vector_2_4_an_alarm_fires_after_five_minutes_on_an_idle_stream_and_again_while_it_stands() -> None:
    operator = built(FIVE)
    give(operator, (0, "a", 1, "new"))
    assert reach(operator, 5 * MINUTE) == []  # a clean might come at this very instant
    assert due_of(operator) == 5 * MINUTE + 1
    operator = restarted(operator, FIVE)
    assert due_of(operator) == 5 * MINUTE + 1
    assert reach(operator, 5 * MINUTE + 1) == [(5 * MINUTE, "a", 1, 1)]
    assert give(operator, (6 * MINUTE, "a", 2, "new")) == []
    assert due_of(operator) == 10 * MINUTE + 1
    assert reach(operator, END) == [(10 * MINUTE, "a", 1, 1)]
    assert (held_by(operator), due_of(operator)) == (0, None)


@pytest.mark.parametrize(
    ("action", "expected"), [("clean", []), ("update", [(10 * MINUTE, "a", 2, 1)]), ("new", [(5 * MINUTE, "a", 1, 1)])]
)
def test_what_comes_at_the_instant_itself_comes_before_the_alarm(action: str, expected: list[object]) -> None:
    operator = built(Standing(5 * MINUTE, 6 * MINUTE, ACTION))
    found = give(operator, (0, "a", 1, "new"), (5 * MINUTE, "a", 2, action))
    assert found + reach(operator, END) == expected


def test_an_alarm_is_forgotten_when_its_window_is_over() -> None:
    operator = built(Standing(MINUTE, MINUTE + SECOND, ACTION))
    found = give(
        operator, (0, None, 1, "new"), (MINUTE + SECOND, None, 2, "new"), (MINUTE + SECOND + 1, None, 3, "new")
    )
    assert found == [(MINUTE, None, 1, 1)]
    assert reach(operator, END) == [(2 * MINUTE + SECOND + 1, None, 3, 3)]
