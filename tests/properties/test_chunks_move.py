"""Parcels whose rows are spread over many chunks leave, come back and leave again: what a query gives is the same.

Chunks are small, stored one by one and mapped from files, so that a parcel has a few rows of each.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.hosts.local import LocalDeployment
from headrace.operators.state import run_tree, sorted_side
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.worker import saved_state
from headrace.worker.chunk_cache import ChunkCache

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;\n" for name in "abc"
)
_PAIR = "a [RANGE 6 SECONDS] AS x JOIN b [RANGE 6 SECONDS] AS y ON x.k = y.k"
CASES = {
    "join": "SELECT k, count(*) AS n, sum(v) AS s, window_end FROM "
    f"(SELECT x.k, x.v + y.v AS v FROM {_PAIR}) [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "join for ever": "SELECT x.k, x.v, y.v AS w FROM a [UNBOUNDED] AS x JOIN c [NOW] AS y ON x.k = y.k",
    "outer join": "SELECT x.k, x.v, y.v AS w FROM a [RANGE 5 SECONDS] AS x LEFT JOIN c [RANGE 3 SECONDS] AS y "
    "ON x.k = y.k AND x.v < y.v",
    "changes": "SELECT x.k, x.v, y.v AS w FROM a [RANGE 5 SECONDS] AS x LEFT JOIN c [RANGE 5 SECONDS] AS y "
    "ON x.k = y.k AND x.v < y.v EMIT CHANGES",
    "three streams": f"SELECT x.k, x.v AS a, y.v AS b, z.v AS c FROM {_PAIR} "
    "JOIN c [RANGE 5 SECONDS] AS z ON y.k = z.k WHERE x.v < 8",
    "windows": "SELECT k, count(*) AS n, max(v) AS m, window_end FROM a [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "totals": "SELECT k, count(*) AS n, sum(v) AS s FROM a [UNBOUNDED SLIDE 2 SECONDS] GROUP BY k",
    "sessions": "SELECT k, count(*) AS n, sum(v) AS s, window_end FROM a [SESSION 3 SECONDS] GROUP BY k",
}
SEEDS = range(1, 1 + int(os.environ.get("HEADRACE_EXAMPLES", "1")))
SPANS = 12
#: Of the two buckets in the beginning.
PARCELS = range(128)
PLANS = ("((x y) z)", "(x (y z))", "(x y z)")
USING = ("MOVING STATE", "STEPWISE WITHIN '1 us'", "STEPWISE", "PARALLEL TRACK")


def pushed(chance: random.Random) -> list[dict[str, list[dict[str, Any]]]]:
    """Draw the tuples of each span of two seconds."""
    spans = []
    for span in range(SPANS):
        counts = {"a": 25, "b": 15, "c": chance.choice((0, 6))}
        spans.append(
            {
                name: [
                    {
                        "at": START + dt.timedelta(seconds=2 * span + 2 * chance.random()),
                        "k": chance.randint(0, 30),
                        "v": chance.randint(0, 9),
                    }
                    for _ in range(count)
                ]
                for name, count in counts.items()
            }
        )
    return spans


def statements(span: int, session: Session, case: str, chance: random.Random) -> list[str]:
    """Return what changes before a span: parcels leave, come back and leave again; 2, then 5, then 3 buckets."""
    assert isinstance(session.deployment, LocalDeployment)
    buckets = session.deployment.intake.deployments.newest().in_use(session.deployment.buckets)
    third, odd = ", ".join(map(str, PARCELS[::3])), ", ".join(map(str, PARCELS[1::2]))
    some = ", ".join(map(str, sorted(chance.sample(PARCELS, chance.choice((10, 40, 100))))))
    texts = {
        2: [f"MOVE PARCELS {third} OF live TO BUCKET 0"],
        4: [f"MOVE PARCELS {third} OF live TO BUCKET 1"],
        5: [f"MOVE PARCELS {odd} OF live TO BUCKET 0"],
        6: ["ALTER SYSTEM SET buckets = 5"],
        9: ["ALTER SYSTEM SET buckets = 3"],
    }.get(span, [f"MOVE PARCELS {some} OF live TO BUCKET {chance.choice(buckets)}"] if span > 6 else [])
    if case == "three streams" and span == 3:
        texts.append(f"ALTER QUERY live MIGRATE TO '{PLANS[1]}' USING MOVING STATE")
    elif case == "three streams" and span in (5, 7, 8, 10):
        texts.append(f"ALTER QUERY live MIGRATE TO '{chance.choice(PLANS)}' USING {chance.choice(USING)}")
    return texts


def results(
    case: str, spans: Sequence[dict[str, list[dict[str, Any]]]], chance: random.Random | None, folder: Path
) -> tuple[Counter[str], int]:
    """Run a query, with moves if there is a chance for them; return its results, and the most chunks with gaps."""
    gaps = 0
    with Session(host="local", buckets=2 if chance else 1) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = clock = VirtualClock(int(START.timestamp()) * 1_000_000)
        if chance is not None:
            deployment.forgetful, deployment.cache = chance.random() < 0.5, ChunkCache(folder)
        session.execute(f"{STREAMS}CREATE QUERY live AS {CASES[case]} INTO MEMORY")
        for span, tuples in enumerate(spans):
            for text in statements(span, session, case, chance) if chance else ():
                session.execute(text)
            clock.advance(2_000_000)
            for name, rows in tuples.items():
                if rows:
                    session.push(name, rows)
            for _ in range(1 if chance is None else chance.choice((1, 2))):
                deployment.step()
            chunks = [
                chunk for kept in deployment.kept.values() for state in kept.engine.state().values() for chunk in state
            ]
            gaps = max(gaps, sum(chunk.endswith("gone") for chunk in chunks))
        session.drain(timeout=60)
        return Counter(map(str, session.results("live"))), gaps


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_parcels_with_rows_in_many_chunks_leave_and_come_back(
    case: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = pushed(random.Random(seed))
    expected, _ = results(case, spans, None, tmp_path)
    for module in (sorted_side, run_tree):
        monkeypatch.setattr(module, "LARGEST", 8)
    monkeypatch.setattr(saved_state, "INLINE_BYTES", 64)
    found, gaps = results(case, spans, random.Random(seed), tmp_path)
    assert found == expected
    assert sum(expected.values()) > 30
    assert gaps > 1, "rows have left chunks that stay"
