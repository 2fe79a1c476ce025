"""Linear Road: reports of cars on expressways, the queries that find accidents and tolls, and DuckDB's answers.

After Arasu and others, "Linear Road: A Stream Data Management Benchmark", VLDB 2004. Each car reports every 30 seconds
where it is. A car that enters a segment is told its toll. There is one if cars were slower than 40 mph there in the
last five minutes, if there were more than 50 in the last minute, and if no accident lies at most four segments ahead.
Two cars that stand at the same place within a minute are an accident, a complex event; a car stands if it has reported
the same place four times in a row. Rules tell cars their tolls, and warn those that enter a segment of an accident or
one of the four before it. Left out are the queries about accounts and travel times, which ask a history of ten weeks.
The speed of a segment is the mean of all its reports, not of the means of cars and minutes.
"""

from __future__ import annotations

import numpy as np
import polars as pl

#: 2026-01-01, in microseconds, and a second.
BEGIN, SECOND = 1_767_225_600_000_000, 1_000_000
#: Seconds between two reports of a car; feet of a segment, which is a mile; segments of an expressway.
EVERY, SEGMENT, SEGMENTS = 30, 5280, 100
#: Traffic is slow in these segments (mph there and elsewhere).
_SLOW, _SLOW_MPH, _FAST_MPH = (40, 52), 22, 62
#: One car of so many is in an accident, for so many reports.
_ACCIDENTS, _STOPPED = 1500, 8
COLUMNS = "at TIMESTAMP, car INT, speed INT, xway INT, lane INT, dir INT, seg INT, pos INT"

#: Statements after that which creates the stream `reports`; `tolls` and `alerts` are folders.
STATEMENTS = """
CREATE VIEW moves AS
  SELECT car, speed, xway, lane, dir, seg, pos, at, lag(seg) OVER (PARTITION BY car ORDER BY at) AS before,
    lag(pos) OVER (PARTITION BY car ORDER BY at) AS p1, lag(pos, 2) OVER (PARTITION BY car ORDER BY at) AS p2,
    lag(pos, 3) OVER (PARTITION BY car ORDER BY at) AS p3
  FROM reports;
CREATE EVENT standing AS
  SELECT car, xway, dir, seg, pos, lane FROM moves WHERE pos = p1 AND pos = p2 AND pos = p3;
CREATE EVENT accident AS SELECT b.xway AS xway, b.dir AS dir, b.seg AS seg
  FROM standing AS a SEQUENCE standing AS b WITHIN 1 MINUTE
  WHERE a.xway = b.xway AND a.dir = b.dir AND a.seg = b.seg AND a.pos = b.pos AND a.lane = b.lane AND a.car <> b.car
  CONTEXT UNRESTRICTED;
CREATE VIEW blocked AS
  SELECT xway, dir, seg + (CASE WHEN dir = 0 THEN -1 ELSE 1 END) * ahead AS seg
  FROM (SELECT xway, dir, seg, count(*) AS n FROM accident [RANGE 1 MINUTE] GROUP BY xway, dir, seg)
  CROSS JOIN UNNEST(array(0, 1, 2, 3, 4)) AS u(ahead);
CREATE VIEW latest AS
  SELECT xway, dir, seg, count(DISTINCT car) AS cars, window_end AS minute FROM reports [RANGE 1 MINUTE]
  GROUP BY xway, dir, seg;
CREATE VIEW speeds AS
  SELECT xway, dir, seg, avg(speed) AS lav FROM reports [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY xway, dir, seg;
CREATE VIEW states AS
  SELECT m.xway, m.dir, m.seg, m.cars, m.minute, l.lav, b.seg IS NOT NULL AS is_blocked
  FROM latest [NOW] AS m JOIN speeds [NOW] AS l ON m.xway = l.xway AND m.dir = l.dir AND m.seg = l.seg
  LEFT JOIN blocked [NOW] AS b ON m.xway = b.xway AND m.dir = b.dir AND m.seg = b.seg;
CREATE TABLE segments (xway INT, dir INT, seg INT, cars BIGINT, minute TIMESTAMP, lav DOUBLE, is_blocked BOOLEAN,
  PRIMARY KEY (xway, dir, seg)) FROM states;
CREATE EVENT entered AS
  SELECT c.car, c.at, c.seg, s.lav, s.is_blocked, CASE WHEN s.lav < 40 AND s.cars > 50 AND NOT s.is_blocked
    THEN 2 * (s.cars - 50) * (s.cars - 50) ELSE 0 END AS toll
  FROM moves AS c JOIN segments FOR SYSTEM_TIME AS OF c.at AS s
    ON c.xway = s.xway AND c.dir = s.dir AND c.seg = s.seg AND s.minute = date_trunc('minute', c.at)
  WHERE c.seg <> c.before;
CREATE RULE charge ON entered DO INSERT INTO FILES (path '{tolls}');
CREATE RULE warn ON entered WHEN entered.is_blocked DO INSERT INTO FILES (path '{alerts}');
"""

