"""A session on Spark: queries come and go while others run, every connector is used, mistakes are made."""

import datetime as dt
import json
import socket
import threading
import time
from functools import partial

import polars as pl
import pytest

from headrace.driver.pause import pause
from headrace.errors import HostFault, NameFault, SinkFault, SourceFault
from headrace.hosts.spark import host
from headrace.session import Session
from headrace.testing.watching import until

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
BIDS = "CREATE STREAM bids (at TIMESTAMP, auction INT, price DOUBLE) TIMESTAMP BY at FROM MEMORY ();"


def bids(first, count):
    return [
        {"at": START + dt.timedelta(seconds=i), "auction": i % 3, "price": float(i)}
        for i in range(first, first + count)
    ]


def read(session, stream="bids"):
    counts = session.statistics().streams.get(stream)
    return counts.tuples if counts else 0


def has_read(session, count):
    return read(session) == count


def vertices(session, kind):
    return {
        name: seen for name, seen in session.statistics().vertices.items() if name.startswith(kind) and "@" not in name
    }


def test_queries_come_and_go_and_each_sees_what_is_read_from_its_beginning_on(spark, tmp_path):
    count = "SELECT auction, count(*) AS n, window_end FROM bids [RANGE 10 SECONDS] GROUP BY auction"
    delivered = {"steady": [], "twin": []}
    with Session(tmp_path, buckets=2) as session:
        for name, rows in delivered.items():
            session.subscribe(name, partial(_note, rows))
        session.execute(
            BIDS + f"CREATE QUERY steady AS {count} INTO MEMORY; CREATE QUERY short AS SELECT price FROM bids "
            "WHERE auction = 1 INTO MEMORY;"
        )
        session.push("bids", bids(0, 30))
        until(lambda: read(session) == 30)
        session.execute(f"CREATE QUERY twin AS {count} INTO MEMORY")
        session.execute("DROP QUERY short")
        before = session.statistics().batch
        until(lambda: session.statistics().batch > before or not session.push("bids", []))
        session.push("bids", bids(30, 30))
        until(lambda: read(session) == 60)
        assert len(vertices(session, "paneaggregate")) == 2, "the state of each query is its own"
        (shared,) = vertices(session, "partialaggregate").values()
        assert shared.tuples_in == 60, "before the shuffle every tuple was aggregated once, not once per query"
        assert [row[:2] for row in session.execute("DEMAND twin WHERE auction = 1")[0].rows] == [(1, 3)]
        assert session.execute("DEMAND twin WHERE auction = 999")[0].rows == (), "not the rows of the last demand"
        session.execute("DROP QUERY steady; DROP QUERY twin; CREATE STREAM other (k INT) FROM MEMORY")
        session.execute("CREATE QUERY beside AS SELECT k FROM other INTO MEMORY")
        assert session.deployment.settle(session._running().commands, 60), "a micro-batch without a reader of bids"
        session.push("bids", bids(60, 5))
        session.execute(f"CREATE QUERY again AS {count} INTO MEMORY")
        session.push("bids", bids(65, 6))
        session.drain(60)
        waited = [(row["window_end"] - START, row["n"]) for row in session.results("again")]
        ends = ((70, 3), (70, 3), (70, 4), (80, 1))
        assert sorted(waited) == [(dt.timedelta(seconds=end), n) for end, n in ends]
    assert sorted(delivered["steady"]) == [(10 * (w + 1), a, n) for w in range(5) for a, n in _thirds(w)]
    assert sorted(delivered["twin"]) == [(10 * (w + 1), a, n) for w in (3, 4) for a, n in _thirds(w)]


def test_a_session_that_is_handed_in_keeps_its_settings(spark, tmp_path):
    settings = {"spark.sql.shuffle.partitions": "7", "spark.sql.streaming.noDataMicroBatches.enabled": "true"}
    program = spark.newSession()
    for name, value in settings.items():
        program.conf.set(name, value)
    with Session(tmp_path, buckets=2, spark=program) as session:
        session.execute(BIDS + "CREATE QUERY cheap AS SELECT price FROM bids WHERE price < 2 INTO MEMORY")
        session.push("bids", bids(0, 5))
        session.drain(60)
        assert sorted(row["price"] for row in session.results("cheap")) == [0.0, 1.0]
    assert {name: program.conf.get(name) for name in settings} == settings
    with pytest.raises(HostFault, match=r"spark\.executor\.memory cannot be set to 9g, because Spark is running"):
        Session(tmp_path / "other", spark=program, conf={"spark.executor.memory": "9g"}).start()
    with pytest.raises(HostFault, match="Spark runs in this process with the master"):
        Session(tmp_path / "third", master="yarn").start()


