-- A speed map of which only some segments are on the screen: the others do not need to be computed.
-- Run it with `headrace demo --viewport`, or run this file and give the feedback yourself, for example
--   ASSUME speed_map WHERE segment NOT IN (1, 2, 3, 4) FOR 1 MINUTE;
--   SHOW FEEDBACK;

CREATE STREAM detectors (id INT, segment INT, at TIMESTAMP, speed DOUBLE)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM GENERATOR (rate 8000, process 'poisson', seed 7, delay 'uniform(0, 1.5)',
                  col.id 'uniform(1, 400)', col.segment 'uniform(1, 12)', col.speed 'normal(55, 18)');

CREATE STREAM probes (vehicle BIGINT, segment INT, speed DOUBLE, at TIMESTAMP)
  TIMESTAMP BY at SKEW 2 SECONDS
  FROM GENERATOR (rate 2000, process 'bursty', seed 11, delay 'uniform(0, 1)',
                  col.vehicle 'uniform(1, 5000)', col.segment 'uniform(1, 12)', col.speed 'normal(50, 20)');

-- Windows do not overlap, so no later window needs a reading of an invisible segment: it is dropped before the filter.
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
  FROM readings [RANGE 2 SECONDS]
  GROUP BY segment
INTO MEMORY;
