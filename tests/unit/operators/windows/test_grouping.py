from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.windows import grouping
from headrace.operators.windows.grouping import grouped

AGGREGATIONS = [pl.len().alias("n"), pl.col("x").unique(maintain_order=True).alias("different")]


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    count = draw(st.integers(0, 12))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=count, max_size=count))

    panes = column(st.integers(0, 2) | st.none() if draw(st.booleans()) else st.integers(0, 2))
    if draw(st.booleans()):
        panes.sort(key=lambda pane: (pane is not None, pane))
    return pl.DataFrame(
        {
            "pane": pl.Series(panes, dtype=pl.Int64),
            "key": pl.Series(column(st.sampled_from(["a", "b", None]) if draw(st.booleans()) else st.just("a"))),
            "number": pl.Series(column(st.sampled_from([0.0, -0.0, float("nan")])), dtype=pl.Float64),
            "x": pl.Series(column(st.integers(0, 3)), dtype=pl.Int64),
        },
        schema_overrides={"key": pl.String},
    )


@given(rows=frames(), by=st.sampled_from([["pane"], ["pane", "key"], ["pane", "key", "number"], ["key", "pane"]]))
@settings(deadline=None)
def test_groups_are_those_of_all_columns_in_the_order_of_their_first_rows(rows: pl.DataFrame, by: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_LEAST_RUN", 2)
        found = grouped(rows, by, AGGREGATIONS)
    assert found.equals(rows.group_by(by, maintain_order=True).agg(AGGREGATIONS))
    assert found.columns == [*by, "n", "different"]
