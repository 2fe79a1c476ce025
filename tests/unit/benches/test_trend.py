"""The slope of the soak bench: it sees growth behind noise, and none where there is none."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
HOUR = np.linspace(0, 3600, 700)


@pytest.fixture
def benches(monkeypatch):
    """Import a module of benches/ as `headrace bench` does."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name: importlib.import_module(f"benches.{name}")


@pytest.fixture
def trend(benches):
    return benches("parts.trend").trend


def noise(seed: int) -> np.ndarray:
    """Steps that last some samples, with single peaks, as memory behaves."""
    chance = np.random.default_rng(seed)
    steps = np.repeat(chance.normal(0, 5, 100), 7)
    return 400 + steps + chance.normal(0, 2, 700) + 200 * (chance.random(700) < 0.02)


def test_noise_has_no_trend_in_most_runs(trend):
    assert sum(trend(HOUR, noise(seed)).is_zero for seed in range(100)) >= 90


def test_growth_is_measured_in_spite_of_peaks(trend):
    slopes = [trend(HOUR, noise(seed) + 30 * HOUR / 3600) for seed in range(20)]
    assert all(slope.verdict == "grows" for slope in slopes)
    assert all(slope.low <= 30 <= slope.high for slope in slopes[:5])
    assert trend(HOUR, noise(1) - 30 * HOUR / 3600).verdict == "shrinks"


def test_what_never_changes_has_no_trend(trend):
    constant = trend(HOUR, np.full(700, 12.0))
    assert (constant.slope, constant.low, constant.high, constant.level) == (0, 0, 0, 12)


def test_one_moment_has_no_trend(trend):
    with pytest.raises(ValueError, match="two times"):
        trend([5.0], [1.0])


def test_the_soak_bench_names_what_leaks_and_nothing_else(benches):
    samples = benches("parts.soaking").Samples()
    for second, level in zip(HOUR, noise(2), strict=True):
        samples.add("memory of JVM (MB)", second, level)
        samples.add("descriptors of driver", second, 20 + second // 30)
        samples.add("compiled code (MB)", second, 50 + 10 * math.log(1 + second))
    figures = benches("soak").report(samples, 3600)
    verdicts = {row["case"]: row["verdict"] for row in figures["rows"]}
    assert verdicts == {
        "memory of JVM (MB)": "met",
        "descriptors of driver": "grows",
        "compiled code (MB)": "grows",
    }
    leak, warming = (row for row in figures["rows"] if row["verdict"] == "grows")
    assert leak["halves"] == pytest.approx([120, 120], rel=0.1)
    assert warming["halves"][1] < 0.7 * warming["halves"][0]
    assert leak["slope"] == pytest.approx(120, rel=0.1)
