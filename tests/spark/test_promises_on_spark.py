"""The controller on Spark sheds for a latency that cannot be kept, and lets unimportant queries wait.

Rules promise a latency as queries do.
"""

import datetime as dt
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from headrace.driver.progress import read_progress
from headrace.session import Session
from headrace.testing.watching import delivered, until

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
ROWS = 1000
STREAM = "CREATE STREAM t (at TIMESTAMP, k INT) TIMESTAMP BY at FROM FILES (path '{folder}/data', format 'parquet');"
#: No micro-batch takes so little, on no machine; and each tuple is compared with ten thousand.
SHED = """
CREATE TABLE lower FROM FILES (path '{folder}/lower.parquet', format 'parquet');
CREATE QUERY below WITH (force, latency '1 ms' MUST, error 0.3) AS SELECT k, count(*) AS n, shed_error() AS e
  FROM t [RANGE 1 SECOND] JOIN lower ON p < k GROUP BY k INTO FILES (path '{folder}/below', format 'parquet');
CREATE QUERY told AS SELECT query, seen, dropped FROM headrace.shed INTO FILES (path '{folder}/told', format 'parquet');
"""
WAIT = """
CREATE {quick} INTO FILES (path '{folder}/quick', format 'parquet');
CREATE TABLE lower FROM FILES (path '{folder}/lower.parquet', format 'parquet');
CREATE QUERY lazy WITH (force, latency '1 hour' DONT CARE) AS {lazy}
  INTO FILES (path '{folder}/lazy', format 'parquet');
"""
PROMISE = "WITH (force, latency '1 ms' MUST)"
QUERY = f"QUERY quick {PROMISE} AS SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k"
RULE = f"RULE quick {PROMISE} ON t WHEN k > 1 DO INSERT"
#: What has the promise, what a query that may wait counts, how much there is of it in a second, and whether it would be
#: done before the shuffle if nothing else were there.
PAIRS = QUERY, "SELECT a.k, count(*) AS n FROM t [NOW] AS a JOIN t [NOW] AS b ON a.k = b.k GROUP BY a.k", ROWS, False
MATCHES = (
    RULE,
    "SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] JOIN lower ON p < k GROUP BY k",
    ROWS // 10 * sum(range(1, 11)),
    True,
)


def write(folder: Path, number: int) -> None:
    """A second of tuples, a thousand."""
    rows = [{"at": START + dt.timedelta(seconds=number, milliseconds=i), "k": i * 7 % 10 + 1} for i in range(ROWS)]
    hidden = folder / "data" / f".{number}.parquet"
    pl.DataFrame(rows, schema={"at": pl.Datetime("us"), "k": pl.Int32}).write_parquet(hidden)
    hidden.rename(folder / "data" / f"{number:03d}.parquet")


@pytest.mark.timeout(600)
def test_what_cannot_be_kept_is_bought_with_the_error_that_is_borne_and_loss_is_told_to_the_tuple(spark, tmp_path):
    (tmp_path / "data").mkdir()
    pl.DataFrame({"p": pl.int_range(10_000, dtype=pl.Int32, eager=True)}).write_parquet(tmp_path / "lower.parquet")
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(STREAM.format(folder=tmp_path) + SHED.format(folder=tmp_path))
        shares = lambda: {shed.dropped for shed in session.statistics().shed.values()}  # noqa: E731
        written = until(
            lambda: max(shares(), default=0) > 3 * ROWS, 200, meanwhile=lambda number: write(tmp_path, number)
        )
        decided = [row[2] for row in session.execute("SHOW DECISIONS")[0].rows]
        assert any("shed 30%" in action for action in decided), decided

        def active():
            return [row for row in session.execute("SHOW SHEDDING")[0].rows if row[1] != "total" and row[2] != "ended"]

        assert active()
        session.execute("ALTER QUERY below SET (latency '1 hour' MUST)")
        until(lambda: not active(), 200, meanwhile=lambda number: write(tmp_path, written + number))
        session.drain(200)
        seen = session.statistics()
    read = seen.streams["t"].tuples
    taken = sum(counts.tuples_in for name, counts in seen.vertices.items() if name.startswith("tablejoin"))
    assert delivered(tmp_path / "told")["dropped"].sum() == read - taken > 3 * ROWS
    found = delivered(tmp_path / "below").with_columns(
        ratio=pl.col("n") / (pl.col("k") * (ROWS // 10))
    )  # to what it is without any loss
    assert set(found.filter(pl.col("e") == 0)["ratio"]) == {1.0}
    assert found.filter(pl.col("e") > 0)["ratio"].mean() == pytest.approx(1.0, abs=0.1)
    assert found["ratio"].sum() == pytest.approx(read / (ROWS // 10), rel=0.1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("quick", "lazy", "each", "is_put_off"), [PAIRS, MATCHES], ids=["query", "rule"])
def test_what_nobody_waits_for_waits_and_loses_nothing_even_if_killed(spark, tmp_path, quick, lazy, each, is_put_off):
    (tmp_path / "data").mkdir()
    pl.DataFrame({"p": pl.int_range(15_000, dtype=pl.Int32, eager=True)}).write_parquet(tmp_path / "lower.parquet")
    script = STREAM.format(folder=tmp_path) + WAIT.format(folder=tmp_path, quick=quick, lazy=lazy)
    child = subprocess.Popen([sys.executable, __file__, str(tmp_path / "checkpoint"), script], start_new_session=True)
    try:
        left = lambda: (tmp_path / "checkpoint").exists() and read_progress(tmp_path / "checkpoint").unread > ROWS  # noqa: E731
        write(tmp_path, 0)  # not more until it runs: on a busy machine the first micro-batch would have it all
        until(lambda: any((tmp_path / "checkpoint" / "spark" / "commits").glob("[0-9]*")), 200)
        written = 1 + until(left, 200, meanwhile=lambda number: write(tmp_path, 1 + number))
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if quick == RULE:
        detected, waited = delivered(tmp_path / "quick").height / (ROWS // 10 * 9), seconds(tmp_path / "lazy", each)
        assert detected > waited, "the rule has acted on tuples that the query has not counted yet"
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        write(tmp_path, written)
        decided = [row[2] for row in session.execute("SHOW DECISIONS")[0].rows]
        assert "schedule by edf" in decided
        assert any("join" in action and action.endswith("in the buckets") for action in decided) == is_put_off
        session.drain(200)
    found = delivered(tmp_path / "quick")
    if quick == RULE:
        assert Counter(found["k"]) == dict.fromkeys(range(2, 11), (written + 1) * ROWS // 10), "each detection once"
    else:
        assert Counter(found.select("k", "n").rows()) == {(k, ROWS // 10): written + 1 for k in range(1, 11)}
    assert seconds(tmp_path / "lazy", each) == written + 1


def seconds(folder: Path, each: int) -> float:
    """How many seconds of tuples a query that counts so much in each of them has counted."""
    return float(delivered(folder)["n"].sum()) / each if any(folder.glob("*.parquet")) else 0


if __name__ == "__main__":
    with Session(Path(sys.argv[1]), buckets=2) as endless:
        endless.execute(sys.argv[2])
        time.sleep(600)
