-- What the pictures of the documentation show.
CREATE STREAM detectors (id INT, segment INT, at TIMESTAMP, speed DOUBLE)
  TIMESTAMP BY at SKEW 500 MILLISECONDS
  FROM GENERATOR (rate 600, seed 7, delay 'uniform(0, 0.52)', col.segment 'uniform(1, 24)', col.speed 'normal(55, 18)');

CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE)
  TIMESTAMP BY at SKEW 500 MILLISECONDS
  FROM GENERATOR (rate 200, seed 11, col.segment 'uniform(1, 24)', col.speed 'normal(50, 20)');

CREATE STREAM limits (segment INT, most DOUBLE, at TIMESTAMP)
  TIMESTAMP BY at
  FROM GENERATOR (rate 2, seed 5, col.segment 'uniform(1, 24)', col.most 'uniform(30, 70)');
CREATE TABLE speed_limits (segment INT, most DOUBLE, at TIMESTAMP, PRIMARY KEY (segment)) FROM limits;
CREATE TABLE history (id INT, mean DOUBLE) FROM FILES (path 'examples/data/history.csv', format 'csv') REFRESH '1 minute';

CREATE QUERY speed_map WITH (latency '5 s' MUST, memory '64 MB' BEST EFFORT) AS
  SELECT segment, avg(speed) AS speed, count(*) AS n, window_end
  FROM detectors [RANGE 2 SECONDS SLIDE 1 SECOND] WHERE speed BETWEEN 1 AND 130 GROUP BY segment;

CREATE QUERY slow_roads WITH (latency '50 ms' BEST EFFORT) AS
  SELECT d.segment, count(*) AS n, window_end
  FROM detectors [RANGE 1 SECOND] AS d JOIN probes [RANGE 1 SECOND] AS p ON d.segment = p.segment
  WHERE d.speed < 30 AND p.speed < 25 GROUP BY d.segment;

CREATE QUERY below_mean AS
  SELECT p.segment, p.speed, h.mean FROM probes AS p JOIN history AS h ON p.segment = h.id WHERE p.speed < h.mean / 2;

CREATE QUERY too_fast AS
  SELECT d.segment, d.speed, l.most
  FROM probes AS d JOIN speed_limits FOR SYSTEM_TIME AS OF d.at AS l ON d.segment = l.segment WHERE d.speed > l.most + 40;

CREATE QUERY passed AS
  SELECT segment, count(*) AS cars FROM probes GROUP BY segment EMIT CHANGES STATE TTL '1 day';

CREATE EVENT jam AS detectors SEQUENCE probes WITHIN 1 SECOND
  WHERE detectors.segment = probes.segment AND detectors.speed < 4 AND probes.speed < 1;
CREATE EVENT alarm (segment INT);
CREATE RULE notify ON jam DO RAISE EVENT alarm(detectors.segment);
CREATE RULE call WITH (tries 2) ON jam DO CALL webhook ('http://127.0.0.1:9/jams');

ASSUME speed_map WHERE segment NOT IN (1, 2, 3, 4) AND window_end < TIMESTAMP '2100-01-01 00:00:00';
