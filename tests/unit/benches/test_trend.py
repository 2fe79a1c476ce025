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


#: What is measured in a run of 50 minutes after the warm-up.
RUN = np.arange(900.0, 3000.0, 2.0)


def levels(seed: int, noise: float) -> np.ndarray:
    """The memory of a process, in megabytes: its noise lasts 40 seconds, as tasks and collections do."""
    chance = np.random.default_rng(seed)
    lasting = np.repeat(chance.normal(0, noise, len(RUN) // 20 + 1), 20)[: len(RUN)]
    return 500 + lasting + chance.normal(0, noise / 2, len(RUN))


@pytest.fixture
def verdicts(benches):
    """The verdicts on several runs that differ in their noise."""

    def verdicts(noise: float, added: np.ndarray | float) -> list[str]:
        soak, found = benches("soak"), []
        for seed in range(12):
            points = list(zip(RUN, levels(seed, noise) + added, strict=True))
            found.append(soak.verdict("memory of JVM (MB)", soak._slope(points), soak._step(points)))
        return found

    return verdicts


@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0])
def test_a_leak_of_5_megabytes_an_hour_is_noticed(verdicts, noise):
    assert verdicts(noise, 5 * RUN / 3600) == ["grows"] * 12


def test_a_leak_that_takes_memory_in_blocks_is_noticed(verdicts):
    assert verdicts(0.1, 5 * RUN / 3600 // 1) == ["grows"] * 12


def test_a_leak_that_hides_in_the_noise_is_not_called_zero(verdicts):
    assert "met" not in verdicts(4.0, 5 * RUN / 3600)


@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0])
def test_one_step_and_no_change_are_no_leak(verdicts, noise):
    assert verdicts(noise, 0.0).count("met") >= 11
    assert verdicts(noise, 10.0 * (RUN > 2000)).count("one step") >= 11


def test_the_step_is_told_with_its_time_and_size(benches):
    step = benches("parts.trend").step(RUN, levels(1, 0.1) + 8.0 * (RUN > 2200) + 3 * RUN / 3600)
    assert step.seconds == pytest.approx(2200, abs=110)
    assert step.size == pytest.approx(8, abs=0.5)
    assert step.beside.slope == pytest.approx(3, abs=0.5)
    assert not step.is_all
    assert benches("parts.trend").step([1.0, 2.0], [1.0, 2.0]) is None


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
