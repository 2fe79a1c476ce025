import numpy as np
import pytest

from headrace.experiments.qos.self_similar import Flows, hurst, phased, poisson_times, self_similar_times


def chance(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("flows", [Flows(), Flows(128), Flows(least=0.5)])
def test_the_rate_is_the_wanted_one(flows: Flows) -> None:
    times = self_similar_times(200, 300, chance(), flows)
    assert len(times) == pytest.approx(60_000, rel=0.02)
    assert np.all(np.diff(times) >= 0)
    assert 0 <= times[0] < times[-1] <= 300


def test_bursts_do_not_average_out_as_those_of_poisson_do() -> None:
    assert 0.75 < hurst(self_similar_times(1000, 600, chance()), 600) < 0.95
    assert 0.45 < hurst(poisson_times(1000, 600, chance()), 600) < 0.55


def test_a_seed_gives_the_same_times() -> None:
    assert np.array_equal(self_similar_times(50, 20, chance(3)), self_similar_times(50, 20, chance(3)))
    assert not np.array_equal(self_similar_times(50, 20, chance(3)), self_similar_times(50, 20, chance(4)))


@pytest.mark.parametrize("flows", [None, Flows()])
def test_phases_have_their_own_rates(flows: Flows | None) -> None:
    times = phased((2, 1, 0.25), 400, 10, chance(), flows)
    counts = np.histogram(times, (0, 10, 20, 30))[0]
    assert counts == pytest.approx([8000, 4000, 1000], rel=0.1)
    assert np.all(np.diff(times) >= 0)


def test_a_single_flow_that_is_never_on_still_gives_the_rate() -> None:
    lonely = Flows(1, least=1000.0)
    lengths = [len(self_similar_times(100, 5, chance(seed), lonely)) for seed in range(20)]
    assert min(lengths) > 400
