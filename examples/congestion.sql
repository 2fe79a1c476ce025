-- Where traffic is slow, how fast do vehicles drive? Only readings of congested segments are needed, and the join says so.
--   headrace run examples/congestion.sql
-- Sensors in the road report at once, vehicles report up to 25 seconds late. When the join knows which segments were
-- congested, it tells its other input that readings of all others are not needed: they are dropped where they are read.

CREATE STREAM sensors (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM GENERATOR (rate 400, seed 7, delay 'uniform(0, 0.5)', col.segment 'uniform(1, 40)', col.speed 'normal(60, 6)');

CREATE STREAM probes (at TIMESTAMP, segment INT, vehicle BIGINT, speed DOUBLE) TIMESTAMP BY at SKEW 10 SECONDS
  FROM GENERATOR (rate 4000, seed 11, delay 'uniform(20, 25)', col.segment 'uniform(1, 40)',
                  col.vehicle 'uniform(1, 5000)', col.speed 'normal(50, 20)');

-- Segments 3 to 5 have roadworks.
CREATE VIEW congested AS
  SELECT segment, avg(speed * CASE WHEN segment BETWEEN 3 AND 5 THEN 0.5 ELSE 1.0 END) AS speed
  FROM sensors [RANGE 5 SECONDS]
  GROUP BY segment
  HAVING avg(speed * CASE WHEN segment BETWEEN 3 AND 5 THEN 0.5 ELSE 1.0 END) < 45;

CREATE VIEW probed AS
  SELECT segment, avg(speed) AS speed, count(*) AS n
  FROM probes [RANGE 5 SECONDS]
  WHERE speed BETWEEN 1 AND 130
  GROUP BY segment;

CREATE QUERY travel AS
  SELECT c.segment, c.speed AS fixed, p.speed AS driven, p.n
  FROM congested [NOW] AS c THRIFTY JOIN probed [NOW] AS p ON c.segment = p.segment
INTO CONSOLE;
