"""State that is too large for the manifest of a bucket, restored on another machine: every tuple of it is there.

`--state-megabytes 200` says how much state each of the two buckets has; the last line then tells how long it took.
"""

import numpy as np
import polars as pl
from tests.cluster.machine import until
from tests.conftest import TOLD
from tests.spark.crash_case import multiset, written

BEGIN = 1_767_225_600_000_000
#: Characters of a tuple that cannot be compressed, about.
TEXT = 1000
PROBES = 200
SCRIPT = """
CREATE STREAM goods (at TIMESTAMP, k BIGINT, text VARCHAR) TIMESTAMP BY at
  FROM FILES (path '{data}/goods', format 'parquet');
CREATE STREAM probes (at TIMESTAMP, k BIGINT) TIMESTAMP BY at FROM FILES (path '{data}/probes', format 'parquet');
CREATE QUERY found AS SELECT g.k AS k, g.text AS text FROM goods [RANGE 1 HOUR] AS g JOIN probes [RANGE 1 HOUR] AS p
  ON g.k = p.k INTO FILES (path '{out}/found');
"""


def write(folder, number, keys, **columns):
    """Write a file whose tuples are a second after those of the file before; it appears complete."""
    at = pl.Series("at", BEGIN + number * 1_000_000 + np.arange(len(keys)), dtype=pl.Int64).cast(pl.Datetime("us"))
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number:03d}"
    pl.DataFrame({"at": at, "k": pl.Series(keys, dtype=pl.Int64), **columns}).write_parquet(hidden)
    hidden.rename(folder / f"{number:03d}.parquet")


def texts(count, chance):
    characters = chance.integers(33, 127, (count, TEXT), dtype=np.uint8)
    return [row.tobytes().decode() for row in characters]


def test_a_large_bucket_comes_back_on_another_machine(cluster, driver, request):
    megabytes = request.config.getoption("--state-megabytes")
    folder, chance = cluster.common / "large", np.random.default_rng(11)
    data, out, checkpoint = folder / "data", folder / "out", str(folder / "checkpoint")
    count, stored = 2 * megabytes * 1_000_000 // TEXT, {}
    for number, first in enumerate(range(0, count, 10_000)):
        keys = range(first, min(first + 10_000, count))
        values = texts(len(keys), chance)
        stored |= dict(zip(keys, values, strict=True))
        write(data / "goods", number, keys, text=values)
    (data / "probes").mkdir()
    driver.call("start", checkpoint=checkpoint, text=SCRIPT.format(data=data, out=out), limit=20_000, buckets=2)

    def read(stream, tuples):
        until(lambda: driver.call("read", checkpoint=checkpoint).get(stream) == tuples, what=f"{tuples} of {stream}")

    read("goods", count)
    size = {row["machine"]: row["state bytes"] for row in driver.call("placed", checkpoint=checkpoint)}
    assert set(size) == set(cluster.workers)
    assert min(size.values()) > 0.8e6 * megabytes
    before = len(driver.call("took", checkpoint=checkpoint))
    asked = chance.choice(count, 2 * PROBES, replace=False)
    write(data / "probes", 1000, asked[:PROBES])
    read("probes", PROBES)
    undisturbed = driver.call("took", checkpoint=checkpoint)[before:]
    cluster.switch_off("worker-2")
    until(lambda: len(driver.call("executors")) == 1, what="the loss of an executor")
    write(data / "probes", 1001, asked[PROBES:])
    read("probes", 2 * PROBES)
    restoring = driver.call("took", checkpoint=checkpoint)[before + len(undisturbed) :]
    request.config.stash.setdefault(TOLD, []).append(
        f"a bucket with {size['worker-2'] / 1e6:.0f} MB of state came back on another machine: "
        f"a micro-batch of {max(restoring):.0f} ms instead of {max(undisturbed):.0f} ms"
    )
    assert {row["machine"] for row in driver.call("placed", checkpoint=checkpoint)} == {"worker-1"}
    assert not driver.call("drain", checkpoint=checkpoint)["is_restarted"]
    answers = {"found": multiset({"k": int(key), "text": stored[int(key)]} for key in asked)}
    assert written(out, answers) == answers
