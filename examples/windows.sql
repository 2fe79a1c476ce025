-- The same stream through different windows.
--   headrace run examples/windows.sql --once

CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM FILES (path 'examples/data/bids', format 'csv');

-- every 30 seconds, the last minute
CREATE QUERY sliding AS
  SELECT count(*) AS n, avg(price) AS mean, window_start, window_end FROM bids [RANGE 1 MINUTE SLIDE 30 SECONDS];

-- every 50 tuples
CREATE QUERY counted AS SELECT min(price) AS least, max(price) AS most, window_end FROM bids [ROWS 50];

-- per item, bids less than five seconds apart
CREATE QUERY sessions AS
  SELECT item, count(*) AS n, window_start, window_end
  FROM bids [SESSION 5 SECONDS] GROUP BY item HAVING count(*) >= 5;

-- runs of cheap bids
CREATE QUERY cheap AS
  SELECT count(*) AS n, sum(price) AS total, window_start, window_end
  FROM bids [WHILE price < 25] HAVING count(*) >= 5;

-- a high and a low bid for the same item within two seconds of each other
CREATE QUERY spread AS
  SELECT high.item, high.price AS high, low.price AS low
  FROM bids [RANGE 2 SECONDS] AS high JOIN bids [RANGE 2 SECONDS] AS low ON high.item = low.item
  WHERE high.price > 40 AND low.price < 15;
