"""Streams from and results to the topics of a real broker, on both hosts."""

import datetime as dt
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from headrace.commands.log import CommandLog
from headrace.errors import SinkFault, SourceFault
from headrace.session import Session
from headrace.testing.watching import local_host, until

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
BEGIN_MS = int(START.replace(tzinfo=dt.UTC).timestamp() * 1000)
SEGMENTS = 9


class Topics:
    """Makes topics, writes readings to them and reads what is committed."""

    def __init__(self, address):
        import confluent_kafka
        import confluent_kafka.admin

        self.address, self.kafka, self.module = address, confluent_kafka, confluent_kafka.admin
        self.admin = self.module.AdminClient({"bootstrap.servers": address})
        self.producer = confluent_kafka.Producer({"bootstrap.servers": address, "partitioner": "murmur2_random"})

    def make(self, name, partitions, **settings):
        config = {"retention.ms": "-1", **settings}
        self.admin.create_topics([self.module.NewTopic(name, partitions, 1, config=config)])[name].result()

    def grow(self, name, partitions):
        self.admin.create_partitions([self.module.NewPartitions(name, partitions)])[name].result()

    def send(self, name, rows):
        """Write in short stretches of time, side by side, so that no partition lags by more than the skew."""
        for _, stretch in itertools.groupby(rows, key=lambda row: row[1] // 500):
            for segment, millisecond, value in stretch:
                self.producer.produce(name, key=str(segment), value=value, timestamp=BEGIN_MS + millisecond)
            assert self.producer.flush(30) == 0

    def values(self, name, partitions):
        """What is there for those who read what is committed, and the partition of each."""
        reader = self.kafka.Consumer(
            {"bootstrap.servers": self.address, "group.id": "test", "enable.partition.eof": True}
        )
        reader.assign([self.kafka.TopicPartition(name, partition, 0) for partition in range(partitions)])
        found, ended = [], 0
        while ended < partitions:
            for message in reader.consume(1000, 1):
                if message.error():
                    ended += 1
                else:
                    value = message.value()
                    found.append((message.partition(), message.key(), None if value is None else json.loads(value)))
        reader.close()
        return found


@pytest.fixture(scope="module")
def topics(broker):
    return Topics(broker)


def readings(first, last):
    """A reading of every segment, ten times a second, from one second to another."""
    return [
        (segment, ms, json.dumps({"segment": segment, "speed": float(ms % 7)}))
        for ms in range(first * 1000, last * 1000, 100)
        for segment in range(SEGMENTS)
    ]


def statements(address, topic, out, *sinks):
    written = ", ".join([f"FILES (path '{out}', format 'parquet')", *sinks])
    return f"""
        CREATE STREAM probes (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
          FROM KAFKA (bootstrap '{address}', topic '{topic}', format 'json', key 'segment', record_time 'at');
        CREATE QUERY speeds AS SELECT segment, avg(speed) AS speed, count(*) AS n, window_end
          FROM probes [RANGE 10 SECONDS] GROUP BY segment INTO {written}"""


def expected(seconds, left_out=()):
    """Return the results of this many seconds; segments but 3 are `left_out` in windows that end at these seconds."""
    rows = []
    for end in range(10, seconds + 1, 10):
        speed = sum(float(ms % 7) for ms in range((end - 10) * 1000, end * 1000, 100)) / 100
        rows += [
            (START + dt.timedelta(seconds=end), segment, 100, speed)
            for segment in range(SEGMENTS)
            if segment == 3 or end not in left_out
        ]
    return sorted(rows)


def written(folder):
    rows = (
        pl.read_parquet(folder / "*.parquet")
        .select("window_end", "segment", "n", "speed")
        .sort("window_end", "segment")
    )
    return rows.rows()


def test_what_is_too_large_for_a_topic_is_set_aside_and_the_rest_arrives(topics, tmp_path):
    topics.make("narrow", 1, **{"max.message.bytes": "2000"})
    texts = ["x" * size for size in (*range(1, 1700, 10), *range(1700, 2100))]
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(
            f"""CREATE STREAM s (v STRING) FROM MEMORY;
            CREATE QUERY q AS SELECT v FROM s INTO KAFKA (bootstrap '{topics.address}', topic 'narrow');
            CREATE QUERY failed AS SELECT reason, detection FROM q.failed INTO MEMORY"""
        )
        session.push("s", [{"v": text} for text in texts])
        while local_host(session).step():
            pass
        failed = session.results("failed")
    sent = [row["v"] for _, _, row in topics.values("narrow", 1)]
    assert sorted([*sent, *(json.loads(row["detection"])["v"] for row in failed)], key=len) == texts
    assert 1600 < max(map(len, sent)) < min(len(json.loads(row["detection"])["v"]) for row in failed)
    assert failed[0]["reason"].endswith("the topic takes 1,880")


def test_a_topic_is_read_whole_in_step_and_bad_records_are_set_aside(topics, tmp_path):
    topics.make("whole", 4)
    topics.make("results", 2)
    topics.make("copies", 1)
    topics.send("whole", readings(0, 30))
    topics.send("whole", [(3, 29_950, "{oops"), (4, 29_950, '{"segment": 5}')])
    sink = f"KAFKA (bootstrap '{topics.address}', topic 'results', key 'segment', record_time 'window_end')"
    another = f"KAFKA (bootstrap '{topics.address}', topic 'copies')"
    with Session(tmp_path / "checkpoint", host="local", limit=300) as session:
        session.execute(statements(topics.address, "whole", tmp_path / "out", sink, another))
        session.execute("CREATE QUERY wrong AS SELECT * FROM probes.bad INTO MEMORY")
        while local_host(session).step():
            pass
        topics.grow("whole", 6)
        topics.send("whole", readings(30, 40))
        session.drain(60)
        seen = session.statistics().streams["probes"]
        assert (seen.tuples, seen.bad, seen.late) == (40 * 10 * SEGMENTS, 2, 0)
        assert session.statistics().batch > 10, "the limit holds"
        reasons = sorted(row["reason"] for row in session.results("wrong"))
        assert reasons[1] == "its key is '4', but segment is 5"
        assert "JSON is malformed" in reasons[0]
    assert written(tmp_path / "out") == expected(40)
    sent = topics.values("results", 2)
    assert sorted((row["window_end"], row["segment"], row["n"]) for _, _, row in sent) == [
        (f"{end.isoformat()}.000000", segment, n) for end, segment, n, _ in expected(40)
    ]
    assert len({(partition, key) for partition, key, _ in sent}) == SEGMENTS, "each key is in one partition"
    assert len(topics.values("copies", 1)) == len(sent)
    with Session(
        tmp_path / "other", host="local"
    ) as session:  # transactions leave gaps in the numbers of records, also at the end
        session.execute(f"""
            CREATE STREAM back (window_end TIMESTAMP, segment INT, n BIGINT) TIMESTAMP BY window_end
              FROM KAFKA (bootstrap '{topics.address}', topic 'results', format 'json', key 'segment',
              record_time 'window_end');
            CREATE QUERY all_back AS SELECT * FROM back INTO MEMORY""")
        session.drain(60)
        rows = session.results("all_back")
    assert sorted((row["window_end"], row["segment"], row["n"]) for row in rows) == [row[:3] for row in expected(40)]


def test_what_a_crash_makes_us_send_again_is_in_the_topic_once(topics, tmp_path):
    from headrace.catalog.definitions import Connector
    from headrace.connectors.kafka.sink import KafkaSink
    from headrace.model.page import Page
    from headrace.model.schema import Field, Schema
    from headrace.model.types import Type

    topics.make("once", 1)
    connector = Connector("KAFKA", {"bootstrap": topics.address, "topic": "once"})
    schema = Schema((Field("n", Type.BIGINT),))

    def page(n):
        return Page(pl.DataFrame({"n": [n], "__ts": [0]}))

    first = KafkaSink("q", connector, schema, tmp_path)
    first.write(0, [page(1)])
    first.write(2, [page(2)])
    second = KafkaSink("q", connector, schema, tmp_path)  # the first one is not closed: its process was killed
    second.write(2, [page(2)])
    second.write(3, [page(3)])
    with pytest.raises(SinkFault, match="fenced"):
        first.write(3, [page(3)])
    other = KafkaSink("q", connector, schema, tmp_path / "new")
    other.write(0, [page(4)])
    for sink in (second, other):
        sink.close()
    assert [row["n"] for _, _, row in topics.values("once", 1)] == [1, 2, 3, 4]


def test_a_compacted_topic_has_the_newest_row_of_each_key(topics, tmp_path):
    topics.make("standings", 2, **{"cleanup.policy": "compact"})
    sent = dict.fromkeys("abcdefgh", 0)
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(f"""CREATE STREAM bids (item STRING, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
            CREATE QUERY q AS SELECT item, count(*) AS n FROM bids GROUP BY item HAVING count(*) < 4
            EMIT CHANGES STATE TTL '1 day'
            INTO KAFKA (bootstrap '{topics.address}', topic 'standings', key 'item', upsert true)""")
        for second in range(9):
            items = [item for number, item in enumerate(sent) if (second * 7 + number * 3) % 11 < 4]
            session.push("bids", [{"item": item, "at": START + dt.timedelta(seconds=second)} for item in items])
            sent |= {item: sent[item] + 1 for item in items}
            while local_host(session).step():
                pass
        session.drain(60)
    table = {}
    for _, key, row in topics.values("standings", 2):  # in order within a partition, and a key has one
        table[key.decode()] = row
    assert {key: row["n"] for key, row in table.items() if row is not None} == {
        item: n for item, n in sent.items() if n < 4
    }
    assert {key for key, row in table.items() if row is None} == {item for item, n in sent.items() if n >= 4} != set()


def test_what_publishers_send_is_in_the_topic_once_although_some_die(topics, tmp_path):
    from headrace.catalog.definitions import Connector
    from headrace.connectors.kafka.publishing import PublishingSink, publish
    from headrace.model.page import Page
    from headrace.model.schema import Field, Schema
    from headrace.model.types import Type

    topics.make("published", 2)
    connector = Connector("KAFKA", {"bootstrap": topics.address, "topic": "published", "publishers": 2})
    schema = Schema((Field("n", Type.BIGINT),))

    def page(*numbers):
        return Page(pl.DataFrame({"n": numbers, "__ts": [0] * len(numbers)}))

    def delivery(batch, send):
        sink = PublishingSink("q", connector, schema, tmp_path)
        sink.sweep()
        sink.publish = send
        staged = [sink.stage(page(*(10 * batch + n for n in numbers)), f"b{batch}-{numbers[0]}-1") for numbers in PARTS]
        sink.write(batch, [page(10 * batch + 7)], staged)
        sink.close()

    def only_the_first(publications):
        publish(publications[0])
        raise KeyboardInterrupt

    PARTS = ((1, 2), (3,), (4, 5, 6))
    for batch in (0, 1):
        with pytest.raises(KeyboardInterrupt):
            delivery(batch, only_the_first)
        delivery(batch, lambda publications: [publish(publication) for publication in publications * 2])
    sent = [row["n"] for _, _, row in topics.values("published", 2)]
    assert sorted(sent) == [10 * batch + n for batch in (0, 1) for n in range(1, 8)]


def test_a_topic_that_is_not_there_is_a_fault_with_a_hint(topics, tmp_path):
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(statements(topics.address, "nowhere", tmp_path / "out"))
        with pytest.raises(SourceFault, match="there is no topic 'nowhere'"):
            local_host(session).step()


def test_a_broker_that_does_not_answer_is_a_fault_in_bounded_time(tmp_path):
    pytest.importorskip("confluent_kafka")
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute("""CREATE STREAM s (n INT) FROM KAFKA (bootstrap '127.0.0.1:1', topic 't', format 'json',
            timeout '500 ms');
            CREATE QUERY q AS SELECT n FROM s INTO MEMORY""")
        with pytest.raises(SourceFault, match=r"topic 't' at 127\.0\.0\.1:1") as caught:
            local_host(session).step()
        assert "check that a broker is running there" in str(caught.value.hint)


@pytest.mark.spark
def test_spark_skips_partitions_that_nobody_needs_also_after_a_restart(spark, topics, tmp_path):
    topics.make("skipped", 4)
    topics.make("speeds", 1)
    topics.make("copied", 2)
    sink = f"KAFKA (bootstrap '{topics.address}', topic 'speeds')"

    def read(session):
        seen = session.statistics().streams.get("probes")
        return 0 if seen is None else seen.tuples + seen.skipped

    each = 10 * 10 * SEGMENTS  # of ten seconds
    with Session(tmp_path / "checkpoint", buckets=2) as session:
        session.execute(statements(topics.address, "skipped", tmp_path / "out", sink))
        topics.send("skipped", readings(0, 30))
        until(lambda: read(session) == 3 * each)
        session.execute("ASSUME speeds WHERE segment <> 3 FOR 60 SECONDS")
        commands = CommandLog(tmp_path / "checkpoint" / "commands").count()
        assert session.deployment.settle(commands, 60), "the micro-batch before it may still read all"
        topics.send("skipped", readings(30, 40))
        until(lambda: read(session) == 4 * each)
        skipped = session.statistics().streams["probes"].skipped
        # 1, 3, 7 and 8 are in the partition of 3
        assert skipped == each * 5 // SEGMENTS
        rows = session.execute("SHOW FEEDBACK")[0].rows
        assert ("probes", "not read", "", skipped, 0) in rows
    with Session(tmp_path / "checkpoint") as session:
        session.start()
        topics.send("skipped", readings(40, 50))
        until(lambda: read(session) == each)
        assert session.statistics().streams["probes"].skipped == each * 5 // SEGMENTS, (
            "the feedback is in force after the restart"
        )
        topics.send("skipped", readings(50, 120))
        # large results, which tasks send
        session.execute(f"""CREATE STREAM numbers (n BIGINT) FROM MEMORY;
            CREATE QUERY copied AS SELECT n, '{"x" * 200}' AS text FROM numbers
              INTO KAFKA (bootstrap '{topics.address}', topic 'copied', publishers 2)""")
        session.push("numbers", [{"n": n} for n in range(3000)])
        session.drain(60)
        assert not list((tmp_path / "checkpoint" / "sinks" / "published").rglob("b*-driver*"))
    assert sorted(row["n"] for _, _, row in topics.values("copied", 2)) == list(range(3000))
    # it was said when results were known up to 20 seconds, the skew being one
    results = expected(120, left_out=(30, 40, 50, 60, 70, 80))
    assert written(tmp_path / "out") == results
    sent = [row for _, _, row in topics.values("speeds", 1)]
    assert (
        sorted((dt.datetime.fromisoformat(row["window_end"]), row["segment"], row["n"], row["speed"]) for row in sent)
        == results
    )


@pytest.mark.spark
def test_killed_between_results_a_topic_is_read_and_written_exactly_once(topics, tmp_path):
    topics.make("read", 3)
    topics.make("written", 2)
    topics.send("read", readings(0, 50))
    script, out = tmp_path / "script.sql", tmp_path / "out"
    script.write_text(
        statements(topics.address, "read", out, f"KAFKA (bootstrap '{topics.address}', topic 'written', key 'segment')")
    )
    child = Path(__file__).parents[1] / "spark" / "crash_child.py"

    def start():
        with (tmp_path / "child.log").open("ab") as log:
            command = [sys.executable, str(child), str(tmp_path / "checkpoint"), str(script), "400"]
            return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)

    process = start()
    # results of a window are written to one sink after the other: this is somewhere in between, or shortly after
    until(lambda: len(list(out.glob("part-*"))) >= 2 or process.poll() is not None, 120)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was killed before its end"
    assert start().wait(200) == 0, (tmp_path / "child.log").read_text()[-3000:]
    assert written(out) == expected(50)
    sent = [
        (dt.datetime.fromisoformat(row["window_end"]), row["segment"], row["n"], row["speed"])
        for _, _, row in topics.values("written", 2)
    ]
    assert sorted(sent) == expected(50)
