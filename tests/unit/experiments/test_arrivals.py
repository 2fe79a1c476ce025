import numpy as np
import pytest

from headrace.experiments.arrivals import bursts, keep, poisson
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.testing.simulation.engine import Arrival


def column(arrivals: list[Arrival], name: str) -> list[float]:
    return [arrival.element.rows[name][0] for arrival in arrivals if isinstance(arrival.element, Page)]


def test_poisson_arrivals_have_the_rate_and_are_stamped_when_they_come() -> None:
    found = poisson("S", 50, 100, np.random.default_rng(1))
    times = [arrival.time for arrival in found]
    assert len(found) == pytest.approx(5000, rel=0.06)
    assert times == sorted(times) == column(found, TS)
    assert 98 * SECOND < times[-1] < 100 * SECOND


def test_gaps_are_exponential() -> None:
    gaps = np.diff([arrival.time for arrival in poisson("S", 50, 100, np.random.default_rng(1))])
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.06)


def test_the_tuples_of_a_burst_come_together() -> None:
    found = bursts("S", 1000, 10, 10, np.random.default_rng(1))
    times = [arrival.time for arrival in found]
    assert len(found) == pytest.approx(10_000, rel=0.1)
    assert all(len(set(times[start : start + 10])) == 1 for start in range(0, len(times), 10))


def test_a_selection_passes_its_share_and_a_chain_the_product() -> None:
    chance = np.random.default_rng(1)
    values = np.array(column(poisson("S", 100, 100, chance, below=0.5), "x"))
    assert values.max() < 0.5
    pages = [arrival.element for arrival in poisson("S", 100, 20, chance)]
    passed = [page for page in pages if list(keep(0.9).build().on_page(0, page))]  # type: ignore[arg-type]
    assert len(passed) / len(pages) == pytest.approx(0.9, abs=0.03)


def test_the_same_seed_gives_the_same_stream() -> None:
    one, other = (poisson("S", 10, 5, np.random.default_rng(7)) for _ in range(2))
    assert [arrival.time for arrival in one] == [arrival.time for arrival in other]
    assert column(one, "x") == column(other, "x")
