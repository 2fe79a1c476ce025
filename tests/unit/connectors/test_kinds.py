import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.definitions import Connector, Stream, Table, Timing
from headrace.connectors.files.tables import check_table, infer_schema, read_table
from headrace.connectors.kinds import SINKS, SOURCES, check_sink, check_source
from headrace.errors import HeadraceError, NameFault, NotSupported, QueryError, SinkFault, SourceFault, TypeFault
from headrace.model.schema import Schema
from headrace.model.types import Type

SCHEMA = Schema.of(id=Type.INT, at=Type.TIMESTAMP, flag=Type.BOOLEAN)


def stream(kind: str, **options: Any) -> Stream:
    return Stream(
        "s", SCHEMA, Connector(kind, {name.replace("__", "."): value for name, value in options.items()}), Timing.LATENT
    )


@pytest.mark.parametrize(
    ("made", "fault", "words"),
    [
        (stream("FILE", path="x"), NameFault, "did you mean 'FILES'"),
        (stream("FILES", path=".", formt="csv"), NameFault, "did you mean 'format'"),
        (stream("FILES", format="csv"), QueryError, "needs the option 'path'"),
        (stream("FILES", path="."), QueryError, "needs the option 'format'"),
        (stream("FILES", path=".", format="jsn"), NameFault, "did you mean 'json'"),
        (stream("FILES", path="no/such/place", format="csv"), SourceFault, "there is no file or directory"),
        (stream("FILES", path=".", format="csv", delimiter="ab"), QueryError, "single character"),
        (stream("FILES", path=".", format="csv", header="perhaps"), TypeFault, "true or false"),
        (stream("FILES", path=".", format="csv", max_rows=-1), TypeFault, "whole number"),
        (stream("GENERATOR", rat=5), NameFault, "did you mean 'rate'"),
        (stream("GENERATOR", col__idd="sequence"), NameFault, "did you mean 'col.id'"),
        (stream("GENERATOR", rate=0), TypeFault, "above 0"),
        (stream("GENERATOR", rate="fast"), TypeFault, "write a number"),
        (stream("GENERATOR", process="poison"), NameFault, "did you mean 'poisson'"),
        (stream("GENERATOR", start="tomorrow"), TypeFault, "2026-01-01"),
        (stream("GENERATOR", process="bursty", on="soon"), TypeFault, "not a duration"),
        (stream("GENERATOR", col__id="unifrom(1, 2)"), QueryError, "did you mean 'uniform'"),
        (stream("GENERATOR", col__id="uniform(2, 1)"), QueryError, "out of order"),
        (stream("GENERATOR", col__id="uniform(a, b)"), QueryError, "could not convert"),
        (stream("GENERATOR", col__flag="normal(0, 1)"), TypeFault, "the column is BOOLEAN"),
        (stream("GENERATOR", col__id="choice(1, x)"), TypeFault, "not of type INT"),
        (stream("GENERATOR", col__id="null(2, sequence)"), QueryError, "null"),
        (stream("SOCKET", host="localhost"), QueryError, "needs the option 'port'"),
        (stream("SOCKET", port="http"), TypeFault, "whole number"),
        (stream("SPARK", rowsPerSecond=5), QueryError, "needs the option 'format'"),
        (stream("MEMORY", size=3), NameFault, "no option 'size'"),
    ],
)
def test_wrong_sources_are_refused_with_what_to_do(made: Stream, fault: type[HeadraceError], words: str) -> None:
    with pytest.raises(fault) as caught:
        check_source(made)
    assert words in caught.value.render()


def test_right_sources_pass_and_touch_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_source(stream("FILES", path=str(tmp_path), format="csv"))
    check_source(stream("GENERATOR", rate="100/s", col__id="null(0.1, zipf(10, 1.1))", delay="uniform(0, 2)"))
    check_source(stream("SOCKET", port=9999))
    check_source(stream("MEMORY"))
    check_source(stream("SPARK", format="rate", rowsPerSecond=5))
    check_sink("q", Connector("FILES", {"path": "out"}), SCHEMA)
    assert list(tmp_path.iterdir()) == []
    assert set(SOURCES) == {
        "FILES",
        "GENERATOR",
        "KAFKA",
        "SOCKET",
        "MEMORY",
        "SPARK",
        "CLOCK",
        "RAISED",
        "FAILURES",
        "SYSTEM",
    }
    assert set(SINKS) == {"FILES", "CONSOLE", "KAFKA", "MEMORY", "POSTGRES", "SHELF", "SPARK"}


