"""The streams of `bench plans`: each phase has a rare pair, and a result that is missing is noticed."""

import importlib
import sys
from pathlib import Path

import polars as pl
import pytest

from headrace.session import Session

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def drifting(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    module = importlib.import_module("benches.parts.drifting")
    return module.write_drifting(
        tmp_path / "data", streams="abc", phases=("ab", "bc"), files=4, per_file=120, matches=4, share=0.1
    )


def test_in_each_phase_two_streams_rarely_have_a_key_in_common(drifting):
    for first, rare in ((0, "ab"), (4, "bc")):
        assert drifting.phases[drifting.phase_at(first)] == rare
        keys = {
            name: pl.concat(
                pl.read_parquet(drifting.folder / name / f"{file:05d}.parquet") for file in range(first, first + 4)
            )
            for name in "abc"
        }
        pairs = {one + other: len(keys[one].join(keys[other], on="k")) for one, other in ("ab", "ac", "bc")}
        few = pairs.pop(rare)
        assert 0 < few < min(pairs.values()) / 2


def test_results_of_the_query_are_those_of_duckdb_and_a_missing_file_is_noticed(drifting, tmp_path):
    with Session(tmp_path / "checkpoint", host="local", limit=120) as session:
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
