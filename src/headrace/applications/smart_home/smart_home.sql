-- Houses that learn where their people go next, and that act: light, stove, burglars.
--   headrace example smart-home         (generates some days of several houses and runs this)

-- Motion sensors report who enters a room, contacts report doors, plugs report the power of devices.
CREATE STREAM motion (at TIMESTAMP, home INT, room STRING) TIMESTAMP BY at SKEW 5 SECONDS
  FROM FILES (path 'data', pattern 'motion.csv', format 'csv');
CREATE STREAM doors (at TIMESTAMP, home INT, door STRING, state STRING) TIMESTAMP BY at SKEW 5 SECONDS
  FROM FILES (path 'data', pattern 'doors.csv', format 'csv');
CREATE STREAM power (at TIMESTAMP, home INT, device STRING, watts DOUBLE) TIMESTAMP BY at SKEW 5 SECONDS
  FROM FILES (path 'data', pattern 'power.csv', format 'csv');

-- Prediction. A step is a change of room. The habit of a day is, for each room, the room that followed most often.
CREATE VIEW steps AS
  SELECT home, LAG(room) OVER (PARTITION BY home ORDER BY at) AS came_from, room, at FROM motion;

CREATE VIEW counted AS
  SELECT home, came_from, room, count(*) AS n FROM steps [RANGE 1 DAY]
  WHERE came_from IS NOT NULL AND came_from <> room
  GROUP BY home, came_from, room;

CREATE VIEW habits AS
  SELECT home, came_from, max_by(room, n) AS room, max(n) AS n FROM counted [NOW]
  GROUP BY home, came_from
  HAVING max(n) >= 3;

CREATE TABLE habit (home INT, came_from STRING, room STRING, PRIMARY KEY (home, came_from)) FROM habits;

-- Who enters a room probably goes on as on the day before: the light is there first.
CREATE VIEW predicted AS
  SELECT s.home, s.room AS here, h.room AS next, s.at
  FROM (SELECT home, room, at FROM steps WHERE came_from IS NULL OR came_from <> room) AS s
  JOIN habit FOR SYSTEM_TIME AS OF s.at AS h ON s.home = h.home AND s.room = h.came_from;

CREATE RULE light ON predicted
  DO INSERT INTO FILES (path 'out/lights', format 'json'),
     CALL PYTHON 'headrace.applications.smart_home.house:light' (home, next, at);

-- A stove that is hot while nobody comes to the kitchen for ten minutes is switched off.
CREATE VIEW hot AS
  SELECT home, watts, at,
         watts > 500 AND COALESCE(LAG(watts) OVER (PARTITION BY home ORDER BY at), 0) <= 500 AS begins
  FROM (SELECT home, watts, at FROM power WHERE device = 'stove');

CREATE EVENT stove_on AS SELECT home, watts, at FROM hot WHERE begins;
CREATE EVENT cook AS SELECT home, at FROM motion WHERE room = 'kitchen';

CREATE EVENT forgotten AS NOT (cook) [stove_on, '10 min'] WHERE stove_on.home = cook.home CONTEXT CONTINUOUS;

CREATE RULE stove ON forgotten
  DO INSERT INTO FILES (path 'out/stoves', format 'json'),
     CALL PYTHON 'headrace.applications.smart_home.house:switch_off' (home, event_start);

-- Nobody is at home if the front door closes and nothing moves for five minutes.
CREATE EVENT closed AS SELECT home, at FROM doors WHERE door = 'front' AND state = 'closed';
CREATE EVENT opened AS SELECT home, at FROM doors WHERE door = 'front' AND state = 'open';
CREATE EVENT moved AS SELECT home, room, at FROM motion;
CREATE EVENT left_home AS NOT (moved) [closed, '5 min'] WHERE closed.home = moved.home;

CREATE EVENT away (home INT);
CREATE RULE leave ON left_home DO RAISE EVENT away(home);

-- Somebody moves in an empty house, and the front door did not open before: that is no inhabitant.
CREATE EVENT burglary AS NOT (opened) [away, moved] WITHIN 1 DAY
  WHERE away.home = moved.home AND away.home = opened.home
  CONTEXT CHRONICLE;

CREATE RULE police ON burglary
  DO INSERT INTO FILES (path 'out/burglaries', format 'json'),
     CALL PYTHON 'headrace.applications.smart_home.house:alarm' (home, room);
