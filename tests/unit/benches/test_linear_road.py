"""The bench of Linear Road: tolls and alerts are those that DuckDB finds, and a lost file is noticed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.session import Session

BEGIN = 1_767_225_600_000_000


@pytest.fixture
def road(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bench, with short expressways that few cars crowd."""
    monkeypatch.setattr(sys, "path", [str(Path(__file__).resolve().parents[3]), *sys.path])
    bench, parts = importlib.import_module("benches.linear_road"), importlib.import_module("benches.parts.linear_road")
    for name, value in {"SEGMENTS": 20, "_SLOW": (8, 13), "_ACCIDENTS": 200}.items():
        monkeypatch.setattr(parts, name, value)
    return bench


def test_tolls_and_alerts_are_those_of_duckdb_and_a_lost_file_is_noticed(road: Any, tmp_path: Path) -> None:
    rows, out = road.reports(1, 600, 420, seed=5), tmp_path / "out"
    (tmp_path / "in").mkdir()
    rows.write_parquet(tmp_path / "in" / "reports.parquet")
    with Session(tmp_path / "checkpoint", host="local", limit=5000) as session:
        session.execute(
            f"CREATE STREAM reports ({road.COLUMNS}) TIMESTAMP BY at "
            f"FROM FILES (path '{tmp_path / 'in'}', format 'parquet', max_rows 5000);"
            + road.STATEMENTS.format(tolls=out / "tolls", alerts=out / "alerts")
        )
        session.drain()
    road.check(rows, out)
    tolls, alerts = (pl.read_parquet(out / name / "*.parquet")["toll"] for name in ("tolls", "alerts"))
    assert 0 < (tolls > 0).sum() < tolls.len()
    assert 0 < alerts.len() < tolls.len()
    late = road.response_times(out, 0, float("inf"))
    assert late.len() == tolls.len() + alerts.len()
    for name in ("alerts", "tolls"):
        next((out / name).glob("*.parquet")).unlink()
        with pytest.raises(road.Disagreement, match=f"the {name} differ"):
            road.check(rows, out)


def test_reports_are_fed_when_their_time_has_come(road: Any, tmp_path: Path) -> None:
    rows = road.reports(1, 50, 60, seed=5)
    road.feed(tmp_path, rows, BEGIN + 30 * road.SECOND)  # long ago: at once
    parts = [pl.read_parquet(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert len(parts) > 30
    assert pl.concat(parts).equals(rows)


def test_each_number_of_expressways_is_told_when_it_is_done(road: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(expressways: int, **_: float) -> Any:
        return road.Run(0.5, 1.0, 2.0 * expressways, tolls=10, alerts=1, reports=1000 * expressways, not_free=5)

    monkeypatch.setattr(road, "measure", measure)
    told: list[str] = []
    figures = road.main(quick=False, keep=lambda so_far: told.append(so_far["notes"][-1]))
    assert [line.split(":")[0] for line in told] == ["1 expressway", "2 expressways", "4 expressways"]
    assert "8.00 s (longest)" in told[-1]
    assert [row["verdict"] for row in figures["rows"]] == ["met", "met", "missed"]
