from types import SimpleNamespace

from headrace.worker.wire import (
    SPARK_SCHEMA,
    BucketNote,
    Control,
    Kind,
    Report,
    Row,
    Wait,
    decode_control,
    decode_report,
    encode,
    from_spark,
    to_arrow,
    to_spark,
)

ROWS = [Row(3, Kind.PAGE, "scan-1", 1 << 40, 2, b"\x00\xff"), Row(0, Kind.PARTIAL, "", 0, 0, b"")]


def test_rows_come_back_from_spark_as_they_were_sent() -> None:
    assert from_spark(SimpleNamespace(**to_spark(row)) for row in ROWS) == ROWS
    assert from_spark(SimpleNamespace(**fields) for fields in to_arrow(ROWS).to_pylist()) == ROWS


def test_all_forms_have_the_same_columns() -> None:
    assert (
        [column.split()[0] for column in SPARK_SCHEMA.split(", ")]
        == to_arrow(ROWS).schema.names
        == [*to_spark(ROWS[0])]
    )


def test_the_numbers_of_kinds_do_not_change() -> None:
    assert [kind.name for kind in Kind] == [
        "CONTROL",
        "PAGE",
        "RESULT",
        "REPORT",
        "STAGED",
        "PARTIAL",
        "BUNDLE",
        "DEMANDED",
    ]
    assert [int(kind) for kind in Kind] == list(range(8))


def test_notes_survive() -> None:
    control = Control(time=5, bounds={"s": 3}, commands=[b"x"])
    assert decode_control(encode(control)) == control
    report = Report(buckets=[BucketNote(1)], time=5, waits=[Wait(7, ("s",), anyhow=True)])
    assert decode_report(encode(report)) == report
