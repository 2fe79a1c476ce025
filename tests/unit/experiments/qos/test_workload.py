import pytest

from headrace.analysis.forecast.network import flow
from headrace.experiments.qos.workload import (
    CAPACITY,
    TARGET,
    TARGET_STATIONS,
    at_load,
    stations_of,
    utilization,
    workload,
)


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_there_are_16_queries_of_116_operators_on_5_streams(seed: int) -> None:
    network = workload(seed)
    assert (len(network.queries), len(network.stations), len(network.streams)) == (16, 116, 5)
    assert sum(len(stations_of(network, name)) for name in network.queries) == 116
    assert {origin.origin for station in network.stations for origin in station.feeds} >= set(network.streams)


def test_the_processor_takes_485_tuples_a_second() -> None:
    network = workload(3, load=0.8)
    assert utilization(network) == pytest.approx(0.8)
    assert sum(network.streams.values()) == pytest.approx(0.8 * CAPACITY)
    assert utilization(at_load(network, 1.25)) == pytest.approx(1.25)


def test_the_published_plan_is_in_it_unchanged() -> None:
    target = stations_of(workload(5), TARGET)
    assert tuple(station.name for station in target) == TARGET_STATIONS
    assert [round(1 / station.service.mean, 1) for station in target] == [41684.7, 21861, 5285.8, 28461.9, 5894.1]


def test_selectivities_are_spread_and_selects_come_in_increasing_order() -> None:
    network = workload(1)
    shares = sorted(feed.selectivity for station in network.stations for feed in station.feeds if feed.selectivity < 1)
    assert shares[0] < 0.1
    assert shares[-1] > 0.9
    assert sum(share < 0.5 for share in shares) == pytest.approx(len(shares) / 2, rel=0.25)
    chain = [
        feed.selectivity for station in stations_of(network, "q2") for feed in station.feeds if feed.selectivity < 1
    ]
    assert chain == sorted(chain)


def test_every_station_follows_those_that_feed_it() -> None:
    assert all(rate > 0 for rate in flow(workload(4)).out.values())