def _note(delivered, batch, rows):
    delivered += [((row["window_end"] - START).total_seconds(), row["auction"], row["n"]) for row in rows]


def test_switching_the_strategy_of_a_running_deployment_loses_no_rows(spark, tmp_path):
    with Session(tmp_path, buckets=2) as session:
        session.execute(
            BIDS + "CREATE QUERY counts AS SELECT auction, count(*) AS n, window_end FROM bids [RANGE 10 SECONDS] "
            "GROUP BY auction INTO MEMORY"
        )
        for number, (strategy, ets) in enumerate(
            (("bfs", "none"), ("rr", "periodic 100 ms"), ("dfs-3", "none"), ("dfs", "on demand"))
        ):
            session.push("bids", bids(number * 15, 15))
            session.execute(f"ALTER SYSTEM SET strategy = '{strategy}'; ALTER QUERY counts SET strategy = '{strategy}'")
            session.execute(
                f"ALTER SYSTEM SET ets = '{ets}'; ALTER QUERY counts SET breaks = "
                f"'{'none' if number % 2 else 'everywhere'}'"
            )
            until(partial(has_read, session, (number + 1) * 15))
        session.drain(60)
        counted = sorted((row["window_end"], row["auction"], row["n"]) for row in session.results("counts"))
        assert counted == [(START + dt.timedelta(seconds=10 * (w + 1)), a, n) for w in range(6) for a, n in _thirds(w)]
        with pytest.raises(NameFault, match="no strategy 'quick'"):
            session.execute("ALTER SYSTEM SET strategy = 'quick'")


def test_a_window_over_a_silent_stream_comes_out_by_itself_and_then_nothing_runs(spark, tmp_path):
    with Session(tmp_path, buckets=2) as session:
        session.execute("""
            CREATE STREAM fast (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;
            CREATE STREAM slow (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
            CREATE QUERY counts AS SELECT count(*) AS n FROM fast [RANGE 1 SECOND] UNION slow [RANGE 1 SECOND]
              INTO MEMORY""")
        until(lambda: session.statistics().batch >= 0)  # from here on a micro-batch takes less than the skew
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        for stream in ("fast", "slow"):
            session.push(stream, [{"at": now, "k": 1}])
        until(lambda: sum(row["n"] for row in session.results("counts")) == 2)
        assert session.statistics().asked > 0
        last = session.statistics().batch
        session.deployment.wait(1.5)
        assert session.statistics().batch <= last + 1, "nothing waits, so nothing runs"


def test_a_union_that_merges_tuple_by_tuple_asks_the_silent_input_and_keeps_order(spark, tmp_path):
    with Session(tmp_path, buckets=2) as session:
        session.execute("""
            CREATE STREAM fast (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 1 SECOND FROM MEMORY;
            CREATE STREAM slow (at TIMESTAMP, k INT) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
            CREATE QUERY merged WITH (ordered merge) AS SELECT at, k FROM fast UNION ALL SELECT at, k FROM slow
              WHERE k >= 0 INTO MEMORY""")
        until(lambda: session.statistics().batch >= 0)
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        session.push("slow", [{"at": now, "k": 0}])
        for number in range(5):
            session.push("fast", [{"at": now + dt.timedelta(milliseconds=10 * number), "k": number}])
        until(lambda: len(session.results("merged")) == 6)  # although the slow stream says nothing more
        assert vertices(session, "orderedunion")
        times = [row["at"] for row in session.results("merged")]
        assert times == sorted(times)


def _thirds(window):
    numbers = range(window * 10, window * 10 + 10)
    return [(a, sum(1 for i in numbers if i % 3 == a)) for a in range(3)]


