from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.operators.arrays import KEY
from headrace.operators.joins.sequence_state import Predecessors


def rows(*times: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"v": [ts * 10 for ts in times], TS: list(times), KEY: [ts % 3 for ts in times]},
        schema_overrides={TS: pl.Int64, KEY: pl.Int64},
    )


def reread(held: Predecessors) -> Predecessors:
    again = Predecessors()
    again.restore({name: Page.decode(Page(frame).encode()).rows for name, frame in held.state().items()})
    return again


def test_a_few_dropped_tuples_are_marked_and_many_are_taken_out() -> None:
    held = Predecessors()
    held.add(rows(*range(10)))
    (stored,) = held.state().values()
    held.drop(np.array([1, 3]))
    state = held.state()
    assert state["before-0"] is stored
    assert state["before-0/gone"].height == 2  # ten bits
    held.drop(np.array([0, 1, 2, 3, 4]))  # 0, 2, 4, 5 and 6 were left at these places
    assert {name: frame["v"].to_list() for name, frame in held.state().items()} == {"before-0": [70, 80, 90]}
    assert held.ts.tolist() == [7, 8, 9]
    assert held.keys.tolist() == [1, 2, 0]


def test_a_large_chunk_is_not_copied_for_a_small_one() -> None:
    held = Predecessors()
    held.add(rows(*range(100)))
    before = held.state()["before-0"]
    held.add(rows(100, 101))
    held.add(rows(102))
    assert held.state()["before-0"] is before
    assert sorted(held.state()) == ["before-0", "before-1"]
    assert held.take(np.array([102, 0]))["v"].to_list() == [1020, 0]


@pytest.mark.slow
@given(st.lists(st.integers(1, 30) | st.lists(st.integers(0, 60), max_size=20), max_size=15))
def test_it_is_a_list_that_survives_being_written_and_read(steps: list[int | list[int]]) -> None:
    held, expected, clock = Predecessors(), [], 0
    for step in steps:
        if isinstance(step, int):
            held.add(rows(*range(clock, clock + step)))
            expected += range(clock, clock + step)
            clock += step
        else:
            places = sorted({place for place in step if place < len(expected)})
            held.drop(np.array(places, np.int64))
            expected = [ts for place, ts in enumerate(expected) if place not in places]
        for each in (held, reread(held)):
            assert each.ts.tolist() == expected
            assert len(each) == len(expected)
            assert not expected or each.take(np.arange(len(expected)))["v"].to_list() == [ts * 10 for ts in expected]
        held = reread(held) if len(expected) % 2 else held
