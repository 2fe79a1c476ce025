import pytest

from headrace.experiments.experiment import Range, text_of
from headrace.experiments.judging import between, claim, exact, fitted, near
from headrace.experiments.sample import Sample, sample


def test_a_claim_holds_or_not() -> None:
    assert (claim(True), claim(False)) == ("confirmed", "not confirmed")


@pytest.mark.parametrize(
    ("ours", "verdict"), [(109, "confirmed"), (91, "confirmed"), (125, "consistent"), (131, "not confirmed")]
)
def test_a_number_is_near_or_not(ours: float, verdict: str) -> None:
    assert near(ours, 100.0, 0.1) == verdict


def test_a_number_to_which_a_parameter_was_fitted_is_never_confirmed() -> None:
    assert fitted(101, 100.0, 0.1) == "calibrated"
    assert fitted(125, 100.0, 0.1) == "consistent"
    assert fitted(131, 100.0, 0.1) == "not confirmed"


def test_a_number_in_a_range_is_near_whatever_the_tolerance() -> None:
    assert near(7.0, Range(5, 8), 0.0) == "confirmed"
    assert near(9.0, Range(5, 8), 0.0) == "not confirmed"


def test_what_is_measured_badly_is_judged_less_strictly() -> None:
    assert near(Sample((140.0, 140.0)), 100.0, 0.1) == "not confirmed"
    assert near(Sample((100.0, 180.0)), 100.0, 0.1) == "confirmed"


def test_one_value_says_nothing_about_its_spread() -> None:
    assert Sample((140.0,)).error == 0
    assert near(Sample((140.0,)), 100.0, 0.1) == "not confirmed"


def test_between_two_of_ours_is_consistent() -> None:
    assert between(15, 20, 14) == "consistent"
    assert between(15, 20, 16) == "not confirmed"


def test_a_closed_form_forgives_nothing() -> None:
    assert exact(150.5, 150.5) == "confirmed"
    assert exact(150.5001, 150.5) == "not confirmed"


def test_a_sample_has_a_value_for_each_seed() -> None:
    found = sample(float, range(1, 4))
    assert (found.values, found.mean, found.low, found.high) == ((1.0, 2.0, 3.0), 2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (19.4, "s", "19.4 s"),
        (0.0499, "s", "49.9 ms"),
        (0.0000861, "s", "0.0861 ms"),
        (4418, "", "4,418"),
        (Range(14.1, 20.1), "%", "14.1 % - 20.1 %"),
        ("never reaches C", "x", "never reaches C"),
        (None, "s", ""),
    ],
)
def test_values_are_shown_as_people_read_them(value: float | Range | str | None, unit: str, text: str) -> None:
    assert text_of(value, unit) == text


def test_what_never_came_out_is_not_compared() -> None:
    assert near(float("nan"), 1.0, 0.1) == "not comparable"
    assert text_of(float("nan"), "s") == "? ms"
