"""A server on Spark that is killed: a complete follower has exactly the rows that are in the files.

Rows that a client pushes meanwhile, each request repeated under its key until it is answered, are there once.
"""

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.spark.crash_case import newest_batch

from headrace.client import connect
from headrace.errors import HeadraceError
from headrace.server.tokens import TokenFile, token_path

_LOG = logging.getLogger(__name__)
#: How often the server is killed; more in a long run.
KILLS = int(os.environ.get("HEADRACE_SERVER_KILLS", "2"))
#: Files of the source and their rows: tasks write results of this size to files themselves, if they may.
FILES, ROWS = 6 + 3 * KILLS, 10_000
SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, auction INT, price DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{data}', format 'parquet');
CREATE QUERY dear WITH (keep '1 day durable') AS SELECT at, auction, price FROM bids WHERE price > 10
  INTO FILES (path '{out}/dear', format 'parquet');
CREATE QUERY counts WITH (keep '1 day durable') AS SELECT auction, count(*) AS n, max(price) AS top, window_end
  FROM bids [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY auction INTO FILES (path '{out}/counts', format 'parquet');
CREATE QUERY lively AS SELECT at, auction, price FROM bids WHERE price > 10
  INTO FILES (path '{out}/lively', format 'parquet');
CREATE STREAM numbers (n INT) FROM MEMORY;
CREATE QUERY pushed WITH (keep '1 day durable') AS SELECT n FROM numbers
  INTO FILES (path '{out}/pushed', format 'parquet');
"""
#: A stream with its query, which is dropped and created again.
AGAIN = """
CREATE STREAM marks (n INT) FROM MEMORY;
CREATE QUERY marked AS SELECT n FROM marks INTO FILES (path '{out}/marked', format 'parquet');
"""


class Feed:
    """Writes the files of the source, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._rng = folder, np.random.default_rng(5)
        self.frames: list[pl.DataFrame] = []
        folder.mkdir()

    def put(self, files: int) -> None:
        for _ in range(files):
            number = len(self.frames)
            ts = np.sort(self._rng.integers(number * 10_000_000, (number + 1) * 10_000_000, ROWS))
            frame = pl.DataFrame(
                {
                    "at": pl.Series(ts + 1_767_225_600_000_000).cast(pl.Datetime("us")),
                    "auction": pl.Series(self._rng.integers(0, 12, ROWS), dtype=pl.Int32),
                    "price": np.round(self._rng.uniform(0, 100, ROWS), 2),
                }
            )
            self.frames.append(frame)
            frame.write_parquet(self._folder / f".{number:03d}.tmp")
            (self._folder / f".{number:03d}.tmp").rename(self._folder / f"{number:03d}.parquet")

    def dear(self) -> pl.DataFrame:
        return pl.concat(self.frames).filter(pl.col("price") > 10)


class Reader:
    """Follows a query, and keeps each micro-batch with its number, as a client that works exactly once does."""

    def __init__(self, url: str, token: str, query: str) -> None:
        self._url, self._token, self._query = url, token, query
        self.batches: dict[int, list[dict[str, object]]] = {}
        self.faults: list[str] = []
        self._lock = threading.Lock()

    @contextmanager
    def reading(self):
        """Follow in the background, from behind the last micro-batch that is kept; at the end it keeps no more."""
        is_over = threading.Event()
        threading.Thread(target=self._run, args=(is_over,), daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                is_over.set()

    def rows(self) -> int:
        return sum(map(len, list(self.batches.values())))

    def frame(self, like: pl.DataFrame) -> pl.DataFrame:
        rows = [row for batch in list(self.batches.values()) for row in batch]
        frame = pl.DataFrame(rows, schema_overrides={"at": pl.Datetime("us"), "window_end": pl.Datetime("us")})
        return frame.select(pl.col(name).cast(dtype) for name, dtype in like.schema.items())

    def _run(self, is_over: threading.Event) -> None:
        try:
            with connect(self._url, token=self._token) as session:
                for batch in session.follow(self._query, after=max(self.batches, default="first"), complete=True):
                    with self._lock:
                        if is_over.is_set():
                            return
                        if batch.number in self.batches or batch.skipped:
                            self.faults.append(f"micro-batch {batch.number} came again, or {batch.skipped} were missed")
                        self.batches[batch.number] = batch.rows
        except Exception as error:
            if not is_over.is_set():
                self.faults.append(repr(error))


class Pusher:
    """Pushes numbers, and repeats each request until it is answered."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self.count = self.repeated = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return how many numbers were pushed."""
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.count

    def _run(self) -> None:
        while not self._is_over.is_set():
            while True:
                try:
                    with connect(self._url, token=self._token, timeout=5) as session:
                        before = session.push("numbers", [{"n": self.count}], key=f"push {self.count}")
                    break
                except HeadraceError:
                    time.sleep(0.05)  # it is away, or starts
            self.repeated += before is not None
            self.count += 1
            time.sleep(0.02)


class Child:
    """A server in a process of its own."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        command = [sys.executable, "-m", "headrace", "serve", str(directory / "script.sql"), "--buckets", "4"]
        command += ["--checkpoint", str(directory / "checkpoint"), "--bind", f"127.0.0.1:{port}"]
        command += ["--files", str(directory)]
        with open(directory / "child.log", "ab") as log:
            self.process = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)

    def until(self, is_so, what: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert self.process.poll() is None, f"it ended: {self.log()}"
            assert time.monotonic() < deadline, f"not so: {what}; {self.log()}"
            time.sleep(0.05)

    def log(self) -> str:
        names = ("child.log", "checkpoint/server.log", "checkpoint/spark.log")
        return "".join((self._directory / name).read_text()[-2000:] for name in names)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def written(folder: Path) -> pl.DataFrame:
    return pl.concat(pl.read_parquet(path) for path in sorted(folder.glob("*.parquet")))


def is_same(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    return one.height == other.height and one.sort(one.columns).equals(other.select(one.columns).sort(one.columns))


def create_again(url: str, token: str, out: Path, child: Child) -> None:
    """Drop a stream that has rows which were read and some which were not, and create it again."""
    with connect(url, token=token) as session:
        assert session.push("marks", [{"n": 1}], key="a") is None
        child.until(lambda: list((out / "marked").glob("*.parquet")), "the first row is there")
        session.execute("DROP QUERY marked")
        assert session.push("marks", [{"n": 2}], key="b") is None
        session.execute("DROP STREAM marks;" + AGAIN.format(out=out))
        assert session.push("marks", [{"n": 3}], key="a") is None
        assert session.push("marks", [{"n": 4}], key="b") is None


@pytest.mark.timeout(120 + 60 * KILLS)
def test_a_complete_follower_of_a_killed_server_has_exactly_the_rows_that_are_in_the_files(tmp_path):
    (tmp_path / "script.sql").write_text((SCRIPT + AGAIN).format(data=tmp_path / "data", out=tmp_path / "out"))
    checkpoint, out, chance = tmp_path / "checkpoint", tmp_path / "out", random.Random(11)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    checkpoint.mkdir()
    url, token = f"http://127.0.0.1:{port}", TokenFile(token_path(checkpoint)).add("follower", "read")
    owner = TokenFile(token_path(checkpoint)).add("pusher", "write")
    pusher = Pusher(url, owner)
    feed = Feed(tmp_path / "data")
    readers = [Reader(url, token, query) for query in ("dear", "counts")]
    dear, counts = readers
    feed.put(2)
    child = Child(tmp_path, port)
    try:
        child.until(lambda: (checkpoint / "server.json").exists(), "it is served")
        for number in range(KILLS):
            with dear.reading(), counts.reading():  # a new connection goes on behind what was kept
                for _ in range(3):
                    before = newest_batch(checkpoint)
                    feed.put(1)
                    child.until(lambda before=before: newest_batch(checkpoint) > before, "a micro-batch is committed")
                if number == 0:
                    create_again(url, owner, out, child)
                time.sleep(chance.random() * 0.5)  # somewhere within a micro-batch
                feed.put(1)
                child.kill()
                child = Child(tmp_path, port)  # the connections come back by themselves
                if number % 2 == 0:
                    before = newest_batch(checkpoint)
                    child.until(lambda before=before: newest_batch(checkpoint) > before, "it goes on")
        feed.put(1)
        with dear.reading(), counts.reading():
            truth = feed.dear()
            pushes = pusher.stop()
            child.until(lambda: dear.rows() >= truth.height or dear.faults, "the follower has all rows")
            child.until(
                lambda: (counts.rows() and counts.rows() == written(out / "counts").height) or counts.faults,
                "the follower has all windows",
            )
            child.until(lambda: written(out / "pushed").height >= pushes, "all pushed numbers are there")
        assert [reader.faults for reader in readers] == [[], []]
        with connect(url, token=owner) as session:
            assert session.push("marks", [{"n": 4}], key="b") == 1, "the new stream has its keys after the kills"
            child.until(lambda: written(out / "marked").height >= 3, "the rows of the new stream are there")
        with connect(url, token=token) as session:
            shown = session._wire.ask("GET", "/queries/lively")["shelf"]
            kept = session._wire.ask("GET", "/queries/dear")["shelf"]
            with pytest.raises(HeadraceError, match="not kept durably"):
                next(session.follow("lively", complete=True))
    finally:
        child.kill()
    assert is_same(truth, written(out / "dear")), "the files have what was to be found"
    assert is_same(written(out / "dear"), dear.frame(truth))
    assert is_same(written(out / "counts"), counts.frame(written(out / "counts")))
    assert sorted(written(out / "pushed")["n"]) == list(range(pushes)), "each number is there once"
    assert sorted(written(out / "marked")["n"]) == [1, 3, 4], "nothing is left of the stream that was dropped"
    _LOG.info("%d kills, %d rows, %d pushes, %d added before", KILLS, dear.rows(), pushes, pusher.repeated)
    assert shown["hidden"] > 0, "results of this size are written by tasks"
    assert kept["hidden"] == 0, "but of a durable shelf they go through the driver"
