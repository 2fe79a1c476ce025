"""Joined rows that a plan stores are files only; a query whose files are gone computes them again and loses nothing."""

import datetime as dt
import random
from pathlib import Path

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.worker import chunk_cache
from headrace.worker.chunk_cache import ChunkCache

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = (
    "".join(f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;" for name in "abc")
    + """CREATE QUERY q AS SELECT a.v AS x, b.v AS y, c.v AS z
  FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE], c [RANGE 1 MINUTE] WHERE a.k = b.k AND b.k = c.k INTO MEMORY;
ALTER QUERY q SET plan = '((a b) c)'"""
)


def run(folder: Path, files: Path | None, *, loses: bool) -> tuple[list[tuple[int, ...]], int]:
    """Return the results and the stored values of joined rows; with files, perhaps without those of a micro-batch."""
    chance, stored = random.Random(1), 0
    with Session(folder, host="local", buckets=2) as session:
        host = session.deployment
        assert isinstance(host, LocalDeployment)
        host.forgetful, host.cache = True, ChunkCache(files)
        session.execute(SCRIPT)
        for second in range(6):
            for name in "abc":
                keys = 20 if name in "ab" else 200
                at = EPOCH + dt.timedelta(seconds=second)
                session.push(name, [{"at": at, "k": chance.randrange(keys), "v": i} for i in range(60)])
            while host.step():
                pass
            stored += sum("/~" in key for store in host.stores.values() for key in store.values)
            if loses and files is not None and files.exists():
                chunk_cache._mapped.clear()
                for file in files.iterdir():
                    file.unlink()
        session.drain()
        return sorted(tuple(row.values()) for row in session.results("q")), stored


@pytest.mark.slow
@pytest.mark.parametrize("loses", [False, True])
def test_results_are_the_same_whether_joined_rows_are_stored_in_files_or_lost(tmp_path: Path, loses: bool) -> None:
    expected, stored = run(tmp_path / "stored", None, loses=False)
    assert expected
    assert stored > 0, "large enough to be values of their own"
    assert run(tmp_path / "derived", tmp_path / "files", loses=loses) == (expected, 0)