@pytest.mark.parametrize(
    ("connector", "fault", "words"),
    [
        (Connector("CONSOL", {}), NameFault, "did you mean 'CONSOLE'"),
        (Connector("CONSOLE", {"rows": 0}), TypeFault, "from 1"),
        (Connector("FILES", {}), QueryError, "needs the option 'path'"),
        (Connector("FILES", {"path": "o", "format": "paquet"}), NameFault, "did you mean 'parquet'"),
        (Connector("FILES", {"path": f"{__file__}/out"}), SinkFault, "is a file"),
        (Connector("SPARK", {"path": "x"}), QueryError, "needs the option 'format'"),
        (Connector("MEMORY", {"path": "x"}), NameFault, "no option"),
    ],
)
def test_wrong_sinks_are_refused_with_what_to_do(connector: Connector, fault: type[HeadraceError], words: str) -> None:
    with pytest.raises(fault) as caught:
        check_sink("q", connector, SCHEMA)
    assert words in caught.value.render()


TEXTS = {
    "csv": "id,at,day,price,name,flag\n1,2026-01-01T00:00:00Z,2026-01-01,1.5,a,true\n2,,,,b,false\n",
    "json": '{"id":1,"at":"2026-01-01 00:00:00","day":"2026-01-01","price":1.5,"name":"a","flag":true}\n'
    '{"id":2,"name":"b","flag":false}\n',
}


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "arrow"])
def test_undeclared_columns_are_found_and_the_table_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"t.{form}"
    if form in TEXTS:
        path.write_text(TEXTS[form])
    else:
        (tmp_path / "t.csv").write_text(TEXTS["csv"])
        frame = read_table(
            Table(
                "t",
                infer_schema(Connector("FILES", {"path": str(tmp_path / "t.csv")})),
                Connector("FILES", {"path": str(tmp_path / "t.csv")}),
            )
        )
        frame.write_parquet(path) if form == "parquet" else frame.write_ipc(path, compat_level=pl.CompatLevel.oldest())
    connector = Connector("FILES", {"path": str(path)})
    schema = infer_schema(connector)
    assert schema == Schema.of(
        id=Type.BIGINT, at=Type.TIMESTAMP, day=Type.DATE, price=Type.DOUBLE, name=Type.STRING, flag=Type.BOOLEAN
    )
    table = Table("t", schema, connector)
    check_table(table)
    rows = read_table(table)
    assert dict(rows.schema) == schema.polars()
    assert rows["id"].to_list() == [1, 2]
    assert [str(value) for value in rows["at"]] == ["2026-01-01 00:00:00", "None"]


def test_a_bad_record_of_a_table_is_a_fault_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1\nx\n")
    with pytest.raises(SourceFault, match=r"table t: .*t\.csv:3: column id"):
        read_table(Table("t", Schema.of(id=Type.INT), Connector("FILES", {"path": str(tmp_path / "t.csv")})))


def test_an_empty_directory_has_no_columns_to_find(tmp_path: Path) -> None:
    with pytest.raises(SourceFault, match="no files") as caught:
        infer_schema(Connector("FILES", {"path": str(tmp_path), "format": "csv"}))
    assert caught.value.hint == "name the columns and their types in the statement"


def test_a_type_we_do_not_have_is_said(tmp_path: Path) -> None:
    pl.DataFrame({"a": [datetime.time(1)]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(NotSupported, match="column 'a'"):
        infer_schema(Connector("FILES", {"path": str(tmp_path / "t.parquet")}))


def test_a_table_cannot_come_from_a_generator() -> None:
    with pytest.raises(NameFault, match="cannot come from GENERATOR"):
        infer_schema(Connector("GENERATOR", {}))
