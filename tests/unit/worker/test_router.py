"""Pages on their way to buckets."""

import numpy as np
import polars as pl
import pytest

from headrace.worker.router import _rows_of_a_page, divide


def test_rows_of_a_bucket_stay_in_their_order() -> None:
    rows = pl.DataFrame({"v": range(7)})
    parts = list(divide(rows, np.array([2, 0, 2, 2, 0, 2, 0]), [5, 6, 8]))
    assert [(bucket, part["v"].to_list()) for bucket, part in parts] == [(5, [1, 4, 6]), (8, [0, 2, 3, 5])]


@pytest.mark.parametrize(("length", "count"), [(1, 1000), (100_000, 2), (500_000, 1)])
def test_a_page_has_fewer_rows_if_they_hold_long_lists(length: int, count: int) -> None:
    lists = pl.DataFrame({"v": [[0.0] * length] * 3})
    assert _rows_of_a_page(lists, 1000) == count
    assert _rows_of_a_page(pl.DataFrame({"v": range(3)}), 1000) == 1000
