from dataclasses import replace

import numpy as np
import pytest

from headrace.experiments.experiment import Trial
from headrace.experiments.feedback import speed_map
from headrace.experiments.feedback.speed_map import (
    PER_HOUR,
    PERIODS,
    REACHES,
    SIMULATOR,
    Runs,
    Size,
    Work,
    assume,
    cost,
    readings,
    visible,
)


@pytest.fixture(scope="module")
def tiny() -> Runs:
    return speed_map.play(Size(1, 1), Trial("quick"))


def test_the_published_counts_fit_together() -> None:
    assert PER_HOUR * 18 == 1_166_400 == SIMULATOR["F0"][0]
    assert len(readings(0, 40, np.random.default_rng(1))) == PER_HOUR
    assert sum(speed_map.COSTS.values()) == 100


def test_every_minute_has_one_visible_segment_and_all_have_their_turn() -> None:
    for period in PERIODS:
        shown = [visible(minute, period) for minute in range(9 * period)]
        assert sorted(set(shown)) == list(range(9))
        assert shown == sorted(shown)
    assert assume(4, 2) == (
        "ASSUME speeds WHERE segment <> 2 AND window_end > TIMESTAMP '2026-01-01 00:04:00' "
        "AND window_end <= TIMESTAMP '2026-01-01 00:06:00'"
    )


def test_a_tiny_run_does_exactly_the_published_share_of_the_work(tiny: Runs) -> None:
    share = Size(1, 1).share
    for (name, _), work in tiny.items():
        assert work.counts == pytest.approx([count * share for count in SIMULATOR[name]])
    verdicts = {finding.what: finding.verdict for finding in speed_map._claims(tiny)}
    assert list(verdicts.values()) == ["calibrated"] * 3 + ["confirmed"]
    assert speed_map._same(tiny).verdict == "confirmed"
    assert all(len(work.shown) == 60 for work in tiny.values())


def test_work_that_is_not_saved_is_not_confirmed(tiny: Runs) -> None:
    lazy: dict[tuple[speed_map.Name, int], Work] = {
        (name, period): tiny["F0", period] for name in REACHES for period in PERIODS
    }
    assert [finding.verdict for finding in speed_map._claims(lazy)] == ["not confirmed"] * 3 + ["confirmed"]
    bad = {finding.what for finding in speed_map._counts(lazy, Size(1, 1)) if finding.verdict == "not confirmed"}
    assert {"F1: rows put out", "F2: tuples averaged", "F3: tuples filtered"} <= bad
    assert not any(what.startswith("F0") for what in bad)


def test_one_period_that_costs_more_or_a_row_that_is_lost_is_seen(tiny: Runs) -> None:
    odd = dict(tiny)
    work = odd["F3", 4]
    odd["F3", 4] = replace(work, filtered=2 * work.filtered, shown=frozenset(list(work.shown)[1:]), telling=5.0)
    assert (
        next(finding.verdict for finding in speed_map._counts(odd, Size(1, 1)) if finding.what == "F3: tuples filtered")
        == "not confirmed"
    )
    assert speed_map._same(odd).ours == 1
    assert speed_map._same(odd).verdict == "not confirmed"
    assert [finding.verdict for finding in speed_map._times(odd)][-1] == "not confirmed"
    assert cost(odd["F3", 4], odd["F0", 4]) > cost(work, odd["F0", 4])


def test_times_are_judged_only_where_the_machine_is_steady(tiny: Runs) -> None:
    steady = {case: replace(work, seconds=1.0 if case[0] == "F0" else 0.5) for case, work in tiny.items()}

    def verdict(runs):
        return next(
            finding.verdict for finding in speed_map._times(runs) if "replay" in finding.what and "wall" in finding.what
        )

    assert verdict(steady) == "confirmed"
    slow = {**steady, ("F3", 2): replace(steady["F3", 2], seconds=0.6)}
    assert verdict(slow) == "not confirmed"
    assert verdict({**slow, ("F0", 4): replace(steady["F0", 4], seconds=1.1)}) == "not comparable"


@pytest.mark.slow
def test_findings_and_figures_are_complete(monkeypatch: pytest.MonkeyPatch, tiny: Runs) -> None:
    monkeypatch.setattr(speed_map, "play", lambda size, trial: tiny)
    outcome = speed_map.report(Size(1, 1), Trial("quick"))
    assert len(outcome.findings) == 4 + 5 + 12 + 1
    assert [panel.title for panel in outcome.panels] == ["Time", "Work"]
    assert all(len(panel.ticks) == 4 for panel in outcome.panels)