def test_files_of_every_format_bad_records_and_late_tuples_reach_their_streams(spark, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.jsonl").write_text(
        '{"at": "2026-01-01T00:00:01", "v": 1}\nnot json\n{"at": "2026-01-01T00:00:09", "v": 2}\n'
        '{"at": "2026-01-01T00:00:03", "v": 3}\n{"v": 4}\n'
    )
    (tmp_path / "twice").mkdir()
    minute = pl.DataFrame({"at": [START + dt.timedelta(milliseconds=4 * i) for i in range(15_000)]})
    for number in range(2):  # two tasks read them side by side; in the second file all but the last second is late
        minute.write_csv(tmp_path / "twice" / f"{number}.csv")
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(
            f"""CREATE STREAM s (at TIMESTAMP, v INT) TIMESTAMP BY at SKEW 2 SECONDS
            FROM FILES (path '{data}', format 'json');
            CREATE STREAM twice (at TIMESTAMP) TIMESTAMP BY at SKEW 1 SECOND
            FROM FILES (path '{tmp_path}/twice', format 'csv');
            CREATE QUERY counted AS SELECT count(*) AS n FROM twice [RANGE 1 MINUTE] INTO MEMORY;
            CREATE QUERY good AS SELECT v FROM s INTO FILES (path '{tmp_path}/good', format 'csv');
            CREATE QUERY late AS SELECT v FROM s.late INTO MEMORY;
            CREATE QUERY bad AS SELECT record, reason FROM s.bad INTO MEMORY;"""
        )
        session.drain(60)
        assert sorted(pl.read_csv(tmp_path / "good" / "*.csv")["v"]) == [1, 2]
        assert session.results("late") == [{"v": 3}]
        assert session.results("bad")[0]["record"] == "not json"
        assert len(session.results("bad")) == 2
        seen = session.statistics().streams["s"]
        assert (seen.tuples, seen.bad, seen.late) == (2, 2, 1)
        assert session.results("counted") == [{"n": 15_000 + 251}]


def test_any_spark_source_and_sink_can_be_named(spark, tmp_path):
    spark.range(100).selectExpr("id", "timestamp_seconds(id) AS at").write.parquet(str(tmp_path / "in"))
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(
            f"""CREATE STREAM numbers (id BIGINT, at TIMESTAMP) TIMESTAMP BY at SKEW 1 HOUR
            FROM SPARK (format 'parquet', path '{tmp_path}/in');
            CREATE QUERY sums AS SELECT sum(id) AS total, window_end FROM numbers [RANGE 10 SECONDS]
              INTO SPARK (format 'orc', path '{tmp_path}/out');
            CREATE QUERY large AS
              SELECT id, at, at - TIMESTAMP '1970-01-01 00:00:00' AS "a span", '{"x" * 5000}' AS x FROM numbers
              INTO SPARK (format 'parquet', path '{tmp_path}/large');"""
        )
        session.drain(100)
        # what tasks sent of the large results is not in it
        assert session.statistics().sent.bytes < 100_000
    totals = sorted(row.total for row in spark.read.orc(str(tmp_path / "out")).collect())
    assert totals == [sum(range(w * 10, w * 10 + 10)) for w in range(10)]
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001  results have no zone
    rows = sorted(spark.read.parquet(str(tmp_path / "large")).collect())
    assert [row.id for row in rows] == list(range(100))
    assert [(row.at, row["a span"]) for row in rows] == [
        (epoch + dt.timedelta(seconds=n), dt.timedelta(seconds=n)) for n in range(100)
    ]
    assert not list((tmp_path / "checkpoint" / "sinks").rglob("*.parquet"))


