"""Tables of Flink that read Kafka are streams."""

from __future__ import annotations

from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateStream, CreateTable


def test_a_kafka_table_of_flink_is_a_stream_from_kafka():
    (statement,) = (
        parse("""CREATE TABLE orders (at TIMESTAMP(3), id BIGINT, WATERMARK FOR at AS at - INTERVAL '5' SECOND)
        WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
              'properties.group.id' = 'g', 'scan.startup.mode' = 'latest-offset', 'format' = 'json')""")
    )
    (ours,) = parse("""CREATE STREAM orders (at TIMESTAMP, id BIGINT) TIMESTAMP BY at SKEW 5 SECONDS
        FROM KAFKA (topic 'orders', bootstrap 'localhost:9092', start 'latest', format 'json')""")
    assert isinstance(statement, CreateStream)
    assert isinstance(ours, CreateStream)
    assert statement.connector.kind == ours.connector.kind
    assert statement.connector.options == ours.connector.options
    assert (statement.columns, statement.timing, statement.skew_us) == (ours.columns, ours.timing, ours.skew_us)
    assert statement.time_column is not None
    assert statement.time_column.text == "at"


def test_a_table_with_from_stays_a_table():
    (statement,) = parse("CREATE TABLE items (item INT, name VARCHAR(20)) FROM FILES (path 'items.csv')")
    assert isinstance(statement, CreateTable)
