-- Network fault management: from text messages of network elements to one alarm for each fault.
--   headrace example nfmi               (generates the messages and runs this)

-- Text to tuples: a terminator divides the characters into messages, and cursor scripts (*.cursor) find the fields.
-- Messages that no script accepts are in <stream>.bad.
CREATE STREAM transport (at TIMESTAMP, source STRING, port STRING, alarm_type STRING, severity STRING, action STRING,
                         domain STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/transport', format 'python:headrace.applications.nfmi.formats:transport',
              terminator '\r\n\033\005');
CREATE STREAM circuits (at TIMESTAMP, source STRING, alarm_type STRING, severity STRING, action STRING, domain STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/circuits', format 'python:headrace.applications.nfmi.formats:circuits',
              terminator '\r\n\033\005');
CREATE STREAM traps (at TIMESTAMP, source STRING, router STRING, destination STRING, alarm_type STRING, severity STRING,
                     action STRING, domain STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/traps', format 'python:headrace.applications.nfmi.formats:traps');
CREATE STREAM switches (at TIMESTAMP, source STRING, module STRING, hwlvl STRING, swlvl STRING, event STRING,
                        address STRING, time STRING,
                        alarm_type STRING, action STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/switches', format 'python:headrace.applications.nfmi.formats:switches', terminator '\r\n\031');

-- Messages that no script accepts, with the failed step and its position.
CREATE QUERY unreadable AS
  SELECT reason, record, origin FROM transport.bad
  UNION ALL SELECT reason, record, origin FROM circuits.bad
  UNION ALL SELECT reason, record, origin FROM traps.bad
  UNION ALL SELECT reason, record, origin FROM switches.bad
INTO FILES (path 'out/unreadable', format 'json');

-- The topology: which elements lie above which ring.
CREATE TABLE topology (element STRING, layer STRING, ring INT) FROM FILES (path 'data/topology.csv', format 'csv');

-- Phase 1, continuous queries: alarms of all layers in one form, with their ring, and without repetitions.
CREATE VIEW alarms AS
  SELECT source, domain, alarm_type, severity, action FROM transport WHERE action <> 'Status'
  UNION ALL SELECT source, domain, alarm_type, severity, action FROM circuits
  UNION ALL SELECT source, domain, alarm_type, severity, action FROM traps;

CREATE VIEW located AS
  SELECT t.ring, a.source, a.domain, a.alarm_type, a.severity, a.action
  FROM alarms AS a JOIN topology AS t ON a.source = t.element;

CREATE VIEW complaints AS
  SELECT ring, source, domain, last(alarm_type) AS alarm_type, last(severity) AS severity, window_end AS at
  FROM located [RANGE 30 SECONDS SLIDE TUPLE]
  WHERE action = 'New'
  GROUP BY ring, source, domain
  HAVING count(*) = 1;

CREATE VIEW cuts AS
  SELECT ring, last(source) AS source, last(alarm_type) AS alarm_type, last(severity) AS severity, window_end AS at
  FROM located [RANGE 30 SECONDS SLIDE TUPLE]
  WHERE domain = 'SDH' AND action = 'New'
  GROUP BY ring
  HAVING count(*) = 1;

CREATE VIEW repairs AS
  SELECT ring, last(source) AS source, window_end AS at
  FROM located [RANGE 30 SECONDS SLIDE TUPLE]
  WHERE domain = 'SDH' AND action = 'Clean'
  GROUP BY ring
  HAVING count(*) = 1;

-- A module that reports more than ten failures within two hours is reported once, with the first failure.
CREATE QUERY failing AS
  SELECT source, module, event, address, at FROM switches [RANGE 2 HOURS]
  WHERE alarm_type = 'REPT'
  GROUP BY source, module
  HAVING RSUPPRESS(10 OLD)
INTO FILES (path 'out/failing', format 'json');

-- A trunk that is taken out by hand and restored within five minutes is maintenance, not a fault.
CREATE QUERY removed AS
  SELECT source, module, at FROM switches [RANGE 2 HOURS]
  WHERE alarm_type = 'TRUNK'
  GROUP BY source, module
  HAVING TSUPPRESS(5 MINUTES, action)
INTO FILES (path 'out/removed', format 'json');

-- A complaint about a ring whose fiber is intact has a cause of its own.
CREATE VIEW isolated AS
  SELECT c.source || ' at ' || date_trunc('second', c.at) AS alarm, c.source, c.domain, c.alarm_type, c.severity, c.at
  FROM complaints [NOW] AS c LEFT JOIN cuts [RANGE 2 MINUTES] AS f ON c.ring = f.ring
  WHERE f.ring IS NULL;

-- Phase 2, events: group related alarms.
CREATE EVENT fibre AS
  SELECT 'ring ' || ring || ' at ' || date_trunc('second', at) AS alarm, ring, source, alarm_type, severity, at
  FROM cuts;
CREATE EVENT complaint AS SELECT ring, source, domain, alarm_type, severity, at FROM complaints;
CREATE EVENT repair AS SELECT ring, at FROM repairs;

-- A complaint about a ring soon after its fiber was cut is a consequence of the cut ...
CREATE EVENT consequence AS fibre SEQUENCE complaint WITHIN 2 MINUTES
  WHERE fibre.ring = complaint.ring
  CONTEXT RECENT;

-- ... and a minute after the cut all its consequences become one event.
CREATE EVENT root_cause AS APERIODIC* (fibre, complaint, fibre AS settled PLUS '1 minute')
  WHERE fibre.ring = complaint.ring AND fibre.ring = settled.ring
  CONTEXT CUMULATIVE;

-- Not repaired after 15 minutes; repaired; and faults that end by themselves.
CREATE EVENT unfixed AS NOT (repair) [fibre, '15 minutes'] WHERE fibre.ring = repair.ring CONTEXT CONTINUOUS;
CREATE EVENT fixed AS fibre SEQUENCE repair WITHIN 4 HOURS WHERE fibre.ring = repair.ring CONTEXT CHRONICLE;
CREATE EVENT relief AS SELECT source FROM located WHERE action = 'Clean';
CREATE EVENT over AS isolated SEQUENCE relief WITHIN 4 HOURS WHERE isolated.source = relief.source CONTEXT CHRONICLE;

-- Phase 3, rules: tickets in the alarm container. Priorities make sure that an alarm is opened before it is changed.
CREATE RULE open_fibre ON fibre PRIORITY 1
  DO INSERT INTO FILES (path 'out/alarms', format 'json'),
     CALL PYTHON 'headrace.applications.nfmi.desk:opened' (alarm, 'SDH', source, alarm_type, severity, at);
CREATE RULE open_isolated ON isolated PRIORITY 1
  DO INSERT INTO FILES (path 'out/isolated', format 'json'),
     CALL PYTHON 'headrace.applications.nfmi.desk:opened' (alarm, domain, source, alarm_type, severity, at);
CREATE RULE attach ON consequence PRIORITY 2
  DO CALL PYTHON 'headrace.applications.nfmi.desk:attached' (alarm, domain, source_1, alarm_type_1, severity_1, at_1);
CREATE RULE explain ON root_cause PRIORITY 3
  DO INSERT INTO FILES (path 'out/root_causes', format 'json'),
     CALL PYTHON 'headrace.applications.nfmi.desk:explained' (alarm, complaint_count, at);
CREATE RULE escalate ON unfixed PRIORITY 4
  DO CALL PYTHON 'headrace.applications.nfmi.desk:escalated' (alarm, at);
CREATE RULE close ON fixed PRIORITY 5
  DO CALL PYTHON 'headrace.applications.nfmi.desk:closed' (alarm, at_1);
CREATE RULE close_isolated ON over PRIORITY 5
  DO CALL PYTHON 'headrace.applications.nfmi.desk:closed' (alarm, at);