#: All cars that enter a segment, by DuckDB, over a table `reports` with all reports.
_ENTERED = """
WITH moves AS (
  SELECT *, time_bucket(INTERVAL 1 MINUTE, "at") AS m, lag(seg) OVER w AS before, lag(pos) OVER w AS p1,
    lag(pos, 2) OVER w AS p2, lag(pos, 3) OVER w AS p3
  FROM reports WINDOW w AS (PARTITION BY car ORDER BY "at")),
standing AS (FROM moves WHERE pos = p1 AND pos = p2 AND pos = p3),
accidents AS (
  SELECT DISTINCT b.xway, b.dir, b.seg, b.m FROM standing AS a JOIN standing AS b
  ON (a.xway, a.dir, a.seg, a.pos, a.lane) = (b.xway, b.dir, b.seg, b.pos, b.lane) AND a.car <> b.car
    AND b."at" > a."at" AND b."at" <= a."at" + INTERVAL 1 MINUTE),
blocked AS (
  SELECT DISTINCT xway, dir, seg + (CASE WHEN dir = 0 THEN -1 ELSE 1 END) * ahead AS seg, m
  FROM accidents CROSS JOIN range(5) AS u(ahead)),
latest AS (SELECT xway, dir, seg, m, count(DISTINCT car) AS cars FROM moves GROUP BY ALL),
speeds AS (
  SELECT xway, dir, seg, m + INTERVAL 1 MINUTE * ahead AS m, avg(speed) AS lav
  FROM moves CROSS JOIN range(5) AS u(ahead) GROUP BY ALL)
SELECT c.car, c."at", c.seg, s.lav, b.seg IS NOT NULL AS is_blocked,
  CASE WHEN s.lav < 40 AND l.cars > 50 AND b.seg IS NULL THEN 2 * (l.cars - 50) * (l.cars - 50) ELSE 0 END AS toll
FROM moves AS c
JOIN latest AS l ON (c.xway, c.dir, c.seg, c.m - INTERVAL 1 MINUTE) = (l.xway, l.dir, l.seg, l.m)
JOIN speeds AS s ON (l.xway, l.dir, l.seg, l.m) = (s.xway, s.dir, s.seg, s.m)
LEFT JOIN blocked AS b ON (l.xway, l.dir, l.seg, l.m) = (b.xway, b.dir, b.seg, b.m)
WHERE c.seg <> c.before
"""
#: DuckDB's answers: what each rule has to tell.
TOLLS, ALERTS = f"FROM ({_ENTERED})", f"FROM ({_ENTERED}) WHERE is_blocked"


def reports(expressways: int, cars: int, seconds: int, *, seed: int, begin: int = BEGIN) -> pl.DataFrame:
    """Return the reports of so many cars of each expressway and direction, in the order of time."""
    chance = np.random.default_rng(seed)
    count = expressways * 2 * cars
    car = np.arange(count)
    xway, direction = car // (2 * cars), car // cars % 2
    phase = chance.integers(0, EVERY * 1000 - 1, count)  # milliseconds
    place = chance.random(count) * SEGMENTS * SEGMENT
    lane = chance.integers(1, 4, count)
    leader, when = _accidents(count, place, lane, seconds, chance)
    crashing = when >= 0
    parts = []
    for step in range(-(-seconds // EVERY)):
        stands = crashing & (when <= step) & (step < when + _STOPPED)
        segment = (place // SEGMENT).astype(np.int64)
        is_slow = (segment >= _SLOW[0]) & (segment < _SLOW[1])
        speed = np.where(is_slow, _SLOW_MPH, _FAST_MPH) + chance.integers(-8, 9, count)
        speed = np.where(stands, 0, speed[leader])
        at = step * EVERY * 1000 + phase
        parts.append(
            pl.DataFrame(
                {
                    "at": begin + at * 1000 + 500,
                    "car": car,
                    "speed": speed,
                    "xway": xway,
                    "lane": lane,
                    "dir": direction,
                    "seg": segment,
                    "pos": place.astype(np.int64),
                }
            ).filter(pl.col("at") < begin + seconds * SECOND)
        )
        forward = np.where(direction == 0, 1, -1)
        place = (place + forward * speed * SEGMENT * EVERY / 3600) % (SEGMENTS * SEGMENT)
    rows = pl.concat(parts).sort("at", "car")
    narrow = [pl.col(name).cast(pl.Int32) for name in ("car", "speed", "xway", "lane", "dir", "seg", "pos")]
    return rows.with_columns(pl.col("at").cast(pl.Datetime("us")), *narrow)


def _accidents(
    count: int, place: np.ndarray, lane: np.ndarray, seconds: int, chance: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Choose pairs of neighbors that drive together and stand from some report on.

    Return whose speed each car has, and the report from which it stands; -1 if it never does.
    """
    leader, when = np.arange(count), np.full(count, -1, dtype=np.int64)
    for first in chance.choice(count // 2, max(1, count // _ACCIDENTS // 2), replace=False) * 2:
        pair = slice(first, first + 2)
        place[pair], lane[pair], leader[pair] = place[first], lane[first], first
        when[pair] = chance.integers(0, max(1, seconds // EVERY - 4))
    return leader, when
