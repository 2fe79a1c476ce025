-- From files to files: bids that are out of order by up to two seconds, joined with a table, summed per category.
--   headrace run examples/files.sql --once

CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM FILES (path 'examples/data/bids', format 'csv');

CREATE TABLE items (item INT, name STRING, category STRING) FROM FILES (path 'examples/data/items.csv', format 'csv');

CREATE QUERY named AS
  SELECT i.category, i.name, b.price FROM bids AS b JOIN items AS i ON b.item = i.item
INTO FILES (path 'out/named', format 'parquet');

CREATE QUERY turnover AS
  SELECT category, count(*) AS bids, round(sum(price), 2) AS total, window_end
  FROM named [RANGE 20 SECONDS] GROUP BY category
INTO CONSOLE;
