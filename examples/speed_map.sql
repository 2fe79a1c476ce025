-- The traffic speed map: where does traffic move, and where does it stand?
-- Road detectors report at a steady rate, up to 1.5 seconds late; vehicles report in bursts. Both streams are generated.

CREATE STREAM detectors (id INT, segment INT, at TIMESTAMP, speed DOUBLE)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM GENERATOR (rate 2000, process 'poisson', seed 7, delay 'uniform(0, 1.5)',
                  col.id 'uniform(1, 400)', col.segment 'uniform(1, 12)', col.speed 'normal(55, 18)');

CREATE STREAM probes (vehicle BIGINT, segment INT, speed DOUBLE, at TIMESTAMP)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM GENERATOR (rate 500, process 'bursty', seed 11, delay 'uniform(0, 1)',
                  col.vehicle 'uniform(1, 5000)', col.segment 'uniform(1, 12)', col.speed 'normal(50, 20)');

-- Plausible readings of both kinds as one stream. Segments 3 to 5 have roadworks, 9 is a bottleneck.
CREATE QUERY readings AS
  SELECT segment, speed * CASE WHEN segment BETWEEN 3 AND 5 THEN 0.45 WHEN segment = 9 THEN 0.7 ELSE 1.0 END AS speed
  FROM detectors WHERE speed BETWEEN 1 AND 130
  UNION ALL
  SELECT segment, speed * CASE WHEN segment BETWEEN 3 AND 5 THEN 0.45 WHEN segment = 9 THEN 0.7 ELSE 1.0 END AS speed
  FROM probes WHERE speed BETWEEN 1 AND 130
INTO MEMORY;

-- The map: mean speed per segment over the last 10 seconds, every 2 seconds.
CREATE QUERY speed_map AS
  SELECT segment, avg(speed) AS speed, count(*) AS n, window_end
  FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS]
  GROUP BY segment
INTO MEMORY;

-- Congestion: slow detectors confirmed by a slow vehicle on the same segment within 5 seconds, counted per segment.
CREATE QUERY congestion AS
  SELECT d.segment, d.speed AS detector_speed, p.speed AS probe_speed, p.vehicle
  FROM detectors [RANGE 5 SECONDS] AS d JOIN probes [RANGE 5 SECONDS] AS p ON d.segment = p.segment
  WHERE d.speed < 25 AND p.speed < 15
INTO MEMORY;

CREATE QUERY confirmations AS
  SELECT segment, count(*) AS n, window_end FROM congestion [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY segment
INTO MEMORY;
