import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.generator.arrivals import (
    Bursty,
    Constant,
    Poisson,
    Process,
    SelfSimilar,
    cell_length,
    count,
    times,
)
from headrace.connectors.generator.source import GeneratorSource
from headrace.model.schema import Schema
from headrace.model.time import SECOND, parse_instant
from headrace.model.types import Type

SCHEMA = Schema.of(id=Type.BIGINT, at=Type.TIMESTAMP, speed=Type.DOUBLE, name=Type.STRING)
PROCESSES = ["constant", "poisson", "bursty", "selfsimilar"]


def generator(schema: Schema = SCHEMA, **options: Any) -> GeneratorSource:
    options = {name.replace("__", "."): value for name, value in options.items()}
    return GeneratorSource(Stream("g", schema, Connector("GENERATOR", options), Timing.EXTERNAL, "at"), Path())


def read(source: GeneratorSource, start: Any, end: Any, parallel: int = 1) -> pl.DataFrame:
    source = pickle.loads(pickle.dumps(source))
    frames = [pl.DataFrame(schema={"seq": pl.Int64, **SCHEMA.polars()})]
    for split in json.loads(json.dumps(source.splits(start, end, parallel=parallel))):
        frames += [pl.DataFrame([piece.seq, *piece.rows]) for piece in source.read(split)]
    return pl.concat(frames)


@pytest.mark.parametrize("process", PROCESSES)
@given(
    steps=st.lists(st.integers(1, 5 * SECOND), min_size=1, max_size=6),
    limit=st.integers(1, 30_000),
    parallel=st.integers(1, 3),
)
@settings(deadline=None, max_examples=10)
def test_any_cutting_gives_the_same_tuples(process: str, steps: list[int], limit: int, parallel: int) -> None:
    options: dict[str, Any] = {
        "rate": 3000,
        "process": process,
        "seed": 7,
        "delay": "uniform(0, 2)",
        "col__speed": "null(0.1, normal(55, 12))",
        "flows": 8,
    }
    now, offset, parts = 0, generator(**options).latest(None, now=0, limit=limit), []
    parts.append(read(generator(**options), None, offset))
    for step in steps:
        now += step
        end = json.loads(json.dumps(generator(**options).latest(offset, now=now, limit=limit)))
        assert 0 <= end[3] - offset[3] <= limit
        parts.append(read(generator(**options), offset, end, parallel))
        offset = end
    cut = pl.concat(parts)
    whole = read(generator(**options), None, offset)
    assert cut.equals(whole)
    assert whole["seq"].to_list() == list(range(offset[3]))


