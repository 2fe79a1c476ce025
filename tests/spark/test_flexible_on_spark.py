"""Queries that are turned on and off, and alarms on an idle stream, on Spark."""

from headrace.session import Session
from headrace.testing.watching import until

SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item STRING, n INT) TIMESTAMP BY at FROM MEMORY;
CREATE EVENT high AS SELECT item FROM bids WHERE n > 100;
CREATE QUERY q AS SELECT item, sum(n) AS s FROM bids [RANGE 1 HOUR] GROUP BY item INTO MEMORY;
CREATE QUERY p AS SELECT item, sum(n) AS s FROM bids [RANGE 1 HOUR] GROUP BY item INTO MEMORY;
CREATE QUERY chased START ON high AS SELECT item, sum(n) AS s FROM bids [RANGE 1 HOUR] GROUP BY item INTO MEMORY;
CREATE STREAM calls (id INT, action STRING) FROM MEMORY;
CREATE QUERY standing AS SELECT id FROM calls [RANGE 1500 MILLISECONDS] GROUP BY id HAVING TSUPPRESS(1 SECOND)
  INTO MEMORY;
"""


def bid(session, second, n):
    session.push("bids", [{"at": f"2026-01-01 00:00:{second:02}", "item": "a", "n": n}])


def bids_read(session):
    seen = session.statistics().streams.get("bids")
    return 0 if seen is None else seen.tuples


def sums(session, query):
    return sorted(row["s"] for row in session.results(query))


def test_stints_end_and_begin_anew_while_what_they_shared_goes_on_and_alarms_fire_on_idle_streams(spark, tmp_path):
    with Session(tmp_path, buckets=3) as session:
        session.execute(SCRIPT)
        session.push("calls", [{"id": 1, "action": "new"}, {"id": 2, "action": "new"}, {"id": 2, "action": "clean"}])
        bid(session, 1, 1)
        until(lambda: bids_read(session) == 1, session=session)
        session.execute("STOP QUERY q")
        until(lambda: sums(session, "q") == [1], session=session)
        bid(session, 2, 10)
        until(lambda: bids_read(session) == 2, session=session)
        session.execute("START QUERY q")
        until(lambda: session.deployment.delivery.commands == session._running().commands, session=session)
        bid(session, 3, 500)  # turns `chased` on, with the next micro-batch
        until(lambda: [query.query for query in session._running().stopped] == [], session=session)
        until(lambda: session.deployment.delivery.commands == session._running().commands, session=session)
        bid(session, 4, 1000)
        until(lambda: [row["id"] for row in session.results("standing")] == [1], session=session)
        session.drain(timeout=200)
        assert (sums(session, "q"), sums(session, "p"), sums(session, "chased")) == ([1, 1500], [1511], [1000])
        assert [row["id"] for row in session.results("standing")] == [1]
