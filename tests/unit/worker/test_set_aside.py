"""Records that were set aside are shown as texts, whatever their columns hold."""

from __future__ import annotations

import datetime as dt

import polars as pl

from headrace.worker.set_aside import as_texts


def test_every_type_has_a_text() -> None:
    rows = pl.DataFrame(
        {
            "n": [1, None],
            "span": pl.Series([dt.timedelta(seconds=90), None], dtype=pl.Duration("us")),
            "raw": pl.Series([b"\xff\x00", None], dtype=pl.Binary),
            "list": [[1, 2], None],
            "pair": pl.Series([{"a": 1}, None], dtype=pl.Struct({"a": pl.Int64})),
            "day": pl.Series([4_000_000, None], dtype=pl.Int32).cast(pl.Date),  # after year 9999
        }
    )
    texts = as_texts(rows)
    assert set(texts.dtypes) == {pl.String}
    assert texts.row(0)[:5] == ("1", "90 s", "ff00", "[1, 2]", "{'a': 1}")
    assert texts.row(1) == (None,) * 6


def test_no_rows_have_no_texts() -> None:
    assert as_texts(pl.DataFrame(schema={"raw": pl.Binary, "span": pl.Duration("us")})).height == 0
