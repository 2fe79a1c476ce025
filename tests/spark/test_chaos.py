"""The chaos bench on a real deployment, briefly: faults under load change no result, and a lost row would be told."""

import importlib
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benches(monkeypatch):
    """Import a module of benches/ as `headrace bench` does."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name: importlib.import_module(f"benches.{name}")


def test_faults_under_load_change_no_result_and_a_lost_row_is_told(benches, tmp_path):
    chaos, sinks = benches("chaos"), benches("parts.sinks")
    record = chaos.run(tmp_path, seed=4, is_over=lambda record: record.count >= 6, drains=1)
    assert record.count >= 6
    assert record.starts >= 3
    figures = chaos.report(record, seed=4, seconds=60)
    assert [row for row in figures["rows"] if row.get("verdict") == "missed"] == [], figures["notes"]
    assert min(difference.expected for difference in record.differences.values()) > 0

    path = max((tmp_path / "out" / "counts").glob("part-*.parquet"))
    pl.read_parquet(path)[1:].write_parquet(path)
    record.differences = sinks.differences(tmp_path / "data", tmp_path / "out", seed=4)
    figures = chaos.report(record, seed=4, seconds=60)
    assert [row["case"] for row in figures["rows"] if row.get("verdict") == "missed"] == ["lost results"]
