"""Aggregates over weights: the same as without if nothing is shed, right in the mean if something is."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.hosts.local import LocalDeployment
from headrace.session.session import Session
from headrace.testing.clock import VirtualClock

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SECONDS, PER_SECOND = 60, 40
SELECTS = {
    "all functions": """SELECT k, count(*) AS n, count(v) AS c, sum(v) AS s, sum(k) AS t, avg(v) AS a, avg(k) AS b,
        min(v) AS lo, stddev(v) AS d,
        count(DISTINCT v) AS u, count_if(v > 3) AS i, sum(v) FILTER (WHERE k = 1) AS f, shed_error() AS e
          FROM t [RANGE 2 SECONDS] GROUP BY k""",
    "a sliding window": "SELECT k, count(*) AS n, avg(v) AS a FROM t [RANGE 1 SECOND SLIDE TUPLE] GROUP BY k",
    "a landmark": "SELECT count(*) AS n, sum(v) AS s FROM t [LANDMARK FROM '2024-01-01 00:00:00' SLIDE 10 SECONDS]",
    "a cumulative window": "SELECT k, count(*) AS n, sum(v) AS s FROM t [RANGE 10 SECONDS STEP 2 SECONDS] GROUP BY k",
    "a join": "SELECT count(*) AS n, sum(p) AS s FROM (SELECT x.v AS p FROM t [RANGE 1 SECOND] AS x, t [NOW] AS y "
    "WHERE x.k = y.k) [RANGE 5 SECONDS]",
    "a union": """SELECT k, count(*) AS n FROM (SELECT k FROM t WHERE v > 2 UNION ALL
        SELECT k FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k)) [RANGE 2 SECONDS] GROUP BY k""",
    "a having": "SELECT k, sum(v) AS s FROM t [RANGE 2 SECONDS] WHERE v > 1 GROUP BY k HAVING count(*) > 3",
    "an aggregate of an aggregate": """SELECT max(n) AS m, count(*) AS c
        FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k) [RANGE 4 SECONDS]""",
    "distinct": "SELECT count(*) AS n FROM (SELECT DISTINCT k, v FROM t [RANGE 1 SECOND]) [RANGE 5 SECONDS]",
    "rows": "SELECT count(*) AS n, sum(v) AS s FROM t [ROWS 50]",
    "an outer join": "SELECT count(*) AS n FROM (SELECT x.v FROM t [RANGE 1 SECOND] AS x "
    "LEFT JOIN t [NOW] AS y ON x.k = y.k) [RANGE 5 SECONDS]",
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "run", host="local", buckets=2) as opened:
        assert isinstance(opened.deployment, LocalDeployment)
        opened.deployment.clock = VirtualClock()
        opened.execute("CREATE STREAM t (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at SKEW 0 SECONDS FROM MEMORY")
        yield opened


def feed(session: Session) -> None:
    """Every second is alike: 4 keys, values 0 to 9 and some that are missing."""
    step = datetime.timedelta(seconds=1 / PER_SECOND)
    for second in range(0, SECONDS, 10):
        numbers = range(second * PER_SECOND, (second + 10) * PER_SECOND)
        session.push(
            "t", [{"at": START + i * step, "k": i % 4, "v": None if i % 8 == 7 else float(i % 10)} for i in numbers]
        )
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.step()


def shown(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        str([round(value, 6) if isinstance(value, float) else value for value in row.values()]) for row in rows
    )


@pytest.mark.slow
def test_without_shedding_weights_change_no_result(session: Session) -> None:
    for number, select in enumerate(SELECTS.values()):
        session.execute(
            f"CREATE QUERY w{number} WITH (error 0.5) AS {select} INTO MEMORY; "
            f"CREATE QUERY p{number} AS {select} INTO MEMORY"
        )
    feed(session)
    session.drain()
    for number, name in enumerate(SELECTS):
        assert session.results(f"w{number}"), name
        assert shown(session.results(f"w{number}")) == shown(session.results(f"p{number}")), name


@pytest.mark.parametrize("name", ["all functions", "a join", "a having", "a union"])
def test_queries_that_scale_weigh_their_scans_and_others_do_not(session: Session, name: str) -> None:
    session.execute(f"CREATE QUERY q WITH (error 0.5) AS {SELECTS[name]} INTO MEMORY")
    session.execute(f"CREATE QUERY s WITH (error 0.5, shed LARGEST v) AS {SELECTS[name]} INTO MEMORY")
    assert "__weight" in session.execute("EXPLAIN q")[0].text
    assert "__weight" not in session.execute("EXPLAIN s")[0].text


@pytest.mark.parametrize("name", ["distinct", "rows", "an outer join"])
def test_where_scaling_would_be_biased_nothing_is_weighed(session: Session, name: str) -> None:
    session.execute(f"CREATE QUERY q WITH (error 0.5) AS {SELECTS[name]} INTO MEMORY")
    assert "__weight" not in session.execute("EXPLAIN q")[0].text


def test_counts_sums_and_means_over_shed_input_are_right_in_the_mean(session: Session) -> None:
    """Each of 60 windows is a draw of its own: their mean lies within 5 of its standard errors of the truth."""
    select = "SELECT count(*) AS n, sum(v) AS s, avg(v) AS a, shed_error() AS e FROM t [RANGE 1 SECOND]"
    session.execute(
        f"CREATE QUERY q WITH (error 0.5) AS {select} INTO MEMORY; CREATE QUERY whole AS {select} INTO MEMORY"
    )
    session.execute("ALTER QUERY q SET shedding = 0.4")
    feed(session)
    session.drain()
    found, truth = session.results("q"), session.results("whole")
    assert len(found) == len(truth) == SECONDS
    for column in ("n", "s", "a"):
        errors = [row[column] - right[column] for row, right in zip(found, truth, strict=True)]
        assert abs(np.mean(errors)) <= 5 * np.std(errors) / math.sqrt(SECONDS)
        assert np.std(errors) > 0
    # what shed_error() says is about what is seen: 40 tuples, of which 0.6 stay
    spread = np.std([row["n"] / PER_SECOND for row in found])
    assert np.mean([row["e"] for row in found]) == pytest.approx(math.sqrt(0.4 / 0.6 / PER_SECOND), rel=0.1)
    assert spread == pytest.approx(math.sqrt(0.4 / 0.6 / PER_SECOND), rel=0.4)


def test_a_join_of_shed_inputs_counts_each_pair_for_all_that_it_stands_for(session: Session) -> None:
    select = SELECTS["a join"]
    session.execute(
        f"CREATE QUERY q WITH (error 0.75) AS {select} INTO MEMORY; CREATE QUERY whole AS {select} INTO MEMORY"
    )
    session.execute("ALTER QUERY q SET shedding = 0.5")
    feed(session)
    session.drain()
    ratio = [row["n"] / right["n"] for row, right in zip(session.results("q"), session.results("whole"), strict=True)]
    assert abs(np.mean(ratio) - 1) <= 5 * np.std(ratio) / math.sqrt(len(ratio))
    assert np.std(ratio) < 0.5
