-- Some detectors fail: missing speeds come from an archive, and values that would come too late are not looked up.
--   headrace run examples/imputation.sql

CREATE STREAM readings (at TIMESTAMP, id INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM GENERATOR (rate 200, seed 3, delay 'uniform(0, 0.5)',
                  col.id 'uniform(1, 4)', col.speed 'null(0.3, normal(60, 12))');

SPLIT readings INTO clean WHEN speed IS NOT NULL, dirty ELSE;

CREATE VIEW imputed AS
  SELECT at, id, IMPUTE(speed USING 'python:archive:usual_speed' ON id DEFAULT 50) AS speed FROM dirty;

CREATE QUERY tidy AS
  SELECT id, count(*) AS n, avg(speed) AS speed, window_end
  FROM (SELECT * FROM clean UNION imputed WITH PACE ON MAX(clean.at, imputed.at) 10 SECONDS)
       [RANGE 5 SECONDS] AS readings
  GROUP BY id
INTO CONSOLE;
