-- Accidents on a motorway: a car that stands still, then another that slows down behind it.
--   headrace example car-adn            (generates the traffic and runs this)

-- Each car reports its position every 30 seconds.
CREATE STREAM car_loc (at TIMESTAMP, carId INT, speed DOUBLE, exp_way INT, dir INT, lane INT, xpos DOUBLE)
  TIMESTAMP BY at SKEW 5 SECONDS
  FROM FILES (path 'data/cars', format 'csv');

-- Segments are five miles long.
CREATE VIEW car_seg AS
  SELECT at, carId, speed, exp_way, dir, lane, CAST(floor(xpos / 5) AS INT) AS segment, xpos FROM car_loc;

-- Immobile: the same position in four consecutive reports.
CREATE VIEW standing AS
  SELECT carId, last(exp_way) AS exp_way, last(dir) AS dir, last(lane) AS lane, last(segment) AS segment,
         last(xpos) AS xpos
  FROM car_seg [PARTITION BY carId ROWS 4 SLIDE 1]
  GROUP BY carId
  HAVING min(xpos) = max(xpos);

-- A standing car keeps reporting; only the first report counts.
CREATE VIEW cq_immobile AS
  SELECT carId, exp_way, dir, lane, segment, last(xpos) AS xpos
  FROM standing [RANGE 1 MINUTE SLIDE TUPLE]
  GROUP BY carId, exp_way, dir, lane, segment
  HAVING count(*) = 1;

-- Slowing down: at least 30 % slower than three reports ago. The change is relative to the new speed:
-- (70 - 100) / 70 = -0.4286.
CREATE VIEW cq_decrease AS
  SELECT carId, exp_way, dir, lane, segment, OLD(speed) AS was, speed, WRDIFF(speed PSEUDO 0.01) AS change
  FROM car_seg [PARTITION BY carId ROWS 4 SLIDE 1]
  GROUP BY carId
  HAVING change <= -0.4286;

CREATE EVENT immobile AS SELECT carId, exp_way, dir, lane, segment, xpos FROM cq_immobile;
CREATE EVENT slowing  AS SELECT carId, exp_way, dir, lane, segment, was, speed FROM cq_decrease;

-- In that order, in the same place, by two cars. Each standing car waits by itself (BY carId) and is used once
-- (PROXIMAL), even if several cars slow down behind it.
CREATE EVENT accident AS immobile SEQUENCE slowing WITHIN 10 MINUTES
  WHERE immobile.exp_way = slowing.exp_way AND immobile.dir = slowing.dir
    AND immobile.lane = slowing.lane AND immobile.segment = slowing.segment
    AND immobile.carId <> slowing.carId
  CONTEXT PROXIMAL (immobile BY carId);

-- Two cars may stand in one accident: it is notified only if there was none in the same place in the last 15 minutes.
CREATE EVENT incident AS
  SELECT exp_way, dir, lane, segment, last(carId) AS stopped, last(carId_1) AS slowed,
         last(event_start) AS since, window_end AS at
  FROM accident [RANGE 15 MINUTES SLIDE TUPLE]
  GROUP BY exp_way, dir, lane, segment
  HAVING count(*) = 1;

CREATE RULE notify ON incident
  DO INSERT INTO FILES (path 'out/notified', format 'json'),
     CALL PYTHON 'headrace.applications.car_adn.duty:police' (exp_way, dir, lane, segment, stopped, slowed, at);

-- For five minutes, cars in the two segments before the accident are warned whenever they report.
CREATE QUERY warned AS
  SELECT c.carId, c.exp_way, c.dir, c.segment, n.segment AS accident, c.at
  FROM incident [RANGE 5 MINUTES] AS n JOIN car_seg [NOW] AS c ON n.exp_way = c.exp_way AND n.dir = c.dir
  WHERE (n.segment - c.segment) * (1 - 2 * n.dir) BETWEEN 1 AND 2
INTO FILES (path 'out/warned', format 'json');

-- The nearest ambulance drives there. Stations are a table.
CREATE TABLE stations (station STRING, exp_way INT, segment INT) FROM FILES (path 'data/stations.csv', format 'csv');

CREATE VIEW dispatched AS
  SELECT exp_way, dir, lane, segment, at, min_by(station, distance) AS station, min(distance) AS distance
  FROM (SELECT i.exp_way, i.dir, i.lane, i.segment, i.at, s.station, abs(s.segment - i.segment) AS distance
        FROM incident AS i JOIN stations AS s ON i.exp_way = s.exp_way) [NOW]
  GROUP BY exp_way, dir, lane, segment, at;

CREATE RULE ambulance ON dispatched
  DO INSERT INTO FILES (path 'out/ambulances', format 'json'),
     CALL PYTHON 'headrace.applications.car_adn.duty:ambulance' (station, exp_way, dir, segment, at);

-- Who creeps through the segment of an accident within ten minutes pays no toll; each car is told once for an accident.
CREATE VIEW blocked AS
  SELECT c.carId AS carId, n.exp_way AS exp_way, n.dir AS dir, n.segment AS segment, n.at AS since
  FROM incident [RANGE 10 MINUTES] AS n JOIN car_seg [NOW] AS c
    ON n.exp_way = c.exp_way AND n.dir = c.dir AND n.segment = c.segment
  WHERE c.speed < 20 AND c.carId <> n.stopped;

CREATE EVENT delayed AS
  SELECT carId, exp_way, dir, segment, since FROM blocked [RANGE 10 MINUTES SLIDE TUPLE]
  GROUP BY carId, exp_way, dir, segment, since
  HAVING count(*) = 1;

CREATE RULE toll ON delayed DO INSERT INTO FILES (path 'out/toll_free', format 'json');
