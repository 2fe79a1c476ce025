"""LIMIT in a session: who counts, what a restart remembers, and what is spared once the first tuples are there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import pytest

from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.testing.watching import local_host

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STREAMS = """
CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM asks (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;
"""


def push(session: Session, seconds: Iterable[int], *streams: str) -> None:
    """Push a tuple a second, its item being the second, and process all that can be processed."""
    rows = [{"at": START + dt.timedelta(seconds=second), "item": second} for second in seconds]
    for stream in streams or ("bids",):
        session.push(stream, rows)
    while local_host(session).step():
        pass


def items(session: Session, query: str) -> list[int]:
    return [row["item"] for row in session.results(query)]


def tuples_in(session: Session, kind: str) -> int:
    return sum(seen.tuples_in for name, seen in session.statistics().vertices.items() if name.startswith(kind))


def test_a_query_that_starts_later_has_first_tuples_of_its_own() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(STREAMS + "CREATE QUERY early AS SELECT item FROM bids LIMIT 3 INTO MEMORY")
        push(session, range(10))
        session.execute("CREATE QUERY later AS SELECT item FROM bids LIMIT 3 INTO MEMORY")
        push(session, range(10, 20))
        assert items(session, "early") == [0, 1, 2]
        assert items(session, "later") == [10, 11, 12]


def test_readers_of_a_query_share_its_count_but_readers_of_a_view_count_for_themselves() -> None:
    with Session(host="local", buckets=2) as session:
        session.execute(
            STREAMS
            + "CREATE QUERY few AS SELECT item FROM bids LIMIT 3 INTO MEMORY;"
            + "CREATE VIEW some AS SELECT item FROM bids LIMIT 3;"
            + "CREATE QUERY early AS SELECT item FROM some INTO MEMORY"
        )
        push(session, range(10))
        session.execute("CREATE QUERY of_query AS SELECT item FROM few INTO MEMORY")
        session.execute("CREATE QUERY of_view AS SELECT item FROM some INTO MEMORY")
        push(session, range(10, 20))
        session.drain()
        assert items(session, "early") == [0, 1, 2]
        assert items(session, "of_query") == [], "few has delivered all that it delivers"
        assert items(session, "of_view") == [10, 11, 12]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_query_that_is_created_again_counts_again(buckets: int, at_once: bool) -> None:
    query = """CREATE QUERY counts AS SELECT item, count(*) AS n FROM (SELECT item FROM bids LIMIT 3) [RANGE 10 SECONDS]
               AS x GROUP BY item INTO MEMORY"""
    with Session(host="local", buckets=buckets) as session:
        session.execute(STREAMS + query)
        push(session, range(15))
        push(session, range(15, 30))
        assert sorted(items(session, "counts")) == [0, 1, 2]
        session.execute("DROP QUERY counts")
        if not at_once:
            local_host(session).step()
        session.execute(query)
        push(session, range(30, 45))
        push(session, range(45, 60))
        assert sorted(items(session, "counts"))[-3:] == [30, 31, 32]


def test_buckets_that_restart_continue_the_count() -> None:
    with Session(host="local", buckets=2) as session:
        local_host(session).forgetful = True
        session.execute(STREAMS + "CREATE QUERY few AS SELECT item FROM bids LIMIT 5 INTO MEMORY")
        for start in (0, 3, 6, 9):
            push(session, range(start, start + 3))
        session.drain()
        assert items(session, "few") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("buckets", [1, 3])
def test_once_the_limit_is_reached_joins_before_it_stop_working_unless_others_need_them(buckets: int) -> None:
    pairs = "FROM bids [RANGE 10 SECONDS] AS b JOIN asks [RANGE 10 SECONDS] AS a ON b.item = a.item"
    with Session(host="local", buckets=buckets) as session:
        local_host(session).clock = clock = VirtualClock(0)
        session.execute(STREAMS + f"CREATE QUERY few AS SELECT b.item {pairs} LIMIT 3 INTO MEMORY")
        for start in range(0, 50, 10):
            clock.advance(2 * SECOND)
            push(session, range(start, start + 10), "bids", "asks")
        assert items(session, "few") == [0, 1, 2]
        joined = tuples_in(session, "join")
        assert joined < 100, "of 100 tuples those of the last rounds were spared"
        session.execute(f"CREATE QUERY every AS SELECT b.item, a.at {pairs} INTO MEMORY")
        push(session, range(50, 60), "bids", "asks")
        session.drain()
        assert sorted(items(session, "every")) == list(range(50, 60))


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_full_limit_holds_up_nothing_beside_it(buckets: int) -> None:
    first = "SELECT item FROM bids LIMIT 3"
    with Session(host="local", buckets=buckets) as session:
        local_host(session).clock = clock = VirtualClock(0)
        session.execute(
            STREAMS
            + f"""CREATE QUERY counts AS SELECT item % 2 AS item, count(*) AS n, window_end
                  FROM ({first} UNION ALL SELECT item FROM asks) [RANGE 10 SECONDS] AS x GROUP BY item % 2
                  INTO MEMORY"""
        )
        for start in range(0, 60, 5):
            clock.advance(2 * SECOND)
            push(session, range(start, start + 5), "bids", "asks")
        counted = sorted((row["window_end"], row["item"], row["n"]) for row in session.results("counts"))
        assert [(item, n) for _, item, n in counted[:4]] == [(0, 5 + 2), (1, 5 + 1), (0, 5), (1, 5)]
        assert len(counted) >= 2 * 4, "windows end while the streams go on"


def test_statistics_name_the_streams_of_users_only() -> None:
    """The best of each bucket go to one bucket by an exchange, which is a stream of the next micro-batch."""
    with Session(host="local", buckets=2) as session:
        session.execute(
            "CREATE STREAM sales (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY;"
            "CREATE QUERY top AS SELECT item, count(*) AS n FROM sales [RANGE 1 MINUTE] GROUP BY item "
            "ORDER BY n DESC, item LIMIT 2 INTO MEMORY"
        )
        session.push("sales", [{"at": "2026-01-01 12:00:01", "item": item} for item in (1, 2, 2, 3, 3, 3)])
        session.drain()
        assert items(session, "top") == [3, 2]
        assert any("exchange" in name for name in session.deployment.delivery.statistics.streams)
        assert list(session.statistics().streams) == ["sales"]
