"""The streams of `bench plans`: each phase has a rare stream, and a result that is missing is noticed."""

import importlib
import sys
from pathlib import Path

import polars as pl
import pytest

from headrace.session import Session

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def drifting(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    module = importlib.import_module("benches.parts.drifting")
    return module.write_drifting(
        tmp_path / "data", streams="abc", phases="ac", files=4, per_file=60, matches=4, share=0.1
    )


def test_in_each_phase_one_stream_rarely_has_a_key_of_the_others(drifting):
    for file, rare in ((1, "a"), (6, "c")):
        assert drifting.phases[drifting.phase_at(file)] == rare
        keys = {name: pl.read_parquet(drifting.folder / name / f"{file:05d}.parquet")["k"] for name in "abc"}
        shares = {name: (column >= 0).mean() for name, column in keys.items()}
        assert shares.pop(rare) < 0.4
        assert set(shares.values()) == {1.0}


def test_results_of_the_query_are_those_of_duckdb_and_a_missing_file_is_noticed(drifting, tmp_path):
    with Session(tmp_path / "checkpoint", host="local", limit=60) as session:
        session.execute(drifting.script(tmp_path / "out"))
        session.drain()
    found = drifting.check(tmp_path / "out")
    assert found.is_none
    assert found.expected > 20
    next((tmp_path / "out").glob("[!.]*.parquet")).unlink()
    assert drifting.check(tmp_path / "out").lost > 0


def test_one_operator_and_joins_of_two_inputs_are_measured_on_the_same_results(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    box_work = importlib.import_module("benches.parts.box_work")
    monkeypatch.setattr(box_work, "PER_SECOND", 200)
    steps = list(box_work.steps_of(8))
    assert box_work.box(steps) == box_work.binary(steps) > 100
    assert all(seconds > 0 for seconds in box_work.measure(2, 1))
