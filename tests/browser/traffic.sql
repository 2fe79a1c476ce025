CREATE STREAM detectors (id INT, segment INT, at TIMESTAMP, speed DOUBLE)
  TIMESTAMP BY at SKEW 500 MILLISECONDS
  FROM GENERATOR (rate 200, seed 7, delay 'uniform(0, 0.6)', col.segment 'uniform(1, 6)', col.speed 'normal(55, 18)');

CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE)
  TIMESTAMP BY at SKEW 500 MILLISECONDS
  FROM GENERATOR (rate 100, seed 11, col.segment 'uniform(1, 6)', col.speed 'normal(50, 20)');

CREATE QUERY speed_map WITH (latency '60 s' MUST, memory '64 MB' BEST EFFORT) AS
  SELECT segment, avg(speed) AS speed, count(*) AS n, window_end
  FROM detectors [RANGE 2 SECONDS SLIDE 1 SECOND] WHERE speed BETWEEN 1 AND 130 GROUP BY segment;

CREATE QUERY slow AS
  SELECT d.segment, count(*) AS n, window_end
  FROM detectors [RANGE 1 SECOND] AS d JOIN probes [RANGE 1 SECOND] AS p ON d.segment = p.segment
  WHERE d.speed < 20 AND p.speed < 10 GROUP BY d.segment;

CREATE EVENT jam AS detectors SEQUENCE probes WITHIN 1 SECOND
  WHERE detectors.segment = probes.segment AND detectors.speed < 15 AND probes.speed < 5;
CREATE EVENT alarm (segment INT);
CREATE RULE notify ON jam DO RAISE EVENT alarm(detectors.segment);

ASSUME speed_map WHERE segment NOT IN (1, 2, 3) AND window_end < TIMESTAMP '2100-01-01 00:00:00';

-- Names and rows that would do harm if they became HTML.
CREATE STREAM "<img src=x onerror=alert(1)>" (at TIMESTAMP, word STRING)
  TIMESTAMP BY at
  FROM GENERATOR (rate 5, seed 3, col.word 'choice(<img src=x onerror=alert(2)>, <svg onload=alert(3)>)');
CREATE QUERY "<script>alert(4)</script>" AS SELECT word AS "<b>bold</b>" FROM "<img src=x onerror=alert(1)>";

-- Nobody listens at this address.
CREATE RULE call WITH (tries 2) ON jam DO CALL webhook ('http://127.0.0.1:9/jams');
