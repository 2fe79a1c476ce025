"""Buckets that run different join trees, and exchange parcels: no result is lost, repeated or wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st
from tests.properties.live import until

from headrace.catalog.definitions import Stream
from headrace.commands.parcel_groups import parcel_groups
from headrace.errors import NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.model.time import SECOND
from headrace.plan.binding.binder import bind
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of
from headrace.testing.streams import page

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "4"))
KEPT = "headrace.testing.migrations:is_kept"
STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;\n" for name in "abc"
)
#: With a certain seed, a bucket goes away while it changes its tree.
GONE = (
    "SELECT k, count(*) AS n, sum(a + b) AS s FROM (SELECT x.k, x.v AS a, y.v AS b, z.v AS c "
    "FROM a [RANGE 2 SECONDS] AS x JOIN b [RANGE 2 SECONDS] AS y ON x.k = y.k "
    "JOIN c [RANGE 2 SECONDS] AS z ON y.k = z.k) [RANGE 2 SECONDS] GROUP BY k"
)
FUNCTION = f"CREATE FUNCTION kept(BIGINT) RETURNS BOOLEAN FROM PYTHON '{KEPT}';\n"
JOIN = "a [RANGE {}] AS x JOIN b [RANGE {}] AS y ON x.k = y.k JOIN c [RANGE {}] AS z ON y.k = z.k"
PLANS = ("((x y) z)", "(x (y z))", "((x z) y)", "(x y z)")
USING = ("MOVING STATE", "STEPWISE WITHIN '1 us'", "STEPWISE", "PARALLEL TRACK")
MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER QUERY live SET shedding = 0",
    "ALTER SYSTEM SET buckets = 2",
    "ALTER SYSTEM SET buckets = 5",
)


@st.composite
def joins(draw: st.DrawFn) -> str:
    """Draw a join of three streams by one key, perhaps with a condition that can be tested late, or a count behind."""
    windows = [draw(st.sampled_from(["2 SECONDS", "3 SECONDS", "5 SECONDS"])) for _ in range(3)]
    where = draw(st.sampled_from(["", " WHERE kept(x.v)"]))
    text = f"SELECT x.k, x.v AS a, y.v AS b, z.v AS c FROM {JOIN.format(*windows)}{where}"
    if draw(st.booleans()):
        return text
    return f"SELECT k, count(*) AS n, sum(a + b) AS s FROM ({text}) [RANGE 2 SECONDS] GROUP BY k"


def histories(chance: random.Random) -> dict[str, list[Row]]:
    """Draw tuples of a few keys, of which one is heavy; one stream is often silent."""
    made: dict[str, list[Row]] = {}
    for name in "abc":
        count = chance.choice((2, 10, 16)) if name == "c" else chance.randint(8, 16)
        times = sorted(chance.randrange(8 * SECOND) for _ in range(count))
        made[name] = [
            Row(ts, {"at": ts, "k": 1 if chance.random() < 0.4 else chance.randint(2, 5), "v": chance.randint(0, 9)})
            for ts in times
        ]
    return made


def statements(session: Session, text: str, chance: random.Random) -> list[str]:
    """Return what changes before the next tuples: trees of some buckets, moves and splits of parcels, settings."""
    assert isinstance(session.deployment, LocalDeployment)
    running, first = session.deployment.intake.deployments.newest(), session.deployment.buckets
    buckets = running.in_use(first)
    texts = []
    for _ in range(chance.choice((0, 1, 2))):
        plan = chance.choice(PLANS) + (chance.choice(("", " late x")) if "kept" in text else "")
        some = chance.sample(buckets, chance.randint(1, max(1, len(buckets) - 1)))
        where = "" if chance.random() < 0.15 else f" IN BUCKETS {', '.join(map(str, some))}"
        texts.append(f"ALTER QUERY live MIGRATE TO '{plan}' USING {chance.choice(USING)}{where}")
    if chance.random() < 0.8:
        groups = [group for group in parcel_groups(running, first) if "live" in group.queries and group.is_keyed]
        count = min(group.allotment.parcels for group in groups)
        chosen = ", ".join(map(str, sorted(chance.sample(range(count), chance.choice((40, count))))))
        where = chance.choice(["ALL BUCKETS", *(f"BUCKET {bucket}" for bucket in buckets)])
        texts.append(f"MOVE PARCELS {chosen} OF live TO {where}")
    return texts + ([chance.choice(MORE)] if chance.random() < 0.3 else [])


def run(text: str, tuples: dict[str, list[Row]], chance: random.Random, folder: Path) -> tuple[list[Row], int]:
    """Push tuples in micro-batches between which trees and parcels change, with a restart; count local changes."""
    found: list[Row] = []
    clock, is_forgetful, local = VirtualClock(0), chance.random() < 0.5, 0
    arrivals = sorted((max(row.ts for row in rows[: place + 1]), name, place)
                      for name, rows in tuples.items() for place in range(len(rows)))  # fmt: skip
    steps = [arrivals[start : start + 4] for start in range(0, len(arrivals), 4)]
    restart = chance.randrange(1, len(steps))

    def take(batch: int, pages: Sequence[Page]) -> None:
        found.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

    for number, part in enumerate((steps[:restart], steps[restart:])):
        with Session(folder, host="local", buckets=3) as session:
            deployment = session.deployment
            assert isinstance(deployment, LocalDeployment)
            deployment.clock, deployment.forgetful = clock, is_forgetful
            deployment.delivery.subscribers.setdefault("live", []).append(take)
            if number == 0:
                session.execute(STREAMS + FUNCTION + f"CREATE QUERY live AS {text} INTO MEMORY")
            else:
                session.start()
            for arriving in part:
                for statement in statements(session, text, chance):
                    note(statement)
                    with suppress(NotSupported):
                        session.execute(statement)
                local += len(deployment.intake.deployments.newest().local_trees)
                for newest, name, place in arriving:
                    clock.advance(max(0, newest - clock.now()))
                    stream = session.catalog.find(name)
                    assert isinstance(stream, Stream)
                    session.push(name, page(stream.schema, [tuples[name][place]]).visible().to_dicts())
                for _ in range(chance.choice((1, 1, 2, 4))):
                    deployment.step()
            if number == 1:
                session.drain(timeout=30)
                assert all(entry.ended is not None for entry in deployment.control.migrations.all())
    return found, local


@pytest.mark.slow
def test_buckets_with_different_trees_agree_with_the_oracle(tmp_path_factory: pytest.TempPathFactory) -> None:
    local = results = 0

    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    @example(GONE, 605)
    @given(joins(), st.integers(0, 10**6))
    def check(text: str, seed: int) -> None:
        nonlocal local, results
        note(text)
        chance = random.Random(seed)
        tuples = histories(chance)
        with Session(host="local") as session:
            session.execute(STREAMS + FUNCTION)
            (statement,) = parse(text)
            assert isinstance(statement, Select)
            expected = as_multiset(answer(bind(statement.select, statement.text, session.catalog), tuples, {}))
        rows, changes = run(text, tuples, chance, tmp_path_factory.mktemp("local"))
        local, results = local + changes, results + len(rows)
        assert as_multiset(rows) == expected

    until(check, lambda: local > 0 and results > 0)
