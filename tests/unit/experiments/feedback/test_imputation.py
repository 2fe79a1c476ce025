import pytest

from headrace.experiments.experiment import Trial
from headrace.experiments.feedback import imputation
from headrace.experiments.feedback.imputation import CUTS, Imputed, Size, draw, impute, split_within
from headrace.experiments.sample import Sample


def test_the_unit_vector_comes_out_of_the_real_operator() -> None:
    assert [impute(cut, 24, period=10, rho=2, tolerance=3).timely for cut in ("none", "hw - tol", "hw")] == [6, 6, 8]


@pytest.mark.parametrize("cut", CUTS)
def test_every_dirty_tuple_is_timely_late_or_purged(cut: str) -> None:
    seen = impute(cut, 400, tolerance=5)
    assert seen.timely + seen.late + seen.purged == 200
    assert (seen.purged > 0) == (cut != "none")
    assert list(seen.times) == sorted(seen.times)


def test_a_split_inside_the_engine_is_told_as_well() -> None:
    with_feedback, without = (impute(cut, 400, tolerance=5, graph=split_within) for cut in ("hw", "none"))
    assert with_feedback.purged > 0
    assert with_feedback.timely > 2 * without.timely


def test_random_service_has_the_mean_that_is_asked_for() -> None:
    for service in ("uniform", "exponential"):
        one = draw(service, 1.39, 3)
        assert one is not None
        drawn = [one() for _ in range(4000)]
        assert sum(drawn) / len(drawn) == pytest.approx(139, rel=0.05)
        assert (min(drawn) >= 69) == (service == "uniform")
    assert draw("constant", 1.39, 3) is None


def test_a_tiny_run_gives_the_table() -> None:
    seen: list[str] = []
    outcome = imputation.report(Size(1, 60), Trial("quick", 3, lambda what, done, of: seen.append(f"{done}/{of}")))
    assert len(seen) == 17
    assert seen[-1] == "16/17"
    assert len(outcome.findings) == 6 + 15 + 10 + 3 + 1
    assert [panel.title for panel in outcome.panels] == ["Imputed in vain or not at all", "Imputed tuples in time"]
    assert outcome.findings[-1].verdict == "confirmed"
    assert len(imputation.report(Size(0, 60), Trial("quick")).findings) == 6 + 15 + 1 + 1


def test_a_cut_that_saves_nothing_is_not_confirmed() -> None:
    stuck = {cut: Imputed((1,) * 75, 2425, 0) for cut in CUTS}
    verdicts = [finding.verdict for finding in imputation._claims(stuck, stuck)]
    assert verdicts == ["calibrated", *["not confirmed"] * 3, "confirmed", "not confirmed"]
    assert "not confirmed" in {finding.verdict for finding in imputation._counts(stuck)}
    level = {(service, cut): Sample((97.0,)) for service in imputation.DROPPED for cut in CUTS}
    assert {finding.verdict for finding in imputation._ranking(level)} == {"not confirmed"}
