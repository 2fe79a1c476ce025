-- More input than the machine can process: cars near a road, counted each second, within a promised latency.
--   headrace run examples/overload.sql --stats         (raise the rate until the machine is overloaded; Ctrl-C stops)

CREATE STREAM probes (at TIMESTAMP, zone INT, x DOUBLE, y DOUBLE)
  TIMESTAMP BY at SKEW 500 MILLISECONDS
  FROM GENERATOR (rate 60000, seed 1, col.zone 'uniform(1, 2)', col.x 'uniform(0, 1)', col.y 'uniform(0, 1)');

CREATE TABLE points (area INT, px DOUBLE, py DOUBLE)
  FROM FILES (path 'examples/data/points.csv', format 'csv');

CREATE QUERY near_roads WITH (force, latency '2 s' MUST, error 0.5) AS
  SELECT zone, count(*) AS near, shed_error() AS error, window_end
  FROM probes [RANGE 1 SECOND] JOIN points ON zone = area
  WHERE pow(x - px, 2) + pow(y - py, 2) < 0.0025
  GROUP BY zone;

-- Which share was dropped, every five seconds.
CREATE QUERY dropped WITH (force) AS
  SELECT query, sum(dropped) AS dropped, sum(seen) AS seen FROM headrace.shed [RANGE 5 SECONDS] GROUP BY query;
