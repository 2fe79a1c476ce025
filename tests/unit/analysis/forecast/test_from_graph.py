"""From graphs to networks: rates, windows, sizes, exchanges, and what is assumed."""

from __future__ import annotations

import pytest

from headrace.analysis.forecast.facts import GROUPS, PASSING, SERVICE, Facts, VertexFacts, row_width
from headrace.analysis.forecast.from_graph import Model, model
from headrace.analysis.forecast.network import flow
from headrace.analysis.forecast.report import format_report, report, seconds, size
from headrace.analysis.forecast.solver import forecast
from headrace.graph.graph import Graph, merge
from headrace.model.qos import qos_of
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.operators.specs import Spec
from headrace.session import Session

STREAMS = """
CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE, who STRING) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
CREATE STREAM asks (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
"""
BIDS = Schema.of(at=Type.TIMESTAMP, item=Type.INT, price=Type.DOUBLE, who=Type.STRING)
RATES = {"bids": 1000.0, "asks": 200.0}


def graph(*queries: str) -> Graph:
    """What would run of these SELECTs, q0, q1, ..."""
    text = STREAMS + ";".join(f"CREATE QUERY q{number} AS {query} INTO MEMORY" for number, query in enumerate(queries))
    with Session(host="local") as session:
        session.execute(text)
        return merge(query.graph for query in session._running().queries)


def made(facts: Facts, *queries: str) -> Model:
    return model(graph(*queries), facts)


def of_kind(found: Model, kind: str) -> str:
    (name,) = [name for name, known in found.kinds.items() if known == kind]
    return name


def test_a_filter_halves_the_rate_unless_more_is_known() -> None:
    query = "SELECT item FROM bids WHERE price > 10"
    found = made(Facts(RATES), query)
    name = of_kind(found, "filter")
    assert flow(found.network).out[name] == 1000 * PASSING
    assert found.assumed[name] == ("selectivity", "service")
    known = model(graph(query), Facts(RATES, {name: VertexFacts(service=3e-6, selectivity=0.2)}))
    assert flow(known.network).out[name] == pytest.approx(200)
    assert name not in known.assumed
    station = known.network.station(name)
    assert station is not None
    assert station.service.mean == 3e-6


def test_stated_service_times_count_more_than_measured_ones() -> None:
    query = "SELECT item FROM bids WHERE price > 10"
    name = of_kind(made(Facts(RATES), query), "filter")
    found = model(graph(query), Facts(RATES, {name: VertexFacts(service=3e-6, selectivity=0.2)}, {"filter": 9e-6}))
    station = found.network.station(name)
    assert station is not None
    assert station.service.mean == 9e-6


def test_a_stream_of_unknown_rate_is_assumed() -> None:
    found = made(Facts({}), "SELECT item FROM bids")
    assert found.assumed["bids"] == ("rate",)
    assert found.network.streams == {"bids": 1000.0}


def test_shared_vertices_are_one_station_and_a_stream_is_read_once() -> None:
    found = made(
        Facts(RATES),
        "SELECT item FROM bids WHERE price > 10",
        "SELECT item FROM bids WHERE price > 10",
        "SELECT who FROM bids",
    )
    kinds = sorted(found.kinds.values())
    assert kinds.count("filter") == 1
    assert set(found.network.queries) == {"q0", "q1", "q2"}
    reading = sum(station.service.mean for station in found.network.stations if found.kinds[station.name] == "scan")
    assert reading == pytest.approx(SERVICE["scan"])


def test_a_join_keeps_what_its_windows_hold() -> None:
    query = "SELECT b.item FROM bids [RANGE 10 SECONDS] AS b JOIN asks [RANGE 1 MINUTE] AS a ON a.item = b.item"
    found = made(Facts(RATES), query)
    kept = forecast(found.network).stations[of_kind(found, "join")].kept
    assert kept == 1000 * 10 + 200 * 60


def test_what_a_join_was_seen_to_hold_and_give_counts() -> None:
    query = "SELECT b.item FROM bids [RANGE 10 SECONDS] AS b JOIN asks [RANGE 1 MINUTE] AS a ON a.item = b.item"
    name = of_kind(made(Facts(RATES), query), "join")
    facts = Facts(RATES, {name: VertexFacts(service=1e-6, selectivity=4.0, held=600, state_bytes=60_000)})
    found = model(graph(query), facts)
    predicted = forecast(found.network).stations[name]
    assert predicted.kept == pytest.approx(600)
    assert flow(found.network).out[name] == pytest.approx(4 * 1200)
    station = found.network.station(name)
    assert station is not None
    assert station.size == 100
    assert station.emits == "pairs"


def test_a_join_of_three_streams_keeps_joined_tuples_as_long_as_their_parts() -> None:
    query = (
        "SELECT b.item FROM bids [RANGE 10 SECONDS] AS b JOIN asks [RANGE 5 SECONDS] AS a ON a.item = b.item "
        "JOIN bids [RANGE 20 SECONDS] AS c ON c.item = a.item"
    )
    found = made(Facts(RATES), query)
    windows = sorted(
        feed.window
        for station in found.network.stations
        if found.kinds[station.name] == "join"
        for feed in station.feeds
    )
    assert windows == [5, 5, 10, 20]


