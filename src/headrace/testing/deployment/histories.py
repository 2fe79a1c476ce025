"""Short histories that together use every durable file of a deployment."""

from __future__ import annotations

from headrace.testing.deployment.history import Drain, Execute, History, Push, Restart, Write, rows_of

STREAMS = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;
CREATE STREAM t (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;
"""
COUNTS = """CREATE QUERY counts AS
  SELECT k, count(*) AS n, sum(v) AS total, window_end FROM s [RANGE 2 SECONDS] GROUP BY k
  INTO FILES (path '{out}/counts', format 'json');"""
LARGE = (
    "CREATE QUERY large AS SELECT k, v, 'a long text, so that tasks stage these results' AS note FROM s WHERE v > 2 "
    "INTO FILES (path '{out}/large', format 'json');"
)
MOST = """CREATE QUERY most AS SELECT max(n) AS most, window_end FROM counts [RANGE 4 SECONDS]
  INTO FILES (path '{out}/most', format 'json');"""
PAIRS = """CREATE QUERY pairs AS
  SELECT s.k, s.v, t.v AS other FROM s [RANGE 3 SECONDS] JOIN t [RANGE 3 SECONDS] ON s.k = t.k
  INTO FILES (path '{out}/pairs', format 'json');"""
FIRST = rows_of((1, 1, 1), (1, 2, 2), (2, 1, 3))
SECOND = rows_of((3, 1, 1), (4, 2, 7), (5, 1, 8), (2, 2, 3), (6, 1, 8), (6, 2, 9))
THIRD = rows_of((8, 1, 4), (9, 2, 5), (12, 1, 6))

WINDOWS = History(
    "windows, results of tasks, and an exchange",
    (
        Execute(STREAMS + COUNTS),
        Push("s", FIRST),
        Execute(LARGE + MOST),
        Push("s", SECOND),
        Drain(),
    ),
)
REPLACED = History(
    "queries that are dropped and replaced",
    (
        Execute(STREAMS + COUNTS + LARGE),
        Push("s", FIRST),
        Execute(COUNTS.replace("CREATE", "CREATE OR REPLACE").replace("GROUP BY k", "WHERE k > 1 GROUP BY k")),
        Push("s", FIRST[-1:]),
        Execute("DROP QUERY IF EXISTS counts;"),
        Push("s", SECOND),
        Execute(LARGE.replace("CREATE", "CREATE OR REPLACE").replace("v > 2", "v > 4")),
        Push("s", THIRD),
        Restart(),
        Drain(),
    ),
    seed=1,
)
MARKED = """CREATE STREAM m (at TIMESTAMP, k INT, v INT, done BOOLEAN) TIMESTAMP BY at SKEW 1 MINUTE
  PUNCTUATED BY done ON (k) FROM MEMORY;
CREATE QUERY ended AS SELECT k, count(*) AS n, window_end FROM m [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k
  INTO FILES (path '{out}/ended', format 'json');
CREATE QUERY contradicting AS SELECT k, v FROM m.late INTO FILES (path '{out}/contradicting', format 'json');"""
#: Tuples, the end of key 1 before 4, and two that come too late.
MARKS = (*FIRST, *({**row, "done": True} for row in rows_of((4, 1, 0))), *FIRST[::2])
JOINED = History(
    "a join, late tuples, ends of keys, and a stop",
    (
        Execute(
            STREAMS
            + PAIRS
            + MARKED
            + "CREATE QUERY late AS SELECT k, v FROM s.late INTO FILES (path '{out}/late', format 'json');"
        ),
        Push("m", MARKS),
        Push("s", SECOND),
        Push("s", FIRST),
        Push("t", FIRST),
        Execute("STOP QUERY pairs;"),
        Push("s", (*THIRD, *FIRST)),
        Execute("START QUERY pairs;"),
        Push("t", THIRD),
        Drain(),
    ),
    seed=2,
)
FAILING = History(
    "a query that fails and is started again",
    (
        Write("names.csv", "k,name\n1,one\n"),
        Execute(
            STREAMS
            + COUNTS
            + MOST
            + """CREATE AGGREGATE fussy(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Fussy';
CREATE TABLE names (k INT, name STRING) FROM FILES (path '{tables}/names.csv') REFRESH '1 s';
CREATE QUERY bad AS SELECT s.k, n.name, fussy(v) AS f FROM s [RANGE 2 SECONDS] LEFT JOIN names AS n ON s.k = n.k
  GROUP BY s.k, n.name INTO MEMORY;"""
        ),
        Push("s", FIRST),
        Push("s", rows_of((3, 1, -1), (4, 2, 7), (6, 2, -9))),
        Execute("START QUERY bad;"),
        Push("s", THIRD),
        Drain(),
    ),
    seed=6,
)
RULES = History(
    "rules that call and raise",
    (
        Execute(
            STREAMS
            + """
CREATE EVENT both AS s SEQUENCE t WITHIN 20 SECONDS WHERE s.k = t.k;
CREATE EVENT alarm (k INT, v INT);
CREATE RULE notify ON both CONTEXT CHRONICLE
  DO INSERT INTO FILES (path '{out}/notify', format 'json'), CALL note(s.v), RAISE EVENT alarm(s.k, t.v);
CREATE QUERY alarms AS SELECT k, v FROM alarm INTO FILES (path '{out}/alarms', format 'json');"""
        ),
        Push("s", FIRST),
        Push("t", SECOND),
        Push("s", THIRD),
        Drain(),
    ),
    seed=3,
)
DROPPED_RULE = History(
    "calls that wait when all rules and queries are dropped",
    (
        Execute(STREAMS + COUNTS),
        Execute(
            "CREATE RULE ring ON t WHEN t.v > 5 DO CALL note(t.k), INSERT INTO FILES (path '{out}/ring', format 'json')"
        ),
        Push("t", SECOND),
        Execute("DROP RULE ring"),
        Execute("DROP QUERY counts"),
        Drain(),
    ),
    seed=15,
)
FEEDBACK = History(
    "feedback, settings and promises",
    (
        Execute(STREAMS + COUNTS + MOST),
        Push("s", FIRST),
        Execute("ASSUME counts WHERE k = 7 FOR 2 MINUTES; ALTER QUERY counts SET strategy = 'bfs';"),
        Push("s", (*SECOND, *rows_of((7, 7, 7)))),
        Execute("DESIRE counts WHERE k = 2;"),
        Push("s", THIRD),
        Drain(),
    ),
    seed=4,
)
REPORTS = History(
    "shedding, reported in a stream of its own",
    (
        Execute(
            STREAMS
            + LARGE.replace("AS SELECT", "WITH (error 0.5) AS SELECT")
            + "CREATE QUERY lost AS SELECT query, seen, dropped FROM headrace.shed "
            + "INTO FILES (path '{out}/lost', format 'json');"
            + "ALTER QUERY large SET shedding = 0.5;"
        ),
        Push("s", FIRST),
        Push("s", SECOND),
        Drain(),
    ),
    seed=5,
)
STARTED = History(
    "a query that others start",
    (
        Execute(
            STREAMS
            + "CREATE QUERY now START ON t AS SELECT k, v FROM s INTO FILES (path '{out}/now', format 'json');"
            + "CREATE RULE stop ON t WHEN t.v > 8 DO STOP QUERY now;"
        ),
        Push("s", FIRST),
        Push("t", FIRST),
        Push("s", SECOND),
        Push("t", SECOND),
        Push("s", THIRD),
        Drain(),
    ),
    seed=6,
)

ROLLED = History(
    "results that wait for larger files",
    (
        Execute(
            STREAMS
            + COUNTS.replace("'json'", "'json', roll_interval '1 day'")
            + LARGE.replace("'json'", "'json', roll_bytes 2000")
        ),
        Push("s", FIRST),
        Push("s", SECOND),
        Execute("DROP QUERY IF EXISTS counts;"),
        Push("s", THIRD),
        Restart(),
        Push("s", rows_of((13, 1, 6), (14, 2, 7))),
        Drain(),
    ),
    seed=7,
)

TIMED = History(
    "stints by time, and a frontier that is reset",
    (
        Execute(
            STREAMS
            + COUNTS.replace(
                "counts AS", "counts START '2026-01-01 00:00:01' STOP '2026-01-01 00:00:03' EVERY 4 SECONDS AS"
            )
            + MOST.replace("FROM counts", "FROM (SELECT count(*) AS n FROM t [RANGE 2 SECONDS])").replace(
                "most AS SELECT",
                "most START '2026-01-01 00:00:01' STOP '2026-01-01 00:00:03' EVERY 4 SECONDS AS SELECT",
            )
        ),
        Push("s", (*FIRST, *SECOND)),
        Push("t", (*FIRST, *SECOND, *THIRD)),
        Push("s", rows_of((50, 1, 1))),
        Execute("ALTER STREAM s RESET FRONTIER TO TIMESTAMP '2026-01-01 00:00:08';"),
        Push("s", (*THIRD, *rows_of((14, 2, 2), (17, 1, 5), (18, 2, 6)))),
        Restart(),
        Push("s", rows_of((21, 1, 4), (22, 1, 3))),
        Drain(),
    ),
    seed=9,
)

PRESSED = History(
    "a promise that makes the controller act",
    (
        Execute(
            STREAMS
            + COUNTS.replace("counts AS", "counts WITH (force, latency '5 ms' MUST) AS")
            + PAIRS
            + LARGE.replace("large AS", "large WITH (force, memory '1 MB') AS")
        ),
        Push("s", FIRST),
        Push("t", FIRST),
        Push("s", SECOND),
        Push("t", SECOND),
        Restart(),
        Push("s", THIRD),
        Push("t", THIRD),
        Drain(),
    ),
    seed=8,
    tick=1_000_000,
)

TRIPLES = """CREATE QUERY triples AS
  SELECT x.k, x.v AS a, y.v AS b, z.v AS c
  FROM s [RANGE 9 SECONDS] AS x JOIN t [RANGE 9 SECONDS] AS y ON x.k = y.k JOIN s [RANGE 4 SECONDS] AS z ON y.k = z.k
  INTO FILES (path '{out}/triples', format 'json');"""
MIGRATED = History(
    "a plan that changes in every way",
    (
        Execute(STREAMS + TRIPLES),
        Push("s", FIRST),
        Push("t", FIRST),
        Execute("ALTER QUERY triples MIGRATE TO '(x (y z))' USING STEPWISE WITHIN '1 us';"),
        Push("s", SECOND),
        Execute("ALTER QUERY triples MIGRATE TO '((x z) y)' USING PARALLEL TRACK;"),
        Push("t", SECOND),
        Restart(),
        Execute("ALTER QUERY triples SET plan = 'left-deep';"),
        Push("t", THIRD),
        Push("s", THIRD),
        Drain(),
    ),
    seed=10,
)

NAMED = """CREATE QUERY named AS SELECT s.k, s.v, n.name FROM s LEFT JOIN names AS n ON s.k = n.k
  INTO FILES (path '{out}/named', format 'json');
CREATE QUERY unnamed AS
  SELECT k, count(*) AS n, window_end FROM s [RANGE 2 SECONDS] WHERE k NOT IN (SELECT k FROM names) GROUP BY k
  INTO FILES (path '{out}/unnamed', format 'json');"""
CHANGES = """CREATE QUERY totals AS SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k HAVING sum(v) <> 12
  EMIT CHANGES STATE TTL '3 s' INTO FILES (path '{out}/totals', format 'json');
CREATE TABLE newest (k INT, v INT, PRIMARY KEY (k)) FROM t;
CREATE QUERY valued AS
  SELECT s.k, s.v, n.v AS value FROM s LEFT JOIN newest FOR SYSTEM_TIME AS OF s.at AS n ON s.k = n.k
  INTO FILES (path '{out}/valued', format 'json');"""
REFRESHED = History(
    "a table that is read again, one of a stream, and groups that change",
    (
        Write("names.csv", "k,name\n1,one\n"),
        Execute(
            STREAMS
            + "CREATE TABLE names (k INT, name STRING) FROM FILES (path '{tables}/names.csv') REFRESH '1 s';"
            + NAMED
            + CHANGES
        ),
        Push("s", FIRST),
        Push("t", SECOND),
        Write("names.csv", "k,name\n2,two\n"),
        Push("s", SECOND),
        Write("names.csv", "k,name\nnothing that is a number,two\n"),
        Push("s", rows_of((7, 1, 4), (7, 2, 5))),
        Restart(),
        Write("names.csv", "k,name\n1,uno\n2,dos\n"),
        Push("s", THIRD),
        Drain(),
    ),
    seed=11,
)

UNPAIRED = """CREATE QUERY unpaired AS SELECT s.k, s.v, t.v AS other FROM s LEFT JOIN t ON s.k = t.k AND t.v > 3
  EMIT CHANGES STATE TTL '9 s' INTO FILES (path '{out}/unpaired', format 'json'), MEMORY (key 'k, v');"""
STANDINGS = """CREATE QUERY standings AS SELECT k, count(*) AS n, max(v) AS top FROM s GROUP BY k HAVING max(v) < 9
  EMIT CHANGES STATE TTL '1 day' INTO FILES (path '{out}/standings', format 'json'), MEMORY (key 'k');"""
TABLE_OF_CHANGES = """CREATE TABLE tops (k INT, top INT, change STRING, PRIMARY KEY (k)) FROM standings;
CREATE QUERY topped AS
  SELECT t.k, t.v, x.top, x.change FROM t LEFT JOIN tops FOR SYSTEM_TIME AS OF t.at AS x ON t.k = x.k
  INTO FILES (path '{out}/topped', format 'json');
CREATE TABLE sunk (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}/sunk', 'format' = 'json');
INSERT INTO sunk SELECT k, max(v) FROM s [RANGE 3 SECONDS] GROUP BY k;
CREATE QUERY newest_of AS SELECT k, v FROM s INTO FILES (path '{out}/newest_of', format 'json'), MEMORY (key 'k');"""
CHANGED = History(
    "changelogs and tables by key that are stopped, replaced, and created again",
    (
        Execute(STREAMS + STANDINGS + UNPAIRED + TABLE_OF_CHANGES),
        Push("s", FIRST),
        Push("t", SECOND),
        Execute("STOP QUERY unpaired; STOP QUERY into_sunk; DROP QUERY IF EXISTS topped;"),
        Push("s", SECOND),
        Execute(
            STANDINGS.replace("CREATE", "CREATE OR REPLACE").replace("< 9", "<> 7")
            + TABLE_OF_CHANGES.replace("CREATE TABLE tops", "CREATE TABLE IF NOT EXISTS tops")
        ),
        Execute("START QUERY unpaired; START QUERY into_sunk;"),
        Push("t", THIRD),
        Restart(),
        Push("s", THIRD),
        Drain(),
    ),
    seed=16,
)

#: All parcels of two buckets.
PARCELS = ", ".join(map(str, range(128)))
HOPS = COUNTS.replace("counts", "hops").replace("[RANGE 2 SECONDS]", "[RANGE 6 SECONDS SLIDE 2 SECONDS]")
MOVED = History(
    "parcels that change bucket or are in several, buckets that come and go, and different trees",
    (
        Execute(STREAMS + HOPS + PAIRS + TRIPLES),
        Push("s", FIRST),
        Push("t", FIRST),
        Execute(f"MOVE PARCELS {PARCELS} OF pairs TO BUCKET 1; MOVE PARCELS {PARCELS} OF hops TO BUCKET 1;"),
        Push("s", SECOND),
        Execute(
            f"MOVE PARCELS {PARCELS} OF triples TO ALL BUCKETS; ALTER SYSTEM SET buckets = 3; "
            "ALTER QUERY triples MIGRATE TO '(x (y z))' USING STEPWISE WITHIN '1 us' IN BUCKET 1;"
        ),
        Push("t", SECOND),
        Execute(f"MOVE PARCELS {PARCELS} OF hops TO BUCKET 0; STOP QUERY pairs;"),
        Restart(),
        Execute("ALTER SYSTEM SET buckets = 1; DROP QUERY IF EXISTS pairs;"),
        Push("t", THIRD),
        Push("s", THIRD),
        Drain(),
    ),
    seed=11,
)

BY_HAND = History(
    "events that are raised by hand, and a stream whose rate changes",
    (
        Execute(
            STREAMS
            + COUNTS
            + """CREATE EVENT alarm (k INT, v INT);
CREATE QUERY alarms AS SELECT DISTINCT k, v FROM alarm [RANGE 1 HOUR] INTO FILES (path '{out}/alarms', format 'json');
CREATE STREAM g (n BIGINT) FROM GENERATOR (rate 2, process 'constant', rows 16, col.n 'sequence');
CREATE QUERY made AS SELECT n FROM g INTO FILES (path '{out}/made', format 'json');"""
        ),
        Push("s", FIRST),
        Execute("RAISE EVENT alarm(1, 2) AT '2026-01-01 00:00:01';"),
        Execute("ALTER STREAM g SET rate = 5;"),
        Execute("RAISE EVENT alarm(2, 3) AT '2026-01-01 00:00:02'; ALTER STREAM g PAUSE;"),
        Push("s", SECOND),
        Restart(),
        Execute("RAISE EVENT alarm(3, 4) AT '2026-01-01 00:00:03';"),
        Execute("ALTER STREAM g RESUME;"),
        Push("s", THIRD),
        Drain(),
    ),
    seed=12,
)

ASKED = History(
    "row patterns, a query on demand, and actions that a person confirms",
    (
        Execute(
            STREAMS
            + COUNTS.replace("counts AS", "counts ON DEMAND KEEP 5 AS")
            + """CREATE QUERY falls AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY at
  MEASURES A.v AS first, COUNT(B.v) AS n, C.v AS last ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B* C) WITHIN INTERVAL '9' SECOND DEFINE B AS B.v > PREV(B.v), C AS C.v <= A.v + 5)
  INTO FILES (path '{out}/falls', format 'json');
CREATE RULE ask ON t CONFIRM WITHIN '1 hour' WHEN t.v > 6 DO CALL note(t.v);"""
        ),
        Push("s", FIRST),
        Push("t", SECOND),
        Execute("DEMAND counts;"),
        Execute("CONFIRM '09db';"),
        Push("s", SECOND),
        Restart(),
        Execute("REJECT '64fe';"),
        Execute("DEMAND counts;"),
        Push("s", THIRD),
        Drain(),
    ),
    seed=13,
)

#: A window over an outer join, an event, and what lies in one bucket.
WAITING = """CREATE QUERY alone AS SELECT k, count(*) AS n, count(w) AS m
  FROM (SELECT s.k, t.v AS w FROM s [RANGE 3 SECONDS] LEFT JOIN t [RANGE 1 SECOND] ON s.k = t.k) [RANGE 2 SECONDS]
  GROUP BY k INTO FILES (path '{out}/alone', format 'json');
CREATE EVENT met AS NOT (t) [s AS x, s AS y] WITHIN 9 SECONDS WHERE x.k = y.k AND x.k = t.k;
CREATE QUERY meetings AS SELECT * FROM met INTO FILES (path '{out}/meetings', format 'json');
CREATE QUERY first AS SELECT k, v FROM t LIMIT 4 INTO FILES (path '{out}/first', format 'json');"""
WAITED = History(
    "parcels of what waits, and whole operators, that change bucket",
    (
        Execute(STREAMS + WAITING),
        Push("s", FIRST),
        Push("t", FIRST),
        Execute(
            f"MOVE PARCELS {PARCELS} OF alone TO BUCKET 1; MOVE PARCELS {PARCELS} OF meetings TO BUCKET 1; "
            "MOVE PARCELS 0 OF first TO BUCKET 1;"
        ),
        Push("s", SECOND),
        Execute("ALTER SYSTEM SET buckets = 3; MOVE PARCELS 1, 2, 3 OF alone TO BUCKET 0;"),
        Restart(),
        Push("t", THIRD),
        Push("s", THIRD),
        Drain(),
    ),
    seed=14,
)

HISTORIES = (
    WINDOWS,
    REPLACED,
    JOINED,
    FAILING,
    RULES,
    DROPPED_RULE,
    FEEDBACK,
    REPORTS,
    STARTED,
    ROLLED,
    TIMED,
    PRESSED,
    MIGRATED,
    REFRESHED,
    CHANGED,
    MOVED,
    WAITED,
    BY_HAND,
    ASKED,
)
