"""From graphs to networks: rates, windows, sizes, exchanges, and what is assumed."""

from __future__ import annotations

import pytest

from headrace.analysis.forecast.facts import GROUPS, PAIR, PASSING, SERVICE, Facts, VertexFacts, row_width
from headrace.analysis.forecast.from_graph import Model, model
from headrace.analysis.forecast.network import flow, thinned
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
#: Rows of a join expire in slices of an eighth of their life.
EXPIRING = 1 + 1 / 16


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
    found = made(Facts(RATES, skews={"bids": 2.0}), query)
    kept = forecast(found.network).stations[of_kind(found, "join")].kept
    late = 200 * 2  # asks that the bids of the next two seconds may still meet, for these may come out of order
    assert kept == pytest.approx((1000 * 10 + 200 * 60) * EXPIRING + late)


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
    assert station.kept_size == 100
    assert station.emits == "pairs"


@pytest.mark.parametrize(
    ("kind", "join", "expected"),
    [("multijoin", "JOIN", [5, 10, 20]), ("join", "LEFT JOIN", [5, 5, 10, 20])],
)
def test_a_join_of_three_streams_keeps_tuples_as_long_as_their_parts(kind: str, join: str, expected: list[int]) -> None:
    query = (
        "SELECT b.item FROM bids [RANGE 10 SECONDS] AS b JOIN asks [RANGE 5 SECONDS] AS a ON a.item = b.item "
        f"{join} bids [RANGE 20 SECONDS] AS c ON c.item = a.item"
    )
    found = made(Facts(RATES), query)
    windows = sorted(
        feed.window for station in found.network.stations if found.kinds[station.name] == kind for feed in station.feeds
    )
    assert windows == pytest.approx([seconds * EXPIRING for seconds in expected])


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


def join_of(seconds_: float) -> str:
    window = f"[RANGE {seconds_} SECONDS]"
    return f"SELECT b.item FROM bids {window} AS b JOIN asks {window} AS a ON a.item = b.item"


def test_3_2_a_join_with_longer_windows_holds_more_and_costs_more() -> None:
    rates = {"bids": 10_000.0, "asks": 10_000.0}
    shown = {
        window: report(made(Facts(rates, elsewhere=0.05, groups=1e6), join_of(window)), {}) for window in (1, 3600)
    }
    (short,), (long,) = shown[1].queries, shown[3600].queries
    assert long.memory == pytest.approx(3600 * short.memory, rel=0.05)
    assert long.throughput == pytest.approx(3600 * short.throughput)
    assert shown[3600].utilization > 1.5 * shown[1].utilization
    assert long.latency > 1.02 * short.latency


def test_5_7_a_tuple_of_a_join_costs_the_more_the_more_of_its_key_the_other_window_holds() -> None:
    found = made(Facts(RATES, groups=10.0), join_of(5))
    station = found.network.station(of_kind(found, "join"))
    assert station is not None
    left, right = SERVICE["join"] + PAIR * 200 * 5 / 10, SERVICE["join"] + PAIR * 1000 * 5 / 10
    assert station.service.mean == pytest.approx((1000 * left + 200 * right) / 1200)
    assert station.service.square == pytest.approx((1000 * left**2 + 200 * right**2) / 1200)


def test_a_join_whose_windows_fill_is_forecast_as_it_will_be() -> None:
    """After 6 of 60 seconds it holds, and finds, a tenth."""
    name = of_kind(made(Facts(RATES), join_of(60)), "join")
    rate = sum(RATES.values())
    measured = VertexFacts(service=3e-6, selectivity=2.0, held=rate * 6, state_bytes=rate * 6 * 50, taken=rate * 6)
    found = model(graph(join_of(60)), Facts(RATES, {name: measured}))
    predicted = forecast(found.network).stations[name]
    assert predicted.kept == pytest.approx(rate * 60)
    assert predicted.bytes == pytest.approx(50 * predicted.kept, rel=0.01)
    assert flow(found.network).out[name] == pytest.approx(20 * rate)
    assert predicted.utilization == pytest.approx(rate * (3e-6 + 18 * PAIR))