def test_streaming_dataframes_are_streams_also_after_a_restart_and_when_created_again(spark, tmp_path):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")  # times are those of UTC all the same

    def frame(folder, first, last):
        numbers = spark.range(first, last).selectExpr("CAST(id AS SMALLINT) AS id", "timestamp_seconds(id) AS at")
        numbers.write.mode("append").parquet(str(tmp_path / folder))
        return spark.readStream.schema("id SMALLINT, at TIMESTAMP").parquet(str(tmp_path / folder)).where("id >= 0")

    query = "CREATE QUERY q AS SELECT id, at FROM numbers INTO FILES (path '{}', format 'json')"

    def results(session):
        known = session.statistics().queries.get("q")
        return 0 if known is None else known.results

    def ids(folder):
        return sorted(row.id for row in spark.read.json(str(tmp_path / folder)).collect())

    try:
        with Session(tmp_path / "checkpoint", buckets=2) as session:
            session.stream("early", spark.readStream.format("rate").load().groupBy("value").count())
            with pytest.raises(SourceFault, match="stream early: Spark cannot read the DataFrame as a stream"):
                session.execute("CREATE QUERY q AS SELECT value FROM early INTO MEMORY")  # before any query runs
            session.stream("numbers", frame("a", 0, 10), timestamp="at", skew="1 HOUR")
            session.execute(query.format(tmp_path / "one"))
            until(lambda: results(session) == 10)
            session.stream("counts", spark.readStream.format("rate").load().groupBy("value").count())
            with pytest.raises(SourceFault, match="stream counts: Spark cannot read the DataFrame as a stream"):
                session.execute("CREATE QUERY c AS SELECT value FROM counts INTO MEMORY")
            session.execute("CREATE QUERY c AS SELECT id FROM numbers INTO MEMORY")  # nothing is left of the first one
            session.execute("DROP QUERY c")
        with Session(tmp_path / "checkpoint") as session, pytest.raises(SourceFault, match="has not given one"):
            session.start()
        with Session(tmp_path / "checkpoint") as session:
            session.stream("numbers", frame("a", 10, 20), timestamp="at", skew="1 HOUR")
            session.start()
            until(lambda: results(session) == 10)  # of this process
            session.execute("DROP QUERY q; DROP STREAM numbers")
            session.stream("numbers", frame("b", 100, 110), timestamp="at", skew="1 HOUR")
            session.execute(query.format(tmp_path / "two"))
            session.drain(100)
        assert ids("one") == [*range(20)]
        assert ids("two") == [*range(100, 110)]
        assert spark.read.json(str(tmp_path / "two")).agg({"at": "min"}).first()[0] == "1970-01-01T00:01:40.000000"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_a_socket_is_read_and_its_lines_survive_in_the_spool(spark, tmp_path):
    lines = b"".join(json.dumps({"v": i}).encode() + b"\n" for i in range(50)) + b"oops\n"
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        peer, _ = server.accept()
        peer.sendall(lines)
        time.sleep(0.2)
        peer.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with Session(tmp_path, buckets=2) as session:
        port = server.getsockname()[1]
        session.execute(
            f"CREATE STREAM s (v INT) FROM SOCKET (host '127.0.0.1', port {port}); "
            "CREATE QUERY q AS SELECT v FROM s WHERE v % 10 = 0 INTO MEMORY"
        )
        until(lambda: read(session, "s") == 50)
        assert sorted(row["v"] for row in session.results("q")) == [0, 10, 20, 30, 40]
        assert session.statistics().streams["s"].bad == 1
    server.close()
    thread.join(5)


def test_a_stopped_session_continues_where_it_was(spark, tmp_path, monkeypatch):
    script = (
        BIDS + "CREATE QUERY q AS SELECT count(*) AS n FROM bids [RANGE 10 SECONDS] "
        f"INTO FILES (path '{tmp_path}/out', format 'json');"
        f"CREATE QUERY first AS SELECT price FROM bids LIMIT 20 INTO FILES (path '{tmp_path}/first', format 'json');"
    )
    counted = (
        "CREATE OR REPLACE QUERY hour AS SELECT count(*) AS n, sum(price) AS total FROM bids [RANGE 1 HOUR] "
        f"INTO FILES (path '{tmp_path}/hour', format 'json');"
    )
    with monkeypatch.context() as patched, Session(tmp_path / "checkpoint", buckets=2) as session:
        patched.setattr(host, "resume", pause)  # a stop that comes before the first micro-batch is planned
        session.execute(script + counted)
        until((tmp_path / "checkpoint" / "spark" / "commits" / "0").exists, session=session)
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        session.push("bids", bids(0, 15))
        until(lambda: read(session) == 15)
    script += counted.replace("count(*) AS n, sum(price) AS total", "sum(price) + 0.5 AS more")
    with Session(tmp_path / "checkpoint") as session:
        session.execute(script)
        session.push("bids", bids(15, 10))
        session.drain(60)
    with Session(tmp_path / "checkpoint") as session:  # it has ended, and stays so
        session.execute(script)
        session.drain(60)
        assert session.statistics().batch == -1
    assert [row["n"] for row in _json_rows(tmp_path / "out")] == [10, 10, 5]
    assert [row["price"] for row in _json_rows(tmp_path / "first")] == list(range(20))
    assert _json_rows(tmp_path / "hour") == [{"more": 300.5}], "the state of the replaced query is kept"


def _json_rows(directory):
    return [row for path in sorted(directory.glob("*.json")) for row in pl.read_ndjson(path).to_dicts()]


