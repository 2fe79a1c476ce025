"""Lines of text as they are: format 'text' of files and topics."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.formats.text import Plain, lines_of, parse
from headrace.errors import SourceFault, TypeFault
from headrace.language.parser import parse as parse_statement
from headrace.language.syntax.statements import CreateStream
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session

SCHEMA = Schema.of(line=Type.STRING, day=Type.INT)


@given(st.lists(st.binary(max_size=12).filter(lambda data: b"\r" not in data), max_size=20))
def test_a_line_is_its_text_or_bad(records: list[bytes]) -> None:
    parsed = parse(lines_of(records), SCHEMA, Plain("line"))
    good, bad = [], []
    for number, data in enumerate(records):
        try:
            good.append((data.decode(), None))
        except UnicodeDecodeError:
            bad.append((number, "the line is not UTF-8"))
    assert parsed.rows.rows() == good
    assert list(parsed.bad) == bad
    assert dict(parsed.rows.schema) == SCHEMA.polars()
    counted = parse(lines_of(records), Schema(()), Plain("line"))
    assert counted.rows.height == len(good)


def test_a_log_is_read_with_times_and_fields_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "day=7").mkdir()
    lines = [
        b'10.0.0.1 - - [19/Nov/2026:12:00:01 +0000] "GET /a, \\"b\\" HTTP/1.1" 200 7\r',
        b"\xff\xfe broken",
        b"",
        "10.0.0.2 - - [19/Nov/2026:12:00:07 +0100] \u201eGET /\u00e4\u201c 404 0".encode(),
        b"rubbish",
    ]
    (tmp_path / "day=7" / "access.log").write_bytes(b"\n".join(lines) + b"\n")
    with Session(tmp_path / "checkpoint", host="local") as session:
        session.execute(f"""CREATE STREAM logs (line STRING, day INT,
              at AS to_timestamp(regexp_extract(line, '\\[(.*?)\\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z'),
              status AS CAST(regexp_extract(line, ' ([0-9]+) [0-9]+$', 1) AS INT),
              WATERMARK FOR at AS at - INTERVAL '2' HOURS)
            FROM FILES (path '{tmp_path}/*/*.log');
            CREATE QUERY q AS SELECT at, status, day FROM logs INTO MEMORY;
            CREATE QUERY bad AS SELECT record, reason FROM logs.bad INTO MEMORY""")
        session.drain()
        assert sorted((str(row["at"]), row["status"], row["day"]) for row in session.results("q")) == [
            ("2026-11-19 11:00:07", 404, 7),
            ("2026-11-19 12:00:01", 200, 7),
        ]
        reasons = sorted(row["reason"] for row in session.results("bad"))
        assert reasons == ["at is NULL, so the tuple has no timestamp", "the line is not UTF-8"]


def test_without_declared_columns_a_line_is_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    with Session(host="local") as session:
        session.execute(f"CREATE TABLE words FROM FILES (path '{tmp_path}/a.txt')")
        assert [row[:2] for row in session.execute("DESCRIBE words")[0].rows] == [("value", "STRING")]
        assert session.execute("SELECT value FROM words ORDER BY value")[0].rows == (("one",), ("two",))


@pytest.mark.parametrize(
    "source",
    [
        "(n INT) FROM FILES (path '/tmp', format 'text')",
        "(n INT) FROM KAFKA (bootstrap 'h:1', topic 't', format 'text')",
        "(a STRING, b STRING) FROM KAFKA (bootstrap 'h:1', topic 't', format 'text')",
        "(a STRING) FROM KAFKA (bootstrap 'h:1', topic 't', format 'text', key 'a')",
    ],
)
def test_columns_that_hold_no_line_are_refused(source: str) -> None:
    with Session(host="local") as session, pytest.raises(TypeFault, match="format 'text'") as refused:
        session.execute(f"CREATE STREAM s {source}")
    assert "declare (" in str(refused.value.hint)


def test_a_raw_topic_of_flink_has_lines_and_begins_at_a_moment() -> None:
    (statement,) = parse_statement(
        """CREATE TABLE logs (line STRING, at TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR at AS at)
        WITH ('connector' = 'kafka', 'topic' = 'logs', 'properties.bootstrap.servers' = 'h:1', 'format' = 'raw',
              'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1767225600000')"""
    )
    assert isinstance(statement, CreateStream)
    assert statement.connector.options == {
        "topic": "logs", "bootstrap": "h:1", "format": "text", "start": "2026-01-01 00:00:00", "record_time": "at",
    }  # fmt: skip


def test_compressed_lines_are_refused_and_later_ones_are_one_bad_record(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_bytes(gzip.compress(b"".join(b"line %d\n" % number for number in range(5000))))
    statement = f"CREATE STREAM s (line STRING) FROM FILES (path '{tmp_path}', format 'text', pattern '*.log')"
    with Session(host="local") as session, pytest.raises(SourceFault, match="is compressed") as refused:
        session.execute(statement)
    assert "FROM SPARK (format 'text'" in str(refused.value.hint)
    (tmp_path / "a.log").write_text("one\n")
    with Session(host="local") as session:
        session.execute(f"""{statement}; CREATE QUERY q AS SELECT line FROM s INTO MEMORY;
            CREATE QUERY bad AS SELECT reason FROM s.bad INTO MEMORY""")
        session.drain()
        assert session.results("q") == [{"line": "one"}]
        assert session.results("bad") == [{"reason": "the file is compressed: unpack it, or read it FROM SPARK"}]


@pytest.mark.parametrize("line", [b"BZhang,1", b"BZh4711 has started"])
def test_a_line_that_begins_as_bzip2_does_is_a_line(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.log").write_bytes(line + b"\nnext\n")
    with Session(host="local") as session:
        session.execute(f"CREATE STREAM s (line STRING) FROM FILES (path '{tmp_path}/a.log')")
        session.execute("CREATE QUERY q AS SELECT line FROM s INTO MEMORY")
        session.drain()
        assert [row["line"] for row in session.results("q")] == [line.decode(), "next"]


@pytest.mark.parametrize("content", [b"", b"a line\n"])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_each_kind_of_compressed_text_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes], content: bytes
) -> None:
    (tmp_path / "a.log").write_bytes(pack(content))
    with Session(host="local") as session, pytest.raises(SourceFault, match="is compressed"):
        session.execute(f"CREATE STREAM s (line STRING) FROM FILES (path '{tmp_path}/a.log')")
