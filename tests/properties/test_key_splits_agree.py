"""Heavy keys whose parcels are split and gathered at any moment: no result is lost, repeated or wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.properties.live import until

from headrace.catalog.definitions import Stream
from headrace.commands.key_splits import changed_parcels
from headrace.commands.parcel_groups import parcel_groups
from headrace.commands.running import Running
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
STREAMS = "".join(
    f"CREATE STREAM {name} (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;\n" for name in "abc"
)
PAIR = "a [RANGE 3 SECONDS] JOIN b [RANGE 2 SECONDS] ON a.k = b.k"
SHAPES = {
    "two": f"SELECT a.k, a.v, b.v AS w FROM {PAIR}",
    "itself": "SELECT x.k, x.v, y.v AS w FROM a [RANGE 2 SECONDS] AS x JOIN a [RANGE 1 SECOND] AS y ON x.k = y.k",
    "three": f"SELECT a.k, a.v, b.v AS w, c.v AS u FROM {PAIR} JOIN c [RANGE 2 SECONDS] ON b.k = c.k",
    "count": f"SELECT k, count(*) AS n, sum(v + w) AS s FROM (SELECT a.k, a.v, b.v AS w FROM {PAIR}) "
    "[RANGE 2 SECONDS] GROUP BY k",
    "padded": f"SELECT m.k, m.v, c.v AS u FROM (SELECT a.k, a.v FROM {PAIR}) [RANGE 2 SECONDS] AS m "
    "LEFT JOIN c [RANGE 1 SECOND] ON m.k = c.k",
}
MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER QUERY live SET shedding = 0",
    "ALTER SYSTEM SET buckets = 2",
    "ALTER SYSTEM SET buckets = 4",
)


def histories(chance: random.Random) -> dict[str, list[Row]]:
    """Draw tuples of which most have one key; one stream is often silent."""
    made: dict[str, list[Row]] = {}
    for name in "abc":
        count = chance.choice((0, 6, 14)) if name == "c" else chance.randint(6, 16)
        times = sorted(chance.randrange(8 * SECOND) for _ in range(count))
        for place in range(1, count):  # some disorder within the skew
            if chance.random() < 0.3 and times[place] - times[place - 1] < SECOND:
                times[place - 1], times[place] = times[place], times[place - 1]
        made[name] = [
            Row(ts, {"at": ts, "k": 1 if chance.random() < 0.7 else chance.randint(2, 4), "v": chance.randint(0, 9)})
            for ts in times
        ]
    return made


def statements(session: Session, chance: random.Random) -> list[str]:
    """Return what changes before the next tuples: splits, their end, moves, and other settings."""
    assert isinstance(session.deployment, LocalDeployment)
    running, first = session.deployment.intake.deployments.newest(), session.deployment.buckets
    count = next(group.allotment.parcels for group in parcel_groups(running, first) if group.joins)
    chosen = chance.choice(
        [", ".join(map(str, range(count))), ", ".join(map(str, sorted(chance.sample(range(count), 40))))]
    )
    where = chance.choice(["ALL BUCKETS", "ALL BUCKETS", f"BUCKET {chance.choice(running.in_use(first))}"])
    texts = [f"MOVE PARCELS {chosen} OF live TO {where}"] if chance.random() < 0.7 else []
    return texts + ([chance.choice(MORE)] if chance.random() < 0.3 else [])


def run(text: str, tuples: dict[str, list[Row]], chance: random.Random, folder: Path) -> tuple[list[Row], int]:
    """Push tuples in some micro-batches between which parcels are split and gathered, with restarts."""
    found: list[Row] = []

    def take(batch: int, pages: Sequence[Page]) -> None:
        found.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

    def begin(session: Session) -> LocalDeployment:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.clock = clock
        session.deployment.forgetful = is_forgetful
        return session.deployment

    clock, changes, is_forgetful = VirtualClock(0), 0, chance.random() < 0.5
    arrivals = sorted((max(row.ts for row in rows[: place + 1]), name, place)
                      for name, rows in tuples.items() for place in range(len(rows)))  # fmt: skip
    steps = [arrivals[start : start + 5] for start in range(0, len(arrivals), 5)]
    restart = chance.randrange(1, len(steps))
    with Session(folder, host="local", buckets=3) as session:
        deployment = begin(session)
        session.execute(STREAMS + f"CREATE QUERY live AS {text} INTO MEMORY")
        deployment.delivery.subscribers.setdefault("live", []).append(take)
        before = Running()
        for number, step in enumerate(steps):
            if number == restart:
                break
            before, changes = _step(session, step, tuples, clock, chance, before, changes)
    with Session(folder, host="local", buckets=3) as session:
        deployment = begin(session)
        deployment.delivery.subscribers.setdefault("live", []).append(take)
        session.start()
        for step in steps[restart:]:
            before, changes = _step(session, step, tuples, clock, chance, before, changes)
        session.drain(timeout=30)
    return found, changes


def _step(
    session: Session,
    arrivals: Sequence[tuple[int, str, int]],
    tuples: dict[str, list[Row]],
    clock: VirtualClock,
    chance: random.Random,
    before: Running,
    changes: int,
) -> tuple[Running, int]:
    assert isinstance(session.deployment, LocalDeployment)
    for statement in statements(session, chance):
        with suppress(NotSupported):  # a join whose readers cannot move, unless it is split
            session.execute(statement)
    after = session.deployment.intake.deployments.newest()
    changes += sum(map(len, changed_parcels(before.allotments, after.allotments).values()))
    for newest, name, place in arrivals:
        clock.advance(max(0, newest - clock.now()))
        stream = session.catalog.find(name)
        assert isinstance(stream, Stream)
        session.push(name, page(stream.schema, [tuples[name][place]]).visible().to_dicts())
    for _ in range(chance.choice((1, 2, 4))):
        session.deployment.step()
    return after, changes


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_splits_that_come_and_go_change_no_result(shape: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    total = found_any = 0

    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        phases=[Phase.generate],
    )
    @given(st.integers(0, 10**6))
    def check(seed: int) -> None:
        nonlocal total, found_any
        chance = random.Random(seed)
        tuples = histories(chance)
        with Session(host="local") as session:
            session.execute(STREAMS)
            (statement,) = parse(SHAPES[shape])
            assert isinstance(statement, Select)
            expected = as_multiset(answer(bind(statement.select, statement.text, session.catalog), tuples, {}))
        results, changes = run(SHAPES[shape], tuples, chance, tmp_path_factory.mktemp("splits"))
        found = as_multiset(results)
        total, found_any = total + changes, found_any + len(results)
        assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"

    until(check, lambda: total > 0 and found_any > 0)
