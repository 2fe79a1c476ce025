"""Parquet files hold what was written, whoever encodes it."""

from __future__ import annotations

import datetime as dt
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.files.sink import CODECS
from headrace.connectors.formats.parquet_writing import write_parquet

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp has no zone
_COLUMNS: dict[Any, st.SearchStrategy[Any]] = {
    pl.Int32: st.integers(-(2**31), 2**31 - 1),
    pl.Int64: st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    pl.Float64: st.floats(),
    pl.Boolean: st.booleans(),
    pl.String: st.text(max_size=5),
    pl.Date: st.dates(),
    pl.Datetime("us"): st.datetimes(),
}


def written(rows: pl.DataFrame, codec: str = "snappy") -> bytes:
    file = BytesIO()
    write_parquet(rows, file, *CODECS[codec])
    return file.getvalue()


def encodings(content: bytes, column: int = 0) -> tuple[str, ...]:
    return tuple(pq.read_metadata(BytesIO(content)).row_group(0).column(column).encodings)


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    dtypes = draw(st.lists(st.sampled_from(list(_COLUMNS)), min_size=1, max_size=4))
    height = draw(st.integers(0, 40))
    lists = [draw(st.lists(st.none() | _COLUMNS[dtype], min_size=height, max_size=height)) for dtype in dtypes]
    return pl.DataFrame(
        [pl.Series(f"c{i}", values, dtype) for i, (values, dtype) in enumerate(zip(lists, dtypes, strict=True))]
    )


@pytest.mark.slow
@given(frames(), st.sampled_from(list(CODECS)))
def test_rows_are_read_as_they_were_written(rows: pl.DataFrame, codec: str) -> None:
    content = written(rows, codec)
    assert pl.read_parquet(content).equals(rows)
    by_arrow = pl.from_arrow(pq.read_table(BytesIO(content)))
    assert isinstance(by_arrow, pl.DataFrame)
    assert by_arrow.equals(rows)


@pytest.mark.parametrize(
    ("column", "is_differences"),
    [
        (pl.int_range(5_000, eager=True), True),
        (pl.Series([_EPOCH + dt.timedelta(milliseconds=i) for i in range(5_000)]), True),
        (pl.int_range(5_000, eager=True) * 2**50, False),
        (pl.int_range(5_000, eager=True) % 7, False),
        (pl.Series([None] * 5_000, dtype=pl.Int64), False),
        (pl.int_range(5_000, eager=True).cast(pl.Float64), False),
        (pl.int_range(5_000, eager=True).cast(pl.String), False),
    ],
)
def test_differences_are_written_of_many_numbers_that_lie_close_together(
    column: pl.Series, is_differences: bool
) -> None:
    content = written(column.to_frame("c"))
    assert ("DELTA_BINARY_PACKED" in encodings(content)) == is_differences
    assert pl.read_parquet(content)["c"].equals(column)


def test_beside_differences_only_texts_and_columns_of_few_values_have_dictionaries() -> None:
    n = pl.int_range(5_000, eager=True)
    rows = pl.DataFrame({"n": n, "m": n, "few": n % 3, "price": n * 0.5, "zero": n * 0.0, "text": n.cast(pl.String)})
    rows = rows.with_columns(l=n, o=n)
    content = written(rows)
    has = ["RLE_DICTIONARY" in encodings(content, column) for column in range(rows.width)]
    assert dict(zip(rows.columns, has, strict=True)) == {
        "n": False, "m": False, "few": True, "price": False, "zero": True, "text": True, "l": False, "o": False
    }  # fmt: skip
    assert pl.read_parquet(content).equals(rows)


def test_duckdb_and_arrow_read_differences(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "n": pl.int_range(5_000, eager=True).shuffle(seed=1),
            "at": pl.Series([_EPOCH + dt.timedelta(seconds=i) for i in range(5_000)]),
            "name": [f"n{i % 100}" for i in range(5_000)],
        }
    )
    path = tmp_path / "a.parquet"
    path.write_bytes(written(rows, "zstd"))
    assert "DELTA_BINARY_PACKED" in pq.read_metadata(path).row_group(0).column(1).encodings
    with duckdb.connect() as db:
        found = db.execute(f"SELECT sum(n), max(\"at\"), max(name) FROM '{path}'").fetchone()
    assert found == (5_000 * 4_999 // 2, _EPOCH + dt.timedelta(seconds=4_999), "n99")
    assert pq.read_schema(path).types == [pa.int64(), pa.timestamp("us"), pa.large_string()]


def test_nested_columns_and_decimals_are_written() -> None:
    rows = pl.DataFrame({"n": range(5_000), "m": range(5_000), "xs": [[1, 2]] * 5_000})
    assert pl.read_parquet(written(rows)).equals(rows)
    rows = rows.with_columns(xs=pl.col("n").cast(pl.Decimal(12, 2)))
    assert pl.read_parquet(written(rows)).equals(rows)
