"""What lies in one bucket goes to another as a whole, and outer joins take their time along."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from headrace.commands.parcel_groups import parcel_groups
from headrace.hosts.local import LocalDeployment
from headrace.session import Session

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAMS = """CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM t (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;"""
PADDED = "SELECT s.k, s.v, t.v AS w FROM s [RANGE 4 SECONDS] LEFT JOIN t [RANGE 2 SECONDS] ON s.v < t.v AND s.k <> t.k"
UNLIMITED = "SELECT s.k, s.v, t.v AS w FROM s [UNBOUNDED] LEFT JOIN t [RANGE 2 SECONDS] ON s.k = t.k"
#: By name: options, the query, and its parcels; 0 for what is before an exchange.
QUERIES = {
    "limit": ("", "SELECT k, v FROM s LIMIT 20", 1),
    "full": ("", "SELECT k, v FROM s LIMIT 3", 1),
    "paced": ("", "SELECT k, v FROM s UNION ALL SELECT k, v FROM t WITH PACE ON rowtime 3 SECONDS", 1),
    "merged": ("WITH (ordered merge)", "SELECT k, v FROM s UNION ALL SELECT k, v FROM t", 1),
    "joined in order": (
        "WITH (ordered merge)",
        "SELECT s.k, t.v FROM s [RANGE 4 SECONDS] JOIN t [RANGE 4 SECONDS] ON s.k = t.k",
        1,
    ),
    "padded": ("", PADDED, 1),
    "window over padded": ("", f"SELECT count(*) AS n, count(w) AS m FROM ({PADDED}) [RANGE 2 SECONDS]", 1),
    "exchange behind padded": ("", f"SELECT k, count(*) AS n FROM ({PADDED}) [RANGE 2 SECONDS] GROUP BY k", 0),
    "rows": (
        "",
        "SELECT s.v, t.v AS w FROM s [ROWS 3] FULL JOIN t [PARTITION BY k ROWS 1] ON s.k = t.k",
        1,
    ),
    "unlimited": ("", UNLIMITED, 128),
    "exchange behind unlimited": ("", f"SELECT v, count(*) AS n FROM ({UNLIMITED}) [RANGE 2 SECONDS] GROUP BY v", 128),
}


def results(name: str, *, moving: bool) -> tuple[list[dict[str, Any]], int]:
    """Return the results of a query while one stream is silent at times, and how many of its moves took state along."""
    options, text, parcels = QUERIES[name]
    files = 0
    with Session(host="local", buckets=2) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.execute(STREAMS + f"CREATE QUERY q {options} AS {text} INTO MEMORY;")
        for number, second in enumerate((1, 2, 3, 5, 6, 8, 9, 12, 13, 15, 20)):
            rows = [{"at": BEGIN + dt.timedelta(seconds=second), "k": k, "v": second % 4 + k} for k in range(6)]
            session.push("s", rows[: 2 + number % 4])
            if number % 3 == 1:
                session.push("t", rows[number % 2 :: 2])
            if moving and parcels:
                numbers = ", ".join(map(str, range(parcels)))
                session.execute(f"MOVE PARCELS {numbers} OF q TO BUCKET {(1, 0, 0, 1, 1)[number % 5]}")
            elif moving:
                running = session.deployment.intake.deployments.newest()
                (group,) = (group for group in parcel_groups(running, [0, 1]) if not group.is_keyed)
                session.deployment.send(group.moving({0: (1, 0, 0, 1, 1)[number % 5]}))
            session.deployment.step()
            files += len(session.deployment.offset.moved)
        session.drain(60)
        found = session.results("q")
    return (found if options else sorted(found, key=str)), files


@pytest.mark.parametrize("name", QUERIES)
def test_a_move_as_a_whole_changes_no_result(name: str) -> None:
    expected, none = results(name, moving=False)
    found, files = results(name, moving=True)
    assert found == expected
    assert len(expected) >= 3
    assert none == 0
    assert files > 1
