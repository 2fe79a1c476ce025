"""Work that runs without the thread pool of Polars."""

import os
import subprocess
import sys

import pytest

from headrace.errors import SourceFault
from headrace.worker.without_pool import without_pool

_SWITCHES = """
import resource
import polars as pl
from headrace.worker.without_pool import without_pool
assert pl.thread_pool_size() == 1
frame = pl.DataFrame({"k": [index % 97 for index in range(5_000)], "v": range(5_000)})
places = pl.Series(range(0, 5_000, 2), dtype=pl.UInt32)
def switches():
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for _ in range(100):
        pl.concat([frame[places], frame.filter(pl.col("k") < 5)]).select("v", "k")
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
switches()
print(switches(), without_pool(switches))
"""


def run(text, folder):
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_thread_that_calls_does_not_wait_for_another_one(tmp_path):
    outside, inside = map(int, run(_SWITCHES, tmp_path).split())
    assert inside < 20
    assert outside > 100  # or Polars has changed, and nobody needs this any more


@pytest.mark.parametrize("error", [SourceFault("no such file"), KeyError("k"), StopIteration(), SystemExit(3)])
def test_what_a_function_raises_is_raised_as_it_is(error):
    def fail():
        raise error

    with pytest.raises(type(error)) as raised:
        without_pool(fail)
    assert raised.value is error
    assert without_pool(lambda: without_pool(lambda: 7)) == 7


def test_a_generator_may_go_on_in_another_call():
    numbers = (number * number for number in range(3))
    assert [without_pool(lambda: next(numbers, None)) for _ in range(4)] == [0, 1, 4, None]


_EVERYTHING = """
from concurrent.futures import ThreadPoolExecutor
import polars as pl
from headrace.worker.without_pool import without_pool
frame = pl.DataFrame({"k": [index % 100 for index in range(50_000)], "v": range(50_000)})
def work():
    frame.write_parquet("rows.parquet")
    rows = pl.scan_parquet("rows.parquet", low_memory=True).slice(0, 40_000).select("k", "v").collect()
    counts = rows.group_by("k").agg(pl.col("v").sum()).join(rows.unique("k"), on="k")
    ranked = rows.with_columns(pl.col("v").rank().over("k")).sort("k", "v")
    with ThreadPoolExecutor(1) as threads:  # as a function of a user may
        beside = threads.submit(lambda: frame.filter(pl.col("k") < 50).height).result()
    return pl.concat([ranked, ranked]).filter(pl.col("k") < 5).height, counts.height, beside
print(*without_pool(work))
"""


def test_whatever_work_asks_of_polars_is_done_also_on_another_thread(tmp_path):
    assert run(_EVERYTHING, tmp_path) == "4000 100 25000\n"
