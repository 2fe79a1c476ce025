"""Streams whose records end keys: whatever happens meanwhile, results and late tuples are those of the oracle."""

from __future__ import annotations

import datetime as dt
import os
import random
from contextlib import suppress
from typing import Any

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_stream
from headrace.commands.parcel_groups import parcel_groups
from headrace.errors import NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateStream, Select
from headrace.model.schema import TS
from headrace.model.time import SECOND
from headrace.plan.binding.binder import bind
from headrace.session import Session
from headrace.testing.oracle.oracle import Row, answer, as_multiset
from headrace.testing.oracle.rows import split_late
from headrace.testing.watching import local_host

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  results have no zone
SKEW = 6
STREAMS = f"""
CREATE STREAM a (at TIMESTAMP, k INT, v INT, done BOOLEAN) TIMESTAMP BY at SKEW {SKEW} SECONDS
  PUNCTUATED BY done ON (k) FROM MEMORY;
CREATE STREAM b (at TIMESTAMP, k INT, v INT, until TIMESTAMP) TIMESTAMP BY at SKEW {SKEW} SECONDS
  PUNCTUATED BY until ON (k) FROM MEMORY;
CREATE STREAM c (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW {SKEW} SECONDS FROM MEMORY
"""
QUERIES = (
    "SELECT k, count(*) AS n, sum(v) AS s, window_end FROM a [RANGE 4 SECONDS] GROUP BY k",
    "SELECT k, v % 2 AS odd, count(*) AS n, max(v) AS m FROM b [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k, v % 2",
    "SELECT k, count(*) AS n, window_end FROM a [SESSION 2 SECONDS] WHERE v > 1 GROUP BY k",
    "SELECT a.k, a.v, b.v AS w FROM a [RANGE 3 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k",
    "SELECT a.k, count(*) AS n FROM a [RANGE 3 SECONDS] JOIN c [RANGE 3 SECONDS] ON a.k = c.k GROUP BY a.k",
    "SELECT x.k, x.v, y.v AS w, z.v AS u FROM a [RANGE 3 SECONDS] AS x JOIN b [RANGE 3 SECONDS] AS y ON x.k = y.k "
    "JOIN c [RANGE 3 SECONDS] AS z ON y.k = z.k",
    "SELECT k, count(*) AS n FROM (SELECT k, v FROM a UNION ALL SELECT k, v FROM b) [RANGE 4 SECONDS] GROUP BY k",
    "SELECT count(*) AS n, window_end FROM a [RANGE 4 SECONDS]",
    "SELECT v, k FROM a WHERE k = 1",
    "SELECT v, max(n) AS m FROM (SELECT k, v, count(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY k, v) [RANGE 4 SECONDS] "
    "GROUP BY v",
    "SELECT k, v FROM a.late",
    "SELECT b.k, b.v, a.v AS w FROM b [RANGE 3 SECONDS] LEFT JOIN a [RANGE 3 SECONDS] ON b.k = a.k",
)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "1"))


def history(chance: random.Random, stream: str) -> list[dict[str, Any]]:
    """Return records in the order of arrival, none of them late by the skew: tuples and ends of keys."""
    times = sorted((second + chance.randint(0, SKEW), second) for second in (chance.randint(0, 20) for _ in range(30)))
    rows: list[dict[str, Any]] = []
    for _, second in times:
        row: dict[str, Any] = {"at": second, "k": chance.choice([1, 2, 3, None]), "v": chance.randint(0, 4)}
        if stream == "a":
            row["done"] = chance.choice([True, False, None, False])
        if stream == "b":
            row["until"] = chance.choice([None, None, None, second + chance.randint(-3, 9), 10**9])
        rows.append(row)
    return rows


def pushed(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: EPOCH + dt.timedelta(seconds=row[name]) for name in ("at", "until") if row.get(name) is not None}
    return {**row, **times}


def told(row: dict[str, Any]) -> Row:
    times = {name: row[name] * SECOND for name in ("at", "until") if row.get(name) is not None}
    return Row(row["at"] * SECOND, {**row, **times})


def expected(text: str, histories: dict[str, list[dict[str, Any]]]) -> list[Row]:
    catalog = Catalog()
    for statement in parse(STREAMS):
        assert isinstance(statement, CreateStream) and statement.columns is not None  # noqa: PT018
        catalog.add(define_stream(statement, statement.columns))
    (select,) = parse(text)
    assert isinstance(select, Select)
    rows = {name: split_late([told(row) for row in records], SKEW * SECOND) for name, records in histories.items()}
    late = {f"{name}.late": late for name, (_, late) in rows.items()}
    return answer(bind(select.select, text, catalog), {name: kept for name, (kept, _) in rows.items()} | late)


def disturb(session: Session, chance: random.Random) -> None:
    """Move parcels, change the number of buckets, or limit the work: none of it is in results."""
    deployment = local_host(session)
    match chance.randint(0, 5):
        case 0:
            session.execute(f"ALTER SYSTEM SET buckets = {chance.randint(1, 4)}")
        case 1 | 2:
            running, query = deployment.intake.deployments.newest(), f"q{chance.randrange(len(QUERIES))}"
            groups = [group for group in parcel_groups(running, deployment.buckets) if query in group.queries]
            count = min((group.allotment.parcels for group in groups if group.is_keyed), default=1)
            parcels = ", ".join(map(str, sorted(chance.sample(range(count), max(1, count // 3)))))
            bucket = chance.choice(running.in_use(deployment.buckets))
            where = chance.choice(["ALL BUCKETS", f"BUCKET {bucket}"])
            with suppress(NotSupported):
                session.execute(f"MOVE PARCELS {parcels} OF {query} TO {where}")
        case 3:
            session.execute(f"ALTER SYSTEM SET budget = '{chance.choice(['1 ms', 'off'])}'")
        case _:
            return


def run(histories: dict[str, list[dict[str, Any]]], chance: random.Random) -> list[list[dict[str, Any]]]:
    with Session(host="local", buckets=chance.randint(1, 3), page=chance.choice([1, 3, 1000])) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.forgetful = chance.random() < 0.5
        created = [f"CREATE QUERY q{number} AS {text} INTO MEMORY" for number, text in enumerate(QUERIES)]
        session.execute(";".join([STREAMS, *created]))
        waiting = {name: list(records) for name, records in histories.items()}
        while any(waiting.values()):
            name = chance.choice([name for name, records in waiting.items() if records])
            count = chance.randint(1, 12)
            session.push(name, [pushed(row) for row in waiting[name][:count]])
            waiting[name] = waiting[name][count:]
            if chance.random() < 0.7:
                session.deployment.step()
            disturb(session, chance)
        session.drain(60)
        return [session.results(f"q{number}") for number in range(len(QUERIES))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2 * EXAMPLES))
def test_sessions_agree_with_the_oracle(seed: int) -> None:
    chance = random.Random(seed)
    histories = {name: history(chance, name) for name in "abc"}
    for text, found in zip(QUERIES, run(histories, chance), strict=True):
        kept = [row.values for row in expected(text, histories)]
        assert counted(found) == counted(kept), text


def counted(rows: list[dict[str, Any]]) -> dict[Any, int]:
    def plain(value: Any) -> Any:
        return (value - EPOCH) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value

    return dict(as_multiset(Row(0, {name: plain(value) for name, value in row.items() if name != TS}) for row in rows))
