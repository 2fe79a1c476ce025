-- Which product is in which case, and is the case complete when it leaves?
--   headrace example rfid               (generates the readings and runs this)

-- The packing lines: a case arrives, then its products; later a seal closes it.
CREATE STREAM cases (at TIMESTAMP, line INT, box STRING) TIMESTAMP BY at
  FROM FILES (path 'data/cases.csv', format 'csv');
CREATE STREAM products (at TIMESTAMP, line INT, tag STRING) TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/products.csv', format 'csv');
CREATE STREAM seals (at TIMESTAMP, line INT, seal STRING) TIMESTAMP BY at
  FROM FILES (path 'data/seals.csv', format 'csv');

-- The gates: an antenna reads the items in a case as it approaches, then the label of the case itself.
CREATE STREAM gate_items (at TIMESTAMP, gate INT, tag STRING) TIMESTAMP BY at SKEW 2 SECONDS
  FROM FILES (path 'data/gate_items.csv', format 'csv');
CREATE STREAM gate_cases (at TIMESTAMP, gate INT, box STRING) TIMESTAMP BY at
  FROM FILES (path 'data/gate_cases.csv', format 'csv');

-- Case, then product: a product goes into the latest case on its line.
CREATE QUERY packed AS
  SELECT p.line, c.box, p.tag, p.at
  FROM cases [RANGE 30 SECONDS] AS c JOIN products AS p ON c.line = p.line FOLLOWING RECENT
INTO FILES (path 'out/packed', format 'json');

-- Cases wait to be closed: a seal closes exactly one case, the first open one on its line.
CREATE QUERY closed AS
  SELECT c.line, c.box, s.seal, s.at - c.at AS waited
  FROM cases [RANGE 5 MINUTES] AS c JOIN seals AS s ON c.line = s.line FOLLOWING CHRONICLE
INTO FILES (path 'out/closed', format 'json');

-- Items, then case: at the gate, all items since the last case belong to the next one. In mode CONTINUOUS each item is
-- an occurrence of its own ...
CREATE EVENT loaded AS gate_items AS item SEQUENCE gate_cases AS label WITHIN 10 SECONDS
  WHERE item.gate = label.gate
  CONTEXT CONTINUOUS;

-- ... and in mode CUMULATIVE all items of a case are one occurrence.
CREATE EVENT load AS gate_items AS item SEQUENCE gate_cases AS label WITHIN 10 SECONDS
  WHERE item.gate = label.gate
  CONTEXT CUMULATIVE;

CREATE QUERY shipped AS
  SELECT box, item_count AS items, rowtime AS at FROM load INTO FILES (path 'out/shipped', format 'json');

-- Products that were packed into a case and were not in it when it left.
CREATE QUERY missing AS
  SELECT p.box, p.tag, p.at AS packed
  FROM packed [RANGE 10 MINUTES] AS p
  LEFT JOIN (SELECT box, tag FROM loaded) [RANGE 10 MINUTES] AS l ON p.box = l.box AND p.tag = l.tag
  WHERE l.tag IS NULL
INTO FILES (path 'out/missing', format 'json');
