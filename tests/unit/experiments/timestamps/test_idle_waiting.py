import pytest

from headrace.experiments.experiment import Outcome, Trial
from headrace.experiments.timestamps import idle_waiting
from headrace.experiments.timestamps.idle_waiting import Size
from headrace.experiments.timestamps.idle_waiting_cases import (
    DEMAND,
    LATENT,
    NONE,
    REGISTERS,
    Case,
    Measured,
    measure,
    peak_shrinks,
)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return idle_waiting.report(Size(1, 40, 2, 200, 1), Trial("quick"))


@pytest.mark.slow
def test_a_tiny_run_gives_the_table_and_the_figure(outcome: Outcome) -> None:
    names = [finding.what for finding in outcome.findings]
    assert len(names) == len(set(names)) > 50
    assert [panel.title for panel in outcome.panels] == [
        "Latency",
        "Time the union waits idly",
        "Peak queue",
        "What on-demand punctuation costs",
    ]
    assert any("virtual time" in note for note in outcome.notes)


@pytest.mark.slow
def test_even_a_tiny_run_shows_that_bounds_on_demand_do_not_wait(outcome: Outcome) -> None:
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    assert verdicts["A to C"] == "confirmed"
    assert verdicts["B: best latency to C's"] == "confirmed"
    assert verdicts["C on demand, registers: idle"] == "confirmed"


@pytest.mark.slow
def test_what_the_paper_claims_too_much_is_not_confirmed(outcome: Outcome) -> None:
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    assert verdicts["C: a cost at which C - D is 0.1 ms and idle below 0.1 %"] == "not confirmed"


@pytest.mark.parametrize(("case", "microseconds"), [(DEMAND, 86.1), (REGISTERS, 45.0), (LATENT, 41.0)])
def test_latencies_are_the_simulators(case: Case, microseconds: float) -> None:
    assert 1e6 * measure(case, 6, range(1, 2)).latency.mean == pytest.approx(microseconds, rel=0.02)


@pytest.mark.slow
def test_verdicts_come_from_our_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {NONE: DEMAND, DEMAND: NONE}  # as if bounds on demand made everything wait

    def measure_swapped(case: Case, seconds: float, seeds: range) -> Measured:
        return measure(swapped.get(case, case), seconds, seeds)

    monkeypatch.setattr(idle_waiting, "measure", measure_swapped)
    outcome = idle_waiting.report(Size(1, 30, 2, 100, 0.5), Trial("quick"))
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    for claimed in ("A to C", "A: idle share", "A: peak queue", "B: best latency to C's"):
        assert verdicts[claimed] == "not confirmed"


def test_peaks_of_long_runs_are_taken_as_they_are() -> None:
    assert peak_shrinks(NONE, 2000) == 1
    assert peak_shrinks(Case("B", "none", 1000), 300) == 1
    assert 0.4 < peak_shrinks(Case("B", "none", 5000), 2) < 0.6
    assert peak_shrinks(Case("B", "none", 10), 2) == 1
