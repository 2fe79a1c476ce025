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
CREATE STREAM ticks (at TIMESTAMP, v INT) TIMESTAMP BY at AHEAD UNLIMITED FROM MEMORY;
CREATE QUERY often START '2026-01-01 00:00:01' STOP '2026-01-01 00:00:02' EVERY 5 SECONDS
  AS SELECT v FROM ticks INTO MEMORY;
CREATE EVENT up (v INT);
CREATE RULE rise ON ticks DO RAISE EVENT up(v);
CREATE QUERY ups AS SELECT window_start, count(*) AS n FROM up [RANGE 10 SECONDS] INTO MEMORY;
"""


def bid(session, second, n):
    session.push("bids", [{"at": f"2026-01-01 00:00:{second:02}", "item": "a", "n": n}])


def bids_read(session, stream="bids"):
    seen = session.statistics().streams.get(stream)
    return 0 if seen is None else seen.tuples


def tick(session, *seconds):
    session.push("ticks", [{"at": f"2026-01-01 00:00:{second:02}", "v": second} for second in seconds])


def sums(session, query):
    return sorted(row["s"] for row in session.results(query))


def test_stints_end_and_begin_anew_while_what_they_shared_goes_on_and_alarms_fire_on_idle_streams(spark, tmp_path):
    with Session(tmp_path, buckets=3) as session:
        session.execute(SCRIPT)
        session.push("calls", [{"id": 1, "action": "new"}, {"id": 2, "action": "new"}, {"id": 2, "action": "clean"}])
        tick(session, *range(30))
        session.push("ticks", [{"at": "2100-01-01 00:00:00", "v": -1}])
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
        until(lambda: bids_read(session, "ticks") == 31, session=session)
        session.execute("ALTER STREAM ticks RESET FRONTIER TO TIMESTAMP '2026-01-01 00:00:30'")
        tick(session, *range(30, 42))
        session.drain(timeout=200)
        assert sorted(row["v"] for row in session.results("often")) == [1, 6, 11, 16, 21, 26, 31, 36, 41]
        windows = sorted((str(row["window_start"]), row["n"]) for row in session.results("ups"))
        assert windows == [
            *((f"2026-01-01 00:00:{second:02}", 10 if second < 40 else 2) for second in range(0, 50, 10)),
            ("2100-01-01 00:00:00", 1),
        ]
        assert (sums(session, "q"), sums(session, "p"), sums(session, "chased")) == ([1, 1500], [1511], [1000])
        assert [row["id"] for row in session.results("standing")] == [1]
