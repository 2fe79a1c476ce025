"""What the controller does on Spark when promises cannot be kept: it suspends, sheds, and bounds what waits.

The controller runs in the driver, which is the process of the test. Its thresholds are lowered, so that a small load
and a short time do what a large load does in minutes.
"""

import datetime as dt
from collections import Counter

import polars as pl
import pytest

from headrace.control import suspension
from headrace.control.policies import budget
from headrace.session import Session
from headrace.testing.watching import delivered, until

pytestmark = pytest.mark.spark
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
#: Tuples of a file, which is a second, and how many of them have the same key.
ROWS, EACH = 200, 20
STREAM = (
    "CREATE STREAM {name} (at TIMESTAMP, k INT) TIMESTAMP BY at FROM FILES (path '{folder}/{name}', format 'parquet');"
)
#: No micro-batch takes so little, on no machine.
STRICT = """
CREATE QUERY strict WITH (force, latency '1 ms' MUST) AS SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k
  INTO FILES (path '{folder}/strict', format 'parquet');
"""
#: A tuple has one partner, itself; the join may wait.
LAZY = """
CREATE QUERY lazy AS SELECT a.at AS at, a.k AS k FROM {stream} [NOW] AS a JOIN {stream} [NOW] AS b ON a.k = b.k
  INTO FILES (path '{folder}/lazy', format 'parquet');
"""
#: Work has to wait.
BUDGET = "ALTER SYSTEM SET budget = '1 ms';"
#: One keeps its tuples for a minute, which takes more than it may; the other gives far fewer results than it must.
MUST = """
CREATE QUERY fat WITH (force, memory '2 kB' MUST, error 0.5) AS
  SELECT count(*) AS n FROM t [RANGE 1 MINUTE] AS a JOIN u [NOW] AS b ON a.k = b.k
  INTO FILES (path '{folder}/fat', format 'parquet');
CREATE QUERY many WITH (force, throughput '1000000000/s' MUST) AS
  SELECT a.at AS at, a.k AS k FROM t [NOW] AS a JOIN t [NOW] AS b ON a.k = b.k
  INTO FILES (path '{folder}/many', format 'parquet');
CREATE QUERY lossy WITH (error 0.4) AS SELECT k, count(*) AS n FROM u [RANGE 1 SECOND] GROUP BY k
  INTO FILES (path '{folder}/lossy', format 'parquet');
"""


class Load:
    """Files of the streams, a second each."""

    def __init__(self, folder, *streams):
        self.folder, self.streams, self.files = folder, streams, 0
        for stream in streams:
            (folder / stream).mkdir()

    def write(self, *_):
        rows = [
            {"at": START + dt.timedelta(seconds=self.files, milliseconds=5 * number), "k": number % (ROWS // EACH)}
            for number in range(ROWS)
        ]
        for stream in self.streams:
            hidden = self.folder / stream / ".hidden.parquet"
            pl.DataFrame(rows, schema={"at": pl.Datetime("us"), "k": pl.Int32}).write_parquet(hidden)
            hidden.rename(self.folder / stream / f"{self.files:04d}.parquet")
        self.files += 1

    def statements(self, text, **names):
        streams = "".join(STREAM.format(name=name, folder=self.folder) for name in self.streams)
        return streams + text.format(folder=self.folder, **names)


def state(session, query):
    (listing,) = session.execute("SHOW QUERIES")
    return next(str(row[listing.columns.index("state")]) for row in listing.rows if row[0] == query)


def decisions(session):
    (listing,) = session.execute("SHOW DECISIONS")
    return [f"{row[2]}: {row[3]}" for row in listing.rows]


@pytest.mark.parametrize(
    "cause", ["strict: latency is", "tuples wait for it, more than may"], ids=["promise", "backlog"]
)
def test_the_least_important_query_is_suspended_through_a_restart_and_resumed(spark, tmp_path, monkeypatch, cause):
    for name in ("PATIENCE", "REST", "SHORTEST", "MIN_LOAD", "MIN_WORK"):
        monkeypatch.setattr(suspension, name, 0)
    monkeypatch.setattr(suspension, "RESUME_LOAD", 1e9)
    if "wait" in cause:
        monkeypatch.setattr(suspension, "PATIENCE", 10**12)
        monkeypatch.setattr(suspension, "LARGEST_BACKLOG", 0)
    load = Load(tmp_path, "t")
    load.write()
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(load.statements(STRICT + LAZY + BUDGET, stream="t"))
        until(lambda: state(session, "lazy").startswith("suspended"), 200, meanwhile=load.write)
        assert cause in state(session, "lazy")
    load.write()
    suspended = load.files
    load.write()
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        assert cause in state(session, "lazy")
        until(lambda: delivered(tmp_path / "strict")["n"].sum() >= (suspended - 1) * ROWS, 200)  # it has been read
        session.execute("ALTER QUERY strict SET (latency '1 hour' MUST); ALTER SYSTEM SET budget = 'off'")
        until(lambda: state(session, "lazy") == "on", 200, meanwhile=load.write)
        assert any(text.startswith("resume it") for text in decisions(session))
        load.write()
        session.drain(200)
    expected = Counter({(k, EACH): load.files for k in range(ROWS // EACH)})
    assert Counter(delivered(tmp_path / "strict").select("k", "n").rows()) == expected
    rows = delivered(tmp_path / "lazy")
    assert rows.height == rows.unique().height  # nothing twice
    seconds = set((rows["at"] - START).dt.total_seconds())
    assert suspended - 1 not in seconds  # it missed what was read meanwhile
    assert load.files - 1 in seconds  # and has seen what came after it was resumed


def test_memory_and_throughput_that_must_hold_are_bought_with_errors_also_after_a_restart(spark, tmp_path):
    load = Load(tmp_path, "t", "u")
    load.write()

    def has_shed(*queries):
        counts = session.statistics().queries
        return all(query in counts and counts[query].shed > ROWS for query in queries)

    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(load.statements(MUST + BUDGET))
        until(lambda: has_shed("fat", "lossy"), 200, meanwhile=load.write)
        told = decisions(session)
        assert any(text.startswith("shed ") and "memory is" in text for text in told), told
        assert any(text.startswith("shed ") and "a throughput MUST be kept" in text for text in told), told
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        until(lambda: has_shed("fat"), 200, meanwhile=load.write)
        session.drain(200)
    rows = delivered(tmp_path / "many")
    assert rows.height == rows.unique().height == load.files * ROWS  # what must hold loses nothing


def test_what_waits_is_bounded_and_what_is_left_unread_is_read_in_the_end(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "MAX_WAITING", ROWS)
    load = Load(tmp_path, "t", "u")
    load.write()
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(load.statements(STRICT + LAZY + BUDGET, stream="u"))
        is_paused = lambda: any(text.startswith("pause reading of u") for text in decisions(session))  # noqa: E731
        until(is_paused, 200, meanwhile=load.write)
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        load.write()
        session.drain(200)
    rows = delivered(tmp_path / "lazy")
    assert rows.height == rows.unique().height == load.files * ROWS
    assert delivered(tmp_path / "strict")["n"].sum() == load.files * ROWS
