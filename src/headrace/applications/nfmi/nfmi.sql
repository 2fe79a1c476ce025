-- Network fault management: from the text that elements of a network send to one alarm for each fault.
--   headrace example nfmi               (generates the messages and runs this)

-- Text to tuples: a terminator divides the characters into messages, cursor scripts (*.cursor) find the fields; what no script takes is in <stream>.bad.
CREATE STREAM transport (at TIMESTAMP, source STRING, port STRING, alarm_type STRING, severity STRING, action STRING, domain STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/transport', format 'python:headrace.applications.nfmi.formats:transport', terminator '\r\n\033\005');
CREATE STREAM circuits (at TIMESTAMP, source STRING, alarm_type STRING, severity STRING, action STRING, domain STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/circuits', format 'python:headrace.applications.nfmi.formats:circuits', terminator '\r\n\033\005');
CREATE STREAM traps (at TIMESTAMP, source STRING, router STRING, destination STRING, alarm_type STRING, severity STRING, action STRING, domain STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/traps', format 'python:headrace.applications.nfmi.formats:traps');
CREATE STREAM switches (at TIMESTAMP, source STRING, module STRING, hwlvl STRING, swlvl STRING, event STRING, address STRING, time STRING,
                        alarm_type STRING, action STRING)
  TIMESTAMP BY at SKEW 3 SECONDS
  FROM FILES (path 'data/switches', format 'python:headrace.applications.nfmi.formats:switches', terminator '\r\n\031');

-- What lies above which ring is known.
CREATE TABLE topology (element STRING, layer STRING, ring INT) FROM FILES (path 'data/topology.csv', format 'csv');

-- Phase 1, continuous queries: alarms of all layers in one form, with their ring; each complaint once, however often it is repeated.
CREATE VIEW alarms AS
  SELECT source, domain, alarm_type, severity, action FROM transport WHERE action <> 'Status'
  UNION ALL SELECT source, domain, alarm_type, severity, action FROM circuits
  UNION ALL SELECT source, domain, alarm_type, severity, action FROM traps;

CREATE VIEW located AS
  SELECT t.ring, a.source, a.domain, a.alarm_type, a.severity, a.action FROM alarms AS a JOIN topology AS t ON a.source = t.element;

CREATE VIEW complaints AS
  SELECT ring, source, domain, last(alarm_type) AS alarm_type, last(severity) AS severity
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
  SELECT ring, last(source) AS source
  FROM located [RANGE 30 SECONDS SLIDE TUPLE]
  WHERE domain = 'SDH' AND action = 'Clean'
  GROUP BY ring
  HAVING count(*) = 1;

-- Phase 2, events: what belongs together.
CREATE EVENT fibre AS SELECT 'ring ' || ring || ' at ' || at AS alarm, ring, source, alarm_type, severity FROM cuts;
CREATE EVENT complaint AS SELECT ring, source, domain, alarm_type, severity FROM complaints;
CREATE EVENT repair AS SELECT ring, source FROM repairs;

-- Whatever complains about a ring soon after its fibre is a consequence of it ...
CREATE EVENT consequence AS fibre SEQUENCE complaint WITHIN 2 MINUTES
  WHERE fibre.ring = complaint.ring
  CONTEXT RECENT;

-- ... and a minute after the cut all of them are one event.
CREATE EVENT root_cause AS APERIODIC* (fibre, complaint, fibre AS settled PLUS '1 minute')
  WHERE fibre.ring = complaint.ring AND fibre.ring = settled.ring
  CONTEXT CUMULATIVE;

-- Not repaired after a quarter of an hour; repaired.
CREATE EVENT unfixed AS NOT (repair) [fibre, '15 minutes'] WHERE fibre.ring = repair.ring CONTEXT CONTINUOUS;
CREATE EVENT fixed AS fibre SEQUENCE repair WITHIN 4 HOURS WHERE fibre.ring = repair.ring CONTEXT CHRONICLE;