def test_a_join_whose_windows_are_full_is_forecast_as_it_was_measured() -> None:
    name = of_kind(made(Facts(RATES), join_of(10)), "join")
    rate = sum(RATES.values())
    measured = VertexFacts(service=3e-6, selectivity=2.0, held=rate * 9, state_bytes=rate * 9 * 50, taken=rate * 600)
    found = model(graph(join_of(10)), Facts(RATES, {name: measured}))
    predicted = forecast(found.network).stations[name]
    assert predicted.kept == pytest.approx(rate * 9)
    assert predicted.utilization == pytest.approx(rate * 3e-6)


def test_a_join_that_was_restarted_with_full_windows_does_not_fill() -> None:
    name = of_kind(made(Facts(RATES), join_of(10)), "join")
    rate = sum(RATES.values())
    measured = VertexFacts(service=3e-6, selectivity=2.0, held=rate * 10.7, state_bytes=1e6, taken=rate)
    found = model(graph(join_of(10)), Facts(RATES, {name: measured}))
    assert forecast(found.network).stations[name].kept == pytest.approx(rate * 10.7)


def test_half_of_the_tuples_make_a_quarter_of_the_pairs() -> None:
    network = made(Facts(RATES, groups=2.0), join_of(10)).network
    halved = thinned(network, frozenset(RATES), 0.5)
    name = network.queries["q0"]
    assert flow(halved).out[name] == pytest.approx(flow(network).out[name] / 4)
    assert forecast(halved).utilization < 0.3 * forecast(network).utilization


def test_generated_keys_tell_how_many_partners_there_are() -> None:
    values = {("bids", "item"): 500.0, ("asks", "item"): 50.0}
    found = made(Facts(RATES, values=values), join_of(10))
    assert flow(found.network).out[of_kind(found, "join")] == pytest.approx(1000 * 200 * 20 / 500)


def test_windows_are_as_long_as_the_time_of_the_stream() -> None:
    """A stream whose time passes ten times as fast fills a window of ten seconds in one."""
    fast = Facts(RATES, speeds=dict.fromkeys(RATES, 10.0))
    found = made(fast, join_of(10))
    assert forecast(found.network).stations[of_kind(found, "join")].kept == pytest.approx(1200 * 1 * EXPIRING)


def test_a_report_says_what_tolerated_shedding_gives_if_it_is_not_enough() -> None:
    found = made(Facts(RATES, elsewhere=0.3, services={"filter": 9e-4}), "SELECT item FROM bids WHERE price > 10")
    promised = qos_of({"latency": "400 ms", "latency.class": "MUST", "error": 0.5})
    (line,) = report(found, {"q0": promised}).promises
    assert line.shed is None
    assert line.best is not None
    assert line.best < line.predicted
    text = format_report(report(found, {"q0": promised}))
    assert "neither a faster processor nor shedding would make it hold; shedding the tolerated 50% would give" in text


def test_queries_with_strict_latencies_are_served_first_and_others_wait_if_there_is_not_enough_time() -> None:
    queries = ("SELECT item FROM bids WHERE price > 10", "SELECT item, price * 2 AS p FROM asks WHERE item > 3")
    strict = {"q0": qos_of({"latency": "600 ms"})}
    slow = made(Facts(RATES, elsewhere=0.1, services={"filter": 6e-4}), *queries)
    shown = report(slow, strict)
    first, later = shown.queries
    assert (first.served, later.served) == ("first", "later")
    assert first.latency == pytest.approx(1.5 * 0.33, rel=0.05)
    assert later.latency == float("inf")
    assert shown.kept
    assert report(slow, {}).queries[0].latency > first.latency
    assert "q1     later   without end" in format_report(shown)
    quick = made(Facts(RATES, elsewhere=0.1), *queries)
    assert report(quick, strict).queries[1].latency == report(quick, {}).queries[1].latency


def test_a_join_with_a_window_without_end_grows_without_end_and_costs_what_was_measured() -> None:
    query = "SELECT b.item FROM bids [UNBOUNDED] AS b JOIN asks [RANGE 1 MINUTE] AS a ON a.item = b.item"
    (line,) = report(made(Facts(RATES), query), {}).queries
    assert line.memory == float("inf")
    assert 0 < line.latency < 1
    name = of_kind(made(Facts(RATES), query), "join")
    measured = VertexFacts(service=3e-6, selectivity=2.0, held=5000, state_bytes=250_000, taken=6000)
    found = model(graph(query), Facts(RATES, {name: measured}))
    assert flow(found.network).out[name] == pytest.approx(2 * sum(RATES.values()))
    assert report(found, {}).queries[0].memory == float("inf")
