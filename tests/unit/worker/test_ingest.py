"""What the ingest makes of records that it cannot stamp."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from headrace.session import Session


def test_timestamps_outside_of_the_years_1_to_9000_are_bad_records(tmp_path: Path) -> None:
    years = {
        "year 75039": 2**61,
        "year 146,000": 2**62,
        "year 10000": 253_402_300_800_000_001,
        "year -34565": -(2**60),
        "missing": None,
    }
    stamps = pl.Series([*years.values(), 0], dtype=pl.Int64).cast(pl.Datetime("us"))
    pl.DataFrame({"at": stamps, "v": range(6)}).write_parquet(tmp_path / "x.parquet")
    with Session(host="local") as session:
        session.execute(f"""
            CREATE STREAM s (at TIMESTAMP, v INT) TIMESTAMP BY at FROM FILES (path '{tmp_path}/x.parquet');
            CREATE QUERY kept AS SELECT v FROM s INTO MEMORY;
            CREATE QUERY bad AS SELECT reason, record FROM s.bad INTO MEMORY;
            CREATE QUERY windows AS SELECT count(*) AS n FROM s [RANGE 1 DAY] INTO MEMORY;
        """)
        session.drain(60)
        assert session.results("kept") == [{"v": 5}]
        assert session.results("windows") == [{"n": 1}]
        reasons = [row["reason"] for row in session.results("bad")]
        assert (
            sorted(reasons)
            == ["at is NULL, so the tuple has no timestamp"] + ["at is not between the years 1 and 9000"] * 4
        )
        assert any("75039" in row["record"] for row in session.results("bad"))