def test_a_query_that_fails_is_left_out_and_the_others_go_on_by_themselves(spark, tmp_path):
    with Session(tmp_path, buckets=2) as session:
        session.execute(
            BIDS
            + "CREATE AGGREGATE fussy(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Fussy';"
            + "CREATE QUERY q AS SELECT fussy(price - 6) AS b FROM bids [RANGE 10 SECONDS] INTO MEMORY;"
            + "CREATE QUERY n AS SELECT count(*) AS n, min(price) AS low FROM bids [RANGE 10 SECONDS] INTO MEMORY;"
        )
        session.push("bids", bids(0, 5))
        until(lambda: "on purpose" in session.failed().get("q", ""), session=session)
        until(lambda: read(session) == 5, session=session)
        session.execute("START QUERY q")
        session.push("bids", bids(7, 13))
        session.drain(120)
        assert session.failed() == {}
        assert [(row["n"], row["low"]) for row in session.results("n")] == [(8, 0.0), (10, 10.0)]
        assert len(session.results("q")) == 2


def test_if_the_last_query_fails_the_deployment_says_where_and_why_and_the_query_can_be_removed(spark, tmp_path):
    with Session(tmp_path, buckets=2) as session:
        session.execute(
            BIDS
            + "CREATE AGGREGATE fussy(DOUBLE) RETURNS DOUBLE FROM PYTHON 'headrace.testing.aggregates:Fussy';"
            + "CREATE QUERY q AS SELECT fussy(price - 6) AS b FROM bids [RANGE 10 SECONDS] INTO MEMORY;"
        )
        session.push("bids", bids(0, 5))
        with pytest.raises(HostFault, match="on purpose") as caught:
            session.drain(120)
        assert "--drop q" in caught.value.hint
    with Session(tmp_path, host="local") as session:
        assert session.repair(["q"]) == ["q"]


def test_a_micro_batch_that_spark_gave_up_is_repeated_by_itself(spark, tmp_path):
    deadly = tmp_path / "deadly"
    deadly.touch()
    script = (
        "CREATE STREAM s (at TIMESTAMP, path STRING) TIMESTAMP BY at FROM MEMORY;"
        "CREATE AGGREGATE deadly(STRING) RETURNS BIGINT FROM PYTHON 'headrace.testing.aggregates:Deadly';"
        "CREATE QUERY q AS SELECT deadly(path) AS n FROM s [RANGE 10 SECONDS] INTO MEMORY;"
    )
    with Session(tmp_path / "state", buckets=2) as session:
        session.execute(script)
        session.push("s", [{"at": START, "path": path} for path in (str(deadly), "nowhere")])
        until(lambda: session.execute("SHOW DECISIONS")[0].rows)
        deadly.unlink()
        session.drain(120)
        assert [row["n"] for row in session.results("q")] == [2]
        decided = [(action, reason) for *_, action, reason in session.execute("SHOW DECISIONS")[0].rows]
        assert decided[0][0].startswith("repeat micro-batch 0 after 1 s")
        assert "it has failed once: a micro-batch failed" in decided[0][1]


def test_without_restarts_a_micro_batch_that_spark_gave_up_ends_the_deployment(spark, tmp_path):
    (tmp_path / "deadly").touch()
    with Session(tmp_path / "state", buckets=2, restart=False) as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, path STRING) TIMESTAMP BY at FROM MEMORY;"
            "CREATE AGGREGATE deadly(STRING) RETURNS BIGINT FROM PYTHON 'headrace.testing.aggregates:Deadly';"
            "CREATE QUERY q AS SELECT deadly(path) AS n FROM s [RANGE 10 SECONDS] INTO MEMORY;"
        )
        session.push("s", [{"at": START, "path": str(tmp_path / "deadly")}])
        with pytest.raises(HostFault, match="a micro-batch failed"):
            session.drain(120)


def test_a_missing_file_and_a_blocked_sink_are_clear_errors(spark, tmp_path):
    stream = f"CREATE STREAM s (v INT) FROM FILES (path '{tmp_path}/none/*.csv', format 'csv');"
    (tmp_path / "taken").write_text("a file, not a directory")
    with Session(tmp_path / "c1") as session, pytest.raises((SinkFault, SourceFault)) as caught:
        session.execute(
            stream + f"CREATE QUERY q AS SELECT v FROM s INTO FILES (path '{tmp_path}/taken/out', format 'csv')"
        )
    assert caught.value.hint
    assert not (tmp_path / "c1" / "commands").exists(), "nothing half-written"
    (tmp_path / "blocked").write_text("a file")
    with pytest.raises(HostFault, match="cannot"):
        Session(tmp_path / "blocked" / "checkpoint").execute(
            BIDS + "CREATE QUERY q AS SELECT price FROM bids INTO MEMORY"
        )