@pytest.mark.parametrize("process", PROCESSES)
def test_all_is_taken_when_its_time_has_come_and_nothing_before(process: str) -> None:
    source = generator(rate=1000, process=process, start="2026-01-01", rows=5000)
    offset = source.latest(None, now=0, limit=10**6)
    assert not source.finished(offset)
    begin = parse_instant("2026-01-01")
    for now in range(SECOND // 3, 4 * SECOND, SECOND // 3):
        offset = source.latest(offset, now=now, limit=10**6)
        made = read(source, None, offset)["at"].cast(pl.Int64)
        assert made.is_sorted()
        assert made.is_empty() or (begin <= made[0] and made[-1] <= begin + now)
    offset = source.latest(offset, now=1000 * SECOND, limit=10**6)
    assert offset[3] == 5000
    assert source.finished(offset)
    assert source.latest(offset, now=2000 * SECOND, limit=10**6) == offset


def test_event_time_follows_the_clock_unless_told_otherwise() -> None:
    source = generator(rate=10, process="constant")
    origin = parse_instant("2026-05-05")
    offset = source.latest(None, now=origin, limit=100)
    offset = source.latest(offset, now=origin + SECOND, limit=100)
    assert read(source, None, offset)["at"].cast(pl.Int64).to_list() == [origin + i * SECOND // 10 for i in range(11)]
    fast = generator(rate=10, process="constant", speed=3)
    assert fast.latest([origin, 0, 0, 0], now=origin + SECOND, limit=100)[3] == 31


def test_an_endless_generator_is_finished_when_it_has_caught_up() -> None:
    source = generator(rate=1000, process="constant")
    start = source.latest(None, now=0, limit=1)
    part = source.latest(start, now=SECOND, limit=100)
    assert not source.finished(part)
    assert source.finished(source.latest(part, now=SECOND, limit=10_000))


CASES: tuple[dict[str, Any], ...] = ({}, {"delay": "uniform(0, 2)"})


def test_delay_makes_disorder_behind_the_event_time() -> None:
    plain, delayed = (
        read(generator(rate=1000, **more), None, [0, 0, 1000, 1000])["at"].cast(pl.Int64) for more in CASES
    )
    behind = plain - delayed
    assert 0 <= behind.min() < behind.max() <= 2 * SECOND
    assert not delayed.is_sorted()


def test_columns_hold_what_their_specifications_say() -> None:
    schema = Schema.of(
        i=Type.INT,
        u=Type.DOUBLE,
        n=Type.DOUBLE,
        k=Type.BIGINT,
        c=Type.STRING,
        z=Type.INT,
        x=Type.STRING,
        o=Type.DOUBLE,
        b=Type.BOOLEAN,
        d=Type.INTERVAL,
        day=Type.DATE,
    )
    source = generator(
        schema,
        rate=10_000,
        process="constant",
        col__i="uniform(1, 3)",
        col__u="uniform(5, 6)",
        col__n="normal(55, 12)",
        col__k="sequence",
        col__c="choice(red, 'green')",
        col__z="zipf(100, 1.2)",
        col__x="constant(a b)",
        col__o="null(0.25, uniform(0, 1))",
    )
    (split,) = source.splits(None, [0, 0, 0, 10_000], parallel=1)
    (piece,) = source.read(split)
    rows = piece.rows
    assert dict(rows.schema) == schema.polars()
    assert set(rows["i"]) == {1, 2, 3}
    assert 5 <= rows["u"].min() < 5.01
    assert 5.99 < rows["u"].max() < 6
    assert rows["n"].mean() == pytest.approx(55, abs=1)
    assert rows["n"].std() == pytest.approx(12, abs=1)
    assert rows["k"].to_list() == list(range(10_000))
    assert set(rows["c"]) == {"red", "green"}
    shares = rows["z"].value_counts(sort=True)
    assert shares["z"][0] == 1
    assert 50 < rows["z"].max() <= 100
    assert set(rows["x"]) == {"a b"}
    assert rows["o"].null_count() == pytest.approx(2500, abs=250)
    assert set(rows["b"]) == {True, False}
    (only,) = source.read(split, columns=("z", "i"))
    assert only.rows.equals(rows.select("i", "z"))


def counts(process: Process, seconds: int, bins_per_second: int = 10) -> Any:
    cells = range(-(-seconds * SECOND // cell_length(process)))
    made = [times(process, cell) for cell in cells]
    assert [len(moments) for moments in made] == [count(process, cell) for cell in cells]
    every = np.concatenate(made)
    assert (np.diff(every) >= 0).all()
    return np.bincount(every[every < seconds * SECOND] * bins_per_second // SECOND, minlength=seconds * bins_per_second)


@pytest.mark.parametrize(
    ("process", "tolerance"),
    [
        (Constant(1000), 0.001),
        (Constant(0.7), 0.02),
        (Poisson(1000, 3), 0.02),
        (Bursty(1000, 3, SECOND // 2, 2 * SECOND), 0.02),
        (SelfSimilar(1000, 3, 256, SECOND // 10, SECOND // 10), 0.2),
    ],
)
def test_the_mean_rate_is_as_asked(process: Process, tolerance: float) -> None:
    assert counts(process, 100).sum() / 100 == pytest.approx(process.rate, rel=tolerance)


def test_bursts_are_bursts() -> None:
    seen = counts(Bursty(1000, 3, SECOND // 2, SECOND // 2), 20, bins_per_second=2)
    assert (seen[1::2] == 0).all()
    assert (seen[0::2] > 800).all()


def test_self_similar_traffic_stays_bursty_over_long_times_where_poisson_smooths_out() -> None:
    smooth, rough = Poisson(1000, 1), SelfSimilar(1000, 1, 64, SECOND // 10, SECOND // 10)
    assert rough.duty == pytest.approx(0.368, abs=0.001)
    # Flows that are ON add var/mean of at most rate / flows * (1 - duty) / duty * bin = 26.8 per second of bin: 3.7 at
    # 0.1 s, more in wider bins.
    flat, rising = (
        [seen.var() / seen.mean() for seen in (counts(p, 200, bins) for bins in (10, 1))] for p in (smooth, rough)
    )
    assert all(0.7 < dispersion < 1.4 for dispersion in flat)
    assert 2 < rising[0] < 4
    assert rising[1] > 2 * rising[0]


def test_other_seeds_give_other_tuples() -> None:
    one, other = (read(generator(rate=1000, seed=seed), None, [0, 0, 100, 100]) for seed in (1, 2))
    assert not one["at"].equals(other["at"])
    assert not one["speed"].equals(other["speed"])


@pytest.mark.parametrize("process", PROCESSES)
def test_the_newest_timestamp_of_a_split_is_known_unless_tuples_are_delayed(process: str) -> None:
    source = generator(rate=3000, process=process, seed=7, flows=8)
    splits = source.splits(None, [5, 0, 0, 45_000], parallel=4)
    assert len(splits) == 4
    for split in splits:
        newest = max(piece.rows["at"].to_physical().max() for piece in source.read(split))  # type: ignore[type-var]
        assert source.newest(split, None) == newest
    assert generator(rate=3000, delay="uniform(0, 2)").newest(splits[0], None) is None


@pytest.mark.parametrize("process", PROCESSES)
@given(
    changes=st.lists(st.tuples(st.integers(1, 4 * SECOND), st.sampled_from([None, 0.0, 500.0, 4000.0])), max_size=5),
    limit=st.sampled_from([50, 700, 100_000]),
    parallel=st.integers(1, 3),
)
@settings(deadline=None, max_examples=10)
def test_a_rate_that_changes_gives_the_same_tuples_however_they_are_read(
    process: str, changes: list[tuple[int, float | None]], limit: int, parallel: int
) -> None:
    """The offsets alone decide; nothing is lost or made twice, and times never go back."""
    options: dict[str, Any] = {"rate": 1000, "process": process, "seed": 3, "flows": 8, "start": "2026-01-01"}
    source = generator(**options)
    offsets: list[Any] = [None]
    now = 5 * SECOND
    for passed, rate in [*changes, (SECOND, None)]:
        offsets.append(source.latest(offsets[-1], now=now, limit=limit))
        now += passed
        source.steer(rate, paused=rate == 0.0)
    offsets.append(source.latest(offsets[-1], now=now, limit=limit))
    pairs = list(itertools.pairwise(offsets))
    made = pl.concat([read(generator(**options), start, end, parallel) for start, end in pairs])
    assert made["seq"].to_list() == list(range(offsets[-1][3]))
    assert made["at"].is_sorted()
    for start, end in pairs:  # a repeated micro-batch, by a process that knows only the definition
        again = read(generator(**options), start, end)
        assert again.equals(made.filter(pl.col("seq").is_between(0 if start is None else start[3], end[3] - 1)))


def test_a_paused_generator_makes_nothing_and_goes_on_at_the_clock() -> None:
    source = generator(rate=100, process="constant", start="2026-01-01")
    first = source.latest(None, now=0, limit=10_000)
    first = source.latest(first, now=2 * SECOND, limit=10_000)
    source.steer(None, paused=True)
    paused = source.latest(first, now=3 * SECOND, limit=10_000)
    assert paused[3] == 301
    later = source.latest(paused, now=10 * SECOND, limit=10_000)
    assert (later, source.finished(later), source.unread(later)) == (paused, True, 0)
    source.steer(20.0, paused=False)
    resumed = source.latest(later, now=10 * SECOND, limit=10_000)
    end = source.latest(resumed, now=15 * SECOND, limit=10_000)
    assert end[3] == 301 + 101
    times_ = read(source, resumed, end)["at"].dt.epoch("us").to_numpy() - parse_instant("2026-01-01")
    assert (times_[0], times_[-1]) == (10 * SECOND, 15 * SECOND), "what would have come meanwhile never comes"
    assert set(np.diff(times_)) == {SECOND // 20}
