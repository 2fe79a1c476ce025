"""Prices of a machine: one factor first, and prices of parts where looks with another mix demand it."""

import random

import pytest

from headrace.analysis.joins.calibration import PARTS, Calibration, parts_of
from headrace.analysis.joins.join_facts import Tally
from headrace.optimizer.joins.cost import Costs

COSTS = Costs(store=2.0, search=3.0, candidate=1.0, match=4.0, step=50.0, stored_byte=0.5, derived_byte=0.1, row=24.0)


def calibrated(looks: int, true: dict[str, float], mix, noise: float = 0.0) -> Calibration:
    chance, found = random.Random(1), Calibration()
    for _ in range(looks):
        expected = mix(chance)
        busy = sum(true[part] * seconds for part, seconds in zip(PARTS, expected, strict=True))
        found = found.after(expected, busy * chance.uniform(1 - noise, 1 + noise))
    return found


def same_mix(chance: random.Random) -> tuple[float, ...]:
    size = chance.uniform(1, 5)
    return (3 * size, 2 * size, 4 * size, size)


def any_mix(chance: random.Random) -> tuple[float, ...]:
    return tuple(chance.uniform(0, 5) for _ in PARTS)


def test_without_a_measurement_prices_are_those_measured_elsewhere():
    assert Calibration().costs(COSTS) == COSTS
    assert Calibration().after((0.0,) * 4, 1.0) == Calibration()
    assert Calibration().after((1.0,) * 4, 0.0) == Calibration()


def test_one_look_gives_one_factor_for_all_prices_but_not_for_sizes():
    costs = Calibration().after((1.0, 2.0, 3.0, 4.0), 25.0).costs(COSTS)
    assert costs.store == pytest.approx(2.5 * COSTS.store)
    assert costs.step == pytest.approx(2.5 * COSTS.step)
    assert costs.stored_byte == pytest.approx(2.5 * COSTS.stored_byte)
    assert costs.row == COSTS.row


def test_looks_that_are_alike_change_no_price_beside_the_others_also_with_noise():
    true = {"store": 6.0, "search": 1.0, "match": 1.0, "step": 1.0}
    factors = calibrated(50, true, same_mix, noise=0.4).factors()
    assert max(factors.values()) < 1.3 * min(factors.values()), "the mix does not tell which part is slow"


def test_looks_of_different_mixes_tell_which_part_is_expensive():
    true = {"store": 3.0, "search": 1.0, "match": 1.0, "step": 1.0}
    factors = calibrated(60, true, any_mix, noise=0.05).factors()
    assert factors["store"] == pytest.approx(3.0, rel=0.15)
    assert [factors[part] for part in PARTS[1:]] == pytest.approx([1.0] * 3, rel=0.3)


def test_a_machine_that_becomes_slower_is_noticed():
    true = dict.fromkeys(PARTS, 1.0)
    found = calibrated(30, true, any_mix)
    for _ in range(15):
        found = found.after((1.0, 1.0, 1.0, 1.0), 12.0)
    assert found.factor == pytest.approx(3.0, rel=0.1)


def test_a_pause_of_the_machine_counts_at_most_twenty_times():
    assert Calibration().after((1.0,) * 4, 1e9).factor == pytest.approx(20.0)
    assert Calibration().after((1.0,) * 4, 1e-9).factor == pytest.approx(1 / 20)


def test_what_was_counted_is_divided_into_its_parts():
    tally = Tally(pages=(2, 3, 5), steps={"0>1": (10, 4), "0.1>2": (4, 8)}, stored=20)
    assert parts_of(tally, COSTS) == (40.0, 42.0, 60.0, (2 + 2 + 3) * 50.0)
