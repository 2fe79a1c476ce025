"""State that does not fit into the manifest: written once, mapped from files, restored if the files are gone."""

import datetime as dt
import shutil
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.session import Session
from headrace.worker import saved_state
from headrace.worker.chunk_cache import ChunkCache

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM a (at TIMESTAMP, k INT, v STRING) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM b (at TIMESTAMP, k INT, w STRING) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY pairs AS SELECT a.k, a.v, b.w FROM a [RANGE 1 MINUTE] FULL JOIN b [RANGE 1 MINUTE] ON a.k = b.k
  INTO MEMORY;
CREATE QUERY counts AS SELECT k, count(*) AS n, last(v) AS v FROM a [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY k
  INTO MEMORY;
"""


def counted_save(save, writes, changed, removed):
    taken = list(changed)
    writes.append(len(taken))
    save(taken, removed)


def run(*, forgetful, cache=None, lose_cache=False):
    """Many small micro-batches; returns the results and how many values the stores wrote in each."""
    with Session(host="local", buckets=2) as session, ExitStack() as patches:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.forgetful, deployment.cache = forgetful, ChunkCache(cache)
        writes = []
        for store in deployment.stores.values():
            save = patch.object(store, "save", partial(counted_save, store.save, writes))
            patches.enter_context(save)
        session.execute(SCRIPT)
        for i in range(24):
            at = START + dt.timedelta(seconds=2 * i)
            session.push("a", [{"at": at, "k": j % 7 + i, "v": f"text {i} {j}"} for j in range(40)])
            session.push("b", [{"at": at, "k": j % 5 + i, "w": f"text {j}"} for j in range(20)])
            deployment.step()
            if lose_cache and i % 7 == 3:
                shutil.rmtree(cache)
        held = [len(store.values) for store in deployment.stores.values()]
        session.drain(30)
        canonical = lambda name: sorted(map(repr, session.results(name)))  # noqa: E731
        return (canonical("pairs"), canonical("counts")), writes, held


@pytest.fixture
def everything_large(monkeypatch):
    monkeypatch.setattr(saved_state, "INLINE_BYTES", 64)


@pytest.mark.slow
@pytest.mark.usefixtures("everything_large")
def test_results_are_the_same_whether_buckets_are_kept_mapped_or_read_back(tmp_path):
    kept, _, _ = run(forgetful=False)
    assert kept[0]
    assert kept[1]
    assert run(forgetful=True)[0] == kept
    assert run(forgetful=True, cache=tmp_path / "cache")[0] == kept
    assert run(forgetful=True, cache=tmp_path / "lost", lose_cache=True)[0] == kept


@pytest.mark.usefixtures("everything_large")
def test_a_micro_batch_writes_only_what_is_new_and_old_chunks_are_removed():
    _, writes, held = run(forgetful=False)
    assert max(writes) < max(held), "most of the state was not written again"
    assert max(held) < 200, "expired chunks are gone"
