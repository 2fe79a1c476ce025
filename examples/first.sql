-- A first query: bids per item, every five seconds, from a generated stream.
--   headrace run examples/first.sql         (Ctrl-C stops)

CREATE STREAM bids (item INT, price DOUBLE, at TIMESTAMP)
  TIMESTAMP BY at SKEW 1 SECOND
  FROM GENERATOR (rate 200, process 'poisson', seed 1, delay 'uniform(0, 0.8)',
                  col.item 'uniform(1, 5)', col.price 'normal(100, 20)');

SELECT item, count(*) AS bids, avg(price) AS mean, max(price) AS best, window_end
FROM bids [RANGE 5 SECONDS]
GROUP BY item;
