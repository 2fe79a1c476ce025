-- A traffic speed map: where does traffic flow, and where is it congested?
-- Road detectors report at a steady rate, up to 1.5 seconds late; vehicles report in bursts. Both are generated.

CREATE STREAM detectors (id INT, segment INT, at TIMESTAMP, speed DOUBLE)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM GENERATOR (rate 2000, process 'poisson', seed 7, delay 'uniform(0, 1.5)',
                  col.id 'uniform(1, 400)', col.segment 'uniform(1, 12)', col.speed 'normal(55, 18)');

CREATE STREAM probes (vehicle BIGINT, segment INT, speed DOUBLE, at TIMESTAMP)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM GENERATOR (rate 500, process 'bursty', seed 11, delay 'uniform(0, 1)',
                  col.vehicle 'uniform(1, 5000)', col.segment 'uniform(1, 12)', col.speed 'normal(50, 20)');

-- The map: mean speed per segment over the last 10 seconds, every 2 seconds, from plausible readings of both streams.
-- Segments 3 to 5 have roadworks, 9 is a bottleneck.
CREATE QUERY speed_map AS
  WITH readings AS (
    SELECT segment, speed FROM detectors WHERE speed BETWEEN 1 AND 130
    UNION ALL
    SELECT segment, speed FROM probes WHERE speed BETWEEN 1 AND 130
  )
  SELECT segment,
         avg(speed * CASE WHEN segment BETWEEN 3 AND 5 THEN 0.45 WHEN segment = 9 THEN 0.7 ELSE 1.0 END) AS speed,
         count(*) AS n, window_end
  FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS]
  GROUP BY segment
INTO MEMORY;

-- Congestion: a slow detector confirmed by a slow vehicle on the same segment within 5 seconds, counted per segment.
CREATE QUERY congestion AS
  WITH pairs AS (
    SELECT d.segment AS segment
    FROM detectors [RANGE 5 SECONDS] AS d JOIN probes [RANGE 5 SECONDS] AS p ON d.segment = p.segment
    WHERE d.speed < CASE WHEN d.segment BETWEEN 3 AND 5 THEN 45 ELSE 25 END
      AND p.speed < CASE WHEN p.segment BETWEEN 3 AND 5 THEN 30 ELSE 15 END
  )
  SELECT segment, count(*) AS n, window_end FROM pairs [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY segment
INTO MEMORY;
