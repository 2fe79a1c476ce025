"""The parts of the chaos bench that need no Spark: its load, its references, and a comparison that can fail."""

import importlib
import shutil
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from headrace.session import Session

ROOT = Path(__file__).resolve().parents[3]
ROWS = pl.DataFrame({"key": [1, 1, 2, None], "word": ["a", "a", "b", None], "at": [1, 1, 2, 3]}).with_columns(
    pl.col("at").cast(pl.Datetime("us"))
)


@pytest.fixture
def benches(monkeypatch):
    """Import a module of benches/ as `headrace bench` does."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name: importlib.import_module(f"benches.{name}")


def put(rows: pl.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        rows.write_parquet(path)
        return path
    texts = rows.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f"))
    texts.write_csv(path) if path.suffix == ".csv" else texts.write_ndjson(path)
    return path


def compared(benches, rows: pl.DataFrame, path: Path):
    with duckdb.connect() as connection:
        connection.register("rows", ROWS.to_arrow())
        return benches("parts.comparison").compare(connection, "SELECT * FROM rows", [put(rows, path)])


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_a_lost_a_repeated_and_a_changed_row_are_told_apart(benches, tmp_path, form):
    difference = benches("parts.comparison").Difference
    path = tmp_path / f"part-1.{form}"
    assert compared(benches, ROWS.reverse(), path) == difference(4, 0, 0, 0)
    assert compared(benches, ROWS[1:], path) == difference(4, 1, 0, 0)
    assert compared(benches, pl.concat([ROWS, ROWS[:1], ROWS[:1]]), path) == difference(4, 0, 2, 0)
    assert compared(benches, ROWS.with_columns(key=pl.col("key").replace(2, 3)), path) == difference(4, 1, 0, 1)


def test_a_sink_without_files_has_lost_everything(benches):
    with duckdb.connect() as connection:
        assert benches("parts.comparison").compare(connection, "SELECT 1 AS n", []).lost == 1


@pytest.mark.slow
def test_references_are_what_an_undisturbed_deployment_writes_and_show_every_change(benches, tmp_path):
    load, sinks = benches("parts.load"), benches("parts.sinks")
    data, out = tmp_path / "data", tmp_path / "out"
    load.prepare(data)
    for number in range(70):
        load.write(data, number, seed=3)
    shutil.copy(ROOT / "benches" / "parts" / "notes.py", tmp_path / "notes.py")
    sys.path.insert(0, str(tmp_path))
    try:
        with Session(tmp_path / "checkpoint", host="local", limit=500, python_modules=["notes"]) as session:
            session.execute(sinks.script(data, out))
            session.drain()
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("notes", None)
    differences = sinks.differences(data, out, seed=3)
    assert {name: difference for name, difference in differences.items() if not difference.is_none} == {}
    assert min(difference.expected for difference in differences.values()) >= 4
    calls = sinks.call_difference(data, tmp_path / sinks.NOTES, seed=3)
    assert calls.is_none
    assert calls.expected == differences["notify"].expected

    for case in sinks.CASES:
        min((out / case.name).glob("part-*")).unlink()
    assert [name for name, difference in sinks.differences(data, out, seed=3).items() if not difference.lost] == []


def test_a_call_that_is_missing_or_has_two_keys_is_noticed(benches, tmp_path):
    load, sinks = benches("parts.load"), benches("parts.sinks")
    load.prepare(tmp_path / "data")
    for number in range(20):
        load.write(tmp_path / "data", number, seed=3)
    notes = tmp_path / sinks.NOTES
    everything = sinks.call_difference(tmp_path / "data", notes, seed=3)
    assert everything.lost == everything.expected > 3
    notes.write_text('["k1", 1, "never"]\n["k2", 1, "never"]\n["k2", 1, "never"]\n')
    assert sinks.call_difference(tmp_path / "data", notes, seed=3).repeated == 1
    assert sinks.call_difference(tmp_path / "data", notes, seed=3).wrong == 1
