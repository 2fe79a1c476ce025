-- Which product is in which case? Tags are read as they pass: a case, then what is packed into it, later the seal that closes it.
--   headrace run examples/rfid_packing.sql --once

CREATE STREAM cases (at TIMESTAMP, line INT, box STRING)
  TIMESTAMP BY at
  FROM FILES (path 'examples/data/rfid/cases.csv', format 'csv');

CREATE STREAM products (at TIMESTAMP, line INT, tag STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'examples/data/rfid/products.csv', format 'csv');

CREATE STREAM seals (at TIMESTAMP, line INT, seal STRING)
  TIMESTAMP BY at
  FROM FILES (path 'examples/data/rfid/seals.csv', format 'csv');

-- A product goes into the case that came last on its line, if that was not more than ten seconds ago.
CREATE QUERY packed AS
  SELECT p.line, c.box, p.tag, p.at
  FROM cases [RANGE 10 SECONDS] AS c JOIN products AS p ON c.line = p.line FOLLOWING RECENT
INTO CONSOLE;

-- How full the cases are.
CREATE QUERY contents AS SELECT box, count(*) AS products, window_end FROM packed [RANGE 1 MINUTE] GROUP BY box INTO CONSOLE;

-- Cases queue up to be closed: a seal is for the first one on its line that has none, and closes only one.
CREATE QUERY closed AS
  SELECT c.line, c.box, s.seal, s.at - c.at AS waited
  FROM cases [RANGE 1 MINUTE] AS c JOIN seals AS s ON c.line = s.line FOLLOWING CHRONICLE
INTO CONSOLE;
