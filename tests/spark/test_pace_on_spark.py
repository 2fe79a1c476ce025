"""PACE, IMPUTE and joins with feedback in one deployment on Spark; input comes step by step, in a known order."""

import datetime as dt
from pathlib import Path

import polars as pl

from headrace.session import Session
from headrace.testing.watching import until

ROOT = Path(__file__).parents[2]
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
#: As examples/archive.py has it.
USUAL = {1: 50.0, 2: 65.0, 3: 30.0}


def test_what_lags_is_left_out_and_not_looked_up(spark, tmp_path):
    spark.sparkContext.addPyFile(str(ROOT / "examples" / "archive.py"))
    with Session(tmp_path, buckets=3) as session:
        session.execute(f"""
            CREATE STREAM readings (at TIMESTAMP, id INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM clean (at TIMESTAMP, id INT, speed DOUBLE) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM probes (at TIMESTAMP, id INT) TIMESTAMP BY at FROM MEMORY;
            CREATE TABLE history (id INT, mean DOUBLE) FROM FILES (path '{ROOT}/examples/data/history.csv');
            SPLIT readings INTO whole WHEN speed IS NOT NULL, dirty ELSE;
            CREATE VIEW imputed AS SELECT at, id, IMPUTE(speed USING 'python:archive:usual_speed' ON id) AS speed
              FROM dirty;
            CREATE QUERY tidy AS SELECT * FROM clean UNION imputed WITH PACE ON MAX(clean.at, imputed.at) 1 MINUTE
              INTO MEMORY;
            CREATE QUERY stored AS SELECT r.id, IMPUTE(speed USING history.mean ON r.id = history.id DEFAULT 0) AS speed
              FROM readings AS r
              INTO MEMORY;
            CREATE QUERY thrifty AS SELECT r.id, p.at AS at FROM readings [RANGE 10 SECONDS] AS r
              THRIFTY JOIN probes [RANGE 10 SECONDS] AS p ON r.id = p.id INTO MEMORY;
            CREATE QUERY impatient AS SELECT r.id, p.at AS at FROM readings [RANGE 10 SECONDS] AS r
              IMPATIENT JOIN probes [RANGE 10 SECONDS] AS p ON r.id = p.id INTO MEMORY;
            CREATE QUERY plain AS SELECT r.id, p.at AS at FROM readings [RANGE 10 SECONDS] AS r
              JOIN probes [RANGE 10 SECONDS] AS p ON r.id = p.id INTO MEMORY""")

        def read(stream, *rows):
            before = session.statistics().streams.get(stream)
            whole = len(rows) + (0 if before is None else before.tuples)
            session.push(stream, [{"at": START + dt.timedelta(seconds=second), **row} for second, row in rows])
            until(lambda: (seen := session.statistics().streams.get(stream)) is not None and seen.tuples == whole)

        read("readings", (0, {"id": 1, "speed": 33.0}), (1, {"id": 2, "speed": None}), (2, {"id": 9, "speed": None}))
        read("clean", (0, {"id": 1, "speed": 33.0}))
        read("clean", (310, {"id": 1, "speed": 44.0}))
        broken = [(10 + second, {"id": second % 4, "speed": None}) for second in range(300)]
        read("readings", *broken, (310, {"id": 1, "speed": 44.0}))
        read("probes", *((second, {"id": second % 4}) for second in range(200)))
        read("probes", (305, {"id": 1}), (306, {"id": 2}))
        counts = session.statistics()
        session.drain(90)
        tidy = [(row["id"], row["speed"]) for row in session.results("tidy")]
        expected = [
            (1, 33.0),
            (2, 65.0),
            (9, None),
            (1, 44.0),
            *((second % 4, USUAL.get(second % 4)) for second in range(270, 300)),
        ]
        assert sorted(tidy, key=str) == sorted(expected, key=str)
        late = sum(seen.late for seen in counts.vertices.values())
        spared = sum(seen.saved for (reader, _), seen in counts.guards.items() if reader.startswith("impute"))
        assert (late, spared) == (64, 206), (
            "the first portion was looked up in vain, then all that lags behind the cut was spared"
        )
        assert sum(row["speed"] == 0 for row in session.results("stored")) == 1 + 75, (
            "of detectors that the table does not have"
        )
        joined = {
            name: sorted((row["id"], row["at"]) for row in session.results(name))
            for name in ("plain", "thrifty", "impatient")
        }
        assert len(joined["plain"]) > 2
        assert joined["plain"] == joined["thrifty"] == joined["impatient"]
        assert any(reader.startswith("join") and "timestamp <" in pattern for reader, pattern in counts.guards)


def test_what_a_pace_leaves_out_is_there_after_a_restart(spark, tmp_path):
    def read(session, stream, *seconds):
        session.push(stream, [{"at": START + dt.timedelta(seconds=second), "k": second} for second in seconds])
        before = session.statistics().batch
        until(lambda: session.statistics().batch > before)

    def rows(name):
        return sorted(pl.read_parquet(tmp_path / name / "*.parquet")["k"])

    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(f"""
            CREATE STREAM ahead (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
            CREATE STREAM behind (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY q AS SELECT * FROM ahead UNION behind WITH PACE ON rowtime 1 MINUTE
              INTO FILES (path '{tmp_path}/q', format 'parquet');
            CREATE QUERY missed AS SELECT * FROM q.late INTO FILES (path '{tmp_path}/missed', format 'parquet')""")
        read(session, "ahead", 100, 300)
        read(session, "behind", 10, 20, 280)
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        session.push("behind", [{"at": START + dt.timedelta(seconds=second), "k": second} for second in (281, 282)])
        session.push("ahead", [{"at": START + dt.timedelta(seconds=301), "k": 301}])
        session.drain(90)
    assert rows("q") == [100, 280, 281, 282, 300, 301]
    assert rows("missed") == [10, 20], "also those that the query itself has not even taken"
