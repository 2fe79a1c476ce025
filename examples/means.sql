-- Aggregates written in Python (means.py), next to the built-in one.
--   headrace run examples/means.sql --once

CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM FILES (path 'examples/data/bids', format 'csv');

CREATE AGGREGATE geo_mean(DOUBLE) RETURNS DOUBLE FROM PYTHON 'means:Geometric';

SELECT item, avg(price) AS arithmetic, geo_mean(price) AS geometric, window_end
FROM bids [RANGE 30 SECONDS] GROUP BY item;