@pytest.mark.parametrize(
    ("query", "kind", "rate"),
    [
        (
            "SELECT item, count(*) AS n FROM bids [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY item",
            "paneaggregate",
            GROUPS / 2,
        ),
        ("SELECT count(*) AS n FROM bids [RANGE 10 SECONDS]", "paneaggregate", 0.1),
        ("SELECT item, count(*) AS n FROM bids [RANGE 10 SECONDS SLIDE TUPLE] GROUP BY item", "slidingaggregate", 1000),
        ("SELECT count(*) AS n FROM bids [ROWS 100 SLIDE 10]", "rowsaggregate", 100),
        ("SELECT item, count(*) AS n FROM bids [SESSION 5 SECONDS] GROUP BY item", "sessionaggregate", GROUPS / 5),
        ("SELECT item FROM bids UNION ALL SELECT item FROM asks", "union", 1200),
        (
            "SELECT b.item FROM bids [RANGE 9 SECONDS] AS b JOIN asks AS a ON a.item = b.item FOLLOWING RECENT",
            "sequencejoin",
            200,
        ),
    ],
)
def test_windows_give_results_at_their_own_pace(query: str, kind: str, rate: float) -> None:
    found = made(Facts(RATES), query)
    assert flow(found.network).out[of_kind(found, kind)] == pytest.approx(rate)


def test_windows_give_no_more_results_than_they_get_tuples() -> None:
    found = made(Facts({"bids": 3.0}), "SELECT item, count(*) AS n FROM bids [RANGE 1 SECOND] GROUP BY item")
    assert flow(found.network).out[of_kind(found, "paneaggregate")] == pytest.approx(3)


def test_a_reorder_holds_what_may_still_be_overtaken() -> None:
    found = made(Facts(RATES, skews={"bids": 2.0}), "SELECT count(*) AS n FROM bids [ROWS 100]")
    assert forecast(found.network).stations[of_kind(found, "reorder")].kept == 2000


def test_tuples_are_as_wide_as_the_columns_that_are_read() -> None:
    assert row_width(BIDS) == 8 + 8 + 4 + 8 + 24
    found = made(Facts(RATES, schemas={"bids": BIDS}), "SELECT item FROM bids WHERE item > 3")
    station = found.network.station(of_kind(found, "filter"))
    assert station is not None
    assert station.size == 8 + 4


def test_what_is_keyed_anew_comes_back_in_the_next_round() -> None:
    inner = "SELECT item, who, count(*) AS n FROM bids [RANGE 1 SECOND] GROUP BY item, who"
    query = f"SELECT who, sum(n) AS m FROM ({inner}) [RANGE 10 SECONDS] GROUP BY who"
    found = made(Facts(RATES, elsewhere=0.1), query)
    exchanged = [feed for station in found.network.stations for feed in station.feeds if feed.exchanged]
    assert len(exchanged) == 1
    predicted = forecast(found.network)
    assert predicted.queries["q0"].latency > predicted.round * 1.4


def test_every_operator_has_a_service_time() -> None:
    kinds = {kind.__name__.lower() for kind in Spec.__args__}
    assert kinds - set(SERVICE) == {"output", "exchange", "receive"}


def test_a_report_says_what_holds_and_what_would_make_the_rest_hold() -> None:
    found = made(Facts(RATES, elsewhere=0.1, services={"filter": 9.3e-4}), "SELECT item FROM bids WHERE price > 10")
    promised = qos_of(
        {"latency": "300 ms", "latency.class": "MUST", "memory": "1 GB", "throughput": "600/s", "error": 0.5}
    )
    shown = report(found, {"q0": promised})
    assert not shown.kept
    lines = {line.measure: line for line in shown.promises}
    assert (lines["latency"].holds, lines["memory"].holds, lines["throughput"].holds) == (False, True, False)
    assert lines["latency"].speed is not None
    assert lines["latency"].shed is not None
    text = format_report(shown)
    assert "latency at most 300 ms MUST: BROKEN" in text
    assert (
        f"a processor {lines['latency'].speed:.3g} times as fast or shedding {lines['latency'].shed:.1%} of its "
        "streams (within" in text
    )
    assert (
        "throughput at least 600/s BEST EFFORT: BROKEN, 500/s is predicted; neither a faster processor nor shedding "
        "would help" in text
    )
    assert "* assumed, not measured" in text
    assert report(found, {"q0": promised}, speed=lines["latency"].speed * 1.01).kept


def test_an_overloaded_processor_is_named() -> None:
    found = made(Facts(RATES, services={"filter": 2e-3}), "SELECT item FROM bids WHERE price > 10")
    text = format_report(report(found, {}))
    assert "more than available; most by filter price > 10.0" in text
    assert "without end" in text
    assert "must shrink to" in text


def test_times_and_sizes_are_written_for_people() -> None:
    assert [seconds(value) for value in (0, 5e-10, 2.5e-6, 0.0123, 4, float("inf"))] == [
        "0",
        "0.5 ns",
        "2.5 us",
        "12.3 ms",
        "4 s",
        "without end",
    ]
    assert [size(value) for value in (12, 2048, 3 * 2**20, 2**31)] == ["12 B", "2 kB", "3 MB", "2 GB"]
