import msgspec
from rich.console import Console

from headrace.cli.meter import Meter, milliseconds
from headrace.engine.statistics import QueryStatistics, Statistics, StreamStatistics, VertexStatistics
from headrace.model.time import SECOND


def meter_after(*looks: tuple[float, Statistics]) -> Meter:
    times = [at for at, _ in looks]
    meter = Meter(clock=lambda: times[0])
    for at, statistics in looks:
        times[0] = at
        meter.look(statistics)
    return meter


def read(tuples: int, *, frontier: int | None = None) -> Statistics:
    return Statistics(
        streams={"s": StreamStatistics(tuples=tuples, frontier=frontier)},
        queries={"q": QueryStatistics(results=tuples // 2)},
    )


def test_rates_are_differences_over_time() -> None:
    meter = meter_after((100.0, read(1000)), (102.0, read(3000)))
    assert (meter.stream_rate("s"), meter.query_rate("q")) == (1000.0, 500.0)


def test_rates_forget_what_is_long_ago() -> None:
    meter = meter_after((100.0, read(0)), (110.0, read(100)), (120.0, read(100)), (121.0, read(100)))
    assert meter.stream_rate("s") == 0.0


def test_one_look_has_no_rate() -> None:
    assert meter_after((100.0, read(1000))).stream_rate("s") == 0.0


def test_lag_is_behind_the_clock_and_old_data_shows_where_it_is() -> None:
    assert meter_after((100.0, read(1, frontier=97 * SECOND))).lag("s") == "3.0 s"
    assert meter_after((1e9, read(1, frontier=0))).lag("s") == "1970-01-01 00:00:00"
    assert meter_after((100.0, read(1))).lag("s") == "-"


def test_the_table_names_streams_and_queries() -> None:
    vertices = {"v": VertexStatistics(queued=7, held=12, state_bytes=2**20)}
    statistics = msgspec.structs.replace(read(2000), vertices=vertices)
    console = Console(width=120, record=True, file=None, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(meter_after((100.0, statistics)).table())
    text = captured.get()
    assert "7 tuples queued, 12 in state (1.0 MB)" in text
    assert "2,000" in text
    assert "1,000" in text


def test_times_read_well() -> None:
    assert [milliseconds(value) for value in (None, 82.4, 12_345.0)] == ["-", "82 ms", "12.3 s"]
