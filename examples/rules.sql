-- Rules on events: cases that are sealed, and cases that are not sealed in time.
--   headrace run examples/rules.sql --once

CREATE STREAM cases (at TIMESTAMP, line INT, box STRING)
  TIMESTAMP BY at
  FROM FILES (path 'examples/data/rfid/cases.csv', format 'csv');

CREATE STREAM seals (at TIMESTAMP, line INT, seal STRING)
  TIMESTAMP BY at
  FROM FILES (path 'examples/data/rfid/seals.csv', format 'csv');

CREATE EVENT sealed AS cases SEQUENCE seals WITHIN 1 MINUTE WHERE cases.line = seals.line;

-- One event, two rules, each in its own mode: a seal belongs to the oldest open case of its line (CHRONICLE); a seal
-- comes more than five seconds after the newest case (RECENT).
CREATE RULE closing ON sealed CONTEXT CHRONICLE DO INSERT INTO CONSOLE;
CREATE RULE behind ON sealed CONTEXT RECENT WHEN seals.at - cases.at > INTERVAL 5 SECONDS DO INSERT INTO CONSOLE;

-- Rules raise events, which are read like streams.
CREATE EVENT open_case (line INT, box STRING);
CREATE EVENT unsealed AS NOT (seals) [cases, '20 seconds'] WHERE cases.line = seals.line CONTEXT CONTINUOUS;
CREATE RULE missing ON unsealed PRIORITY 2 DEFERRED DO RAISE EVENT open_case(line, box);
CREATE QUERY trouble AS SELECT line, box FROM open_case INTO CONSOLE;
