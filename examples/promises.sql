-- Queries that declare a latency. Will they keep it?
-- Before they run:      headrace plan examples/promises.sql
-- With more cars:       headrace plan examples/promises.sql --rate probes=2000000/s
-- While they run:       EXPLAIN CAPACITY slow_roads;   ALTER QUERY slow_roads SET (latency '200 ms' MUST);

CREATE STREAM probes (at TIMESTAMP, vehicle BIGINT, segment INT, speed DOUBLE)
  TIMESTAMP BY at
  FROM GENERATOR (rate 2000, rows 20000, speed 20, seed 7, col.segment 'uniform(1, 100)', col.speed 'normal(50, 20)');

CREATE QUERY slow_roads
  WITH (latency '500 ms' MUST, memory '16 MB' BEST EFFORT, error 0.1, shed RANDOM, priority 2)
AS SELECT segment, avg(speed) AS speed, count(*) AS n
   FROM probes [RANGE 10 SECONDS SLIDE 1 SECOND] WHERE speed < 30 GROUP BY segment
INTO CONSOLE (rows 5);

-- A promise that changes with the age of the query: 2 s at first, 1 s from the first minute on.
CREATE QUERY busy
  WITH (latency '0 s: 2 s, 60 s: 1 s' BEST EFFORT, throughput '10/s' DONT CARE)
AS SELECT segment, count(*) AS n FROM probes [RANGE 5 SECONDS] GROUP BY segment
INTO CONSOLE (rows 5);
