"""`bench migrate` with small windows on the local host: the plan changes under load, and no result is missing."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def migrate(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    module = importlib.import_module("benches.migrate")
    for name, value in {"PER_TICK": 40, "PER_FILL": 400, "BEFORE": 3, "AFTER": 4}.items():
        monkeypatch.setattr(module, name, value)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("how", ["MOVING STATE", "STEPWISE WITHIN '1 us'"])
def test_a_change_of_plan_under_load_builds_the_new_state_and_loses_nothing(migrate, tmp_path, how):
    files = migrate._write(tmp_path / "files", 800)
    run = migrate.run(tmp_path / "run", files, how, "local")
    assert (run.missing, run.excess) == (0, 0)
    assert run.built > 100
    assert len(run.before) == 3
    assert len(run.after) >= 4
    assert run.longest_ms >= run.after[0]
    assert max(run.longest_ms, run.calm_ms) == max(run.before + run.after)


@pytest.mark.slow
def test_a_result_that_is_missing_is_noticed(migrate, tmp_path):
    files = migrate._write(tmp_path / "files", 200)
    migrate.run(tmp_path / "run", files, "MOVING STATE", "local")
    next((tmp_path / "run" / "out").glob("[!.]*.parquet")).unlink()
    lost, _ = migrate._check(tmp_path / "run")
    assert lost > 0
