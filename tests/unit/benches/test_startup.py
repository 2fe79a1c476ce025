"""The parts of the bench of small jobs that need no Spark."""

import importlib
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[3]
SUMS = pl.DataFrame({"item": [1, 1, 2], "s": [4, 5, 6], "window_end": [60, 120, 60]})


@pytest.fixture
def startup(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return importlib.import_module("benches.startup")


def put(folder: Path, name: str, rows: pl.DataFrame) -> None:
    (folder / name).mkdir()
    rows.write_parquet(folder / name / "part.parquet")


def test_windows_that_plain_spark_leaves_open_are_not_compared(startup, tmp_path: Path) -> None:
    put(tmp_path, "ours", SUMS)
    put(tmp_path, "plain", SUMS.filter(pl.col("window_end") == 60))
    startup.compare(tmp_path)


@pytest.mark.parametrize("wrong", [SUMS.head(1), SUMS.with_columns(s=pl.col("s") + 1), SUMS.clear()])
def test_other_sums_are_an_error(startup, tmp_path: Path, wrong: pl.DataFrame) -> None:
    put(tmp_path, "ours", SUMS)
    put(tmp_path, "plain", wrong)
    with pytest.raises(RuntimeError, match="differ"):
        startup.compare(tmp_path)


def test_all_rows_are_written(startup, tmp_path: Path) -> None:
    startup.write(tmp_path / "data")
    assert pl.read_csv(tmp_path / "data").height == startup.ROWS
