"""Paths of a network, and that their costs add up to the utilisation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.capacity.capacity import path_capacity, path_cost
from headrace.analysis.capacity.paths import stream_paths
from headrace.analysis.capacity.segments import memory_optimal_segments
from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.forecast.network import Feed, Network, Station
from headrace.analysis.forecast.solver import forecast
from headrace.analysis.queueing.moments import constant
from headrace.graph.graph import merge
from headrace.session import Session
from headrace.testing.simulation.rounds import reference_plan


def test_each_stream_has_a_path_through_the_joins() -> None:
    paths = {each.stream: [stage.name for stage in each.path.stages] for each in stream_paths(reference_plan())}
    assert paths == {"s1": ["O1", "O3", "O5"], "s2": ["O2", "O3", "O5"], "s4": ["O4", "O5"]}


def test_4_2_capacity_of_a_path_in_a_network() -> None:
    stations = (
        Station("select", (Feed("s", 0.2),), constant(1.0)),
        Station("join", (Feed("select", 0.8),), constant(5.0)),
    )
    (only,) = stream_paths(Network({"s": 0.1}, stations, {"q": "join"}))
    assert path_capacity(only.path) == pytest.approx(0.5)
    assert memory_optimal_segments(only.path) == [("select",), ("join",)]


networks = st.lists(
    st.tuples(st.lists(st.integers(0, 8), min_size=1, max_size=2), st.floats(0.05, 1.2), st.floats(1e-4, 1e-2)),
    min_size=1,
    max_size=7,
)


@given(networks)
@settings(deadline=None)
def test_costs_of_all_paths_add_up_to_the_utilisation(drawn: list[tuple[list[int], float, float]]) -> None:
    names = ["s", "t"]
    stations = []
    for number, (origins, share, service) in enumerate(drawn):
        feeds = tuple(Feed(names[origin % len(names)], share / (port + 1)) for port, origin in enumerate(origins))
        stations.append(Station(f"o{number}", feeds, constant(service)))
        names.append(f"o{number}")
    network = Network({"s": 3.0, "t": 2.0}, tuple(stations), {"q": names[-1]})
    assert sum(each.rate * path_cost(each.path) for each in stream_paths(network)) == pytest.approx(
        forecast(network).utilisation
    )


def test_queries_that_share_a_beginning_are_one_path_with_branches() -> None:
    text = """
    CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
    CREATE VIEW some AS SELECT at, k FROM s WHERE k > 3;
    CREATE QUERY a AS SELECT k + 1 AS l FROM some INTO MEMORY;
    CREATE QUERY b AS SELECT k, count(*) AS n FROM some [RANGE 1 SECOND] GROUP BY k INTO MEMORY;
    """
    with Session(host="local") as session:
        session.execute(text)
        graph = merge(query.graph for query in session._running().queries)
    (only,) = stream_paths(model(graph, Facts({"s": 10.0})).network)
    assert [stage.name.split("-")[0] for stage in only.path.stages] == ["scan", "filter"]
    assert sorted(len(branch.stages) for branch in only.path.branches) == [1, 4]
