"""Numbers in TIMESTAMP columns of text count from 1970, in the unit that the connector names."""

from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.formats import text
from headrace.errors import HeadraceError
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session

SCHEMA = Schema.of(at=Type.TIMESTAMP, v=Type.INT)
#: 2026-01-01 00:00:01, in milliseconds.
MOMENT = 1_767_225_601_000
VALUES: list[Any] = [MOMENT, f"{MOMENT + 500}", "2026-01-01T00:00:02Z", "2026-01-01", None, -1_500, 10**17, "soon"]
TIMES = [
    "2026-01-01 00:00:01.000000", "2026-01-01 00:00:01.500000", "2026-01-01 00:00:02.000000",
    "2026-01-01 00:00:00.000000", None, "1969-12-31 23:59:58.500000",
]  # fmt: skip


def json_lines(*values: Any) -> list[bytes]:
    shown = ["null" if value is None else value if isinstance(value, int) else f'"{value}"' for value in values]
    return [f'{{"at": {value}, "v": {number}}}'.encode() for number, value in enumerate(shown)]


def csv_lines(*values: Any) -> list[bytes]:
    return [f"{'' if value is None else value},{number}".encode() for number, value in enumerate(values)]


@pytest.mark.parametrize("read", [text.parse, text.parse_each], ids=["blocks", "lines"])
@pytest.mark.parametrize("form", [text.Json(1000), text.Csv(SCHEMA.names, epoch=1000)], ids=["json", "csv"])
def test_numbers_count_milliseconds_and_texts_are_read_as_ever(read: Any, form: text.Form) -> None:
    lines = json_lines if isinstance(form, text.Json) else csv_lines
    parsed = read(text.lines_of(lines(*VALUES)), SCHEMA, form)
    assert parsed.rows["at"].cast(str).to_list() == TIMES
    assert [number for number, _ in parsed.bad] == [6, 7]
    assert "is not a TIMESTAMP" in parsed.bad[0][1]


@pytest.mark.parametrize("form", [text.Json(1_000_000), text.Csv(SCHEMA.names, epoch=1_000_000)], ids=["json", "csv"])
def test_a_block_of_numbers_alone_counts_seconds(form: text.Form) -> None:
    lines = json_lines if isinstance(form, text.Json) else csv_lines
    parsed = text.parse(text.lines_of(lines(MOMENT // 1000, 0)), SCHEMA, form)
    assert parsed.rows["at"].cast(str).to_list() == [TIMES[0], "1970-01-01 00:00:00.000000"]
    assert not parsed.bad


@pytest.mark.parametrize(
    "declared",
    [
        "CREATE STREAM s (at TIMESTAMP, v INT) TIMESTAMP BY at FROM FILES (path '{path}', format 'json', epoch 'ms')",
        "CREATE TABLE s (at TIMESTAMP(3), v INT, WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('connector' = "
        "'filesystem', 'path' = '{path}', 'format' = 'json', 'source.monitor-interval' = '1 s', 'epoch' = 'ms')",
    ],
)
def test_an_event_time_in_milliseconds_is_in_the_window_of_its_moment(declared: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\n".join([*json_lines(MOMENT, MOMENT + 500, MOMENT + 60_000), b""]))
    with Session(host="local") as session:
        session.execute(declared.format(path=tmp_path))
        session.execute("CREATE QUERY q AS SELECT count(*) AS n, window_end FROM s [RANGE 1 MINUTE] INTO MEMORY")
        session.drain(60)
        assert [(row["n"], str(row["window_end"])) for row in session.results("q")] == [
            (2, "2026-01-01 00:01:00"),
            (1, "2026-01-01 00:02:00"),
        ]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("FILES (path '/', format 'parquet', epoch 'ms')", "the option 'epoch' is for csv and json, not for parquet"),
        ("KAFKA (bootstrap 'h:9092', topic 't', format 'arrow', epoch 'ms')", "for csv and json, not for arrow"),
        ("SOCKET (port 9999, epoch 'minutes')", "option 'epoch' is 'minutes'"),
        ("GENERATOR (rate 1, epoch 'ms')", "GENERATOR has no option 'epoch'"),
    ],
)
def test_a_unit_that_is_none_or_not_of_text_is_refused(source: str, why: str) -> None:
    with Session(host="local") as session, pytest.raises(HeadraceError, match=why):
        session.execute(f"CREATE STREAM s (at TIMESTAMP) FROM {source}")
