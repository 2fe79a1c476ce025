"""A file whose name is not UTF-8 is a bad record of its stream; everything else goes on, also after a restart."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from headrace.errors import SourceFault
from headrace.session import Session
from headrace.testing.watching import local_host

STATEMENTS = """
CREATE STREAM s (n INT) FROM FILES (path '{0}/in', format '{1}');
CREATE STREAM t (n INT) FROM FILES (path '{0}/in/*.{1}', format '{1}');
CREATE QUERY q AS SELECT n FROM s INTO FILES (path '{0}/q', format 'json');
CREATE QUERY r AS SELECT n FROM t INTO FILES (path '{0}/r', format 'json');
CREATE QUERY bad AS SELECT reason, origin FROM s.bad INTO FILES (path '{0}/bad', format 'json');
"""


def write(path: bytes, form: str, n: int) -> None:
    rows = pl.DataFrame({"n": [n]}, schema={"n": pl.Int32})
    with open(path, "wb") as file:
        match form:
            case "parquet":
                rows.write_parquet(file)
            case "csv":
                rows.write_csv(file)
            case _:
                rows.write_ndjson(file)


def results(folder: Path) -> list[tuple[object, ...]]:
    return sorted(row for file in folder.glob("*.json") for row in pl.read_ndjson(file).rows())


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_file_without_a_readable_name_is_one_bad_record(form: str, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "in")
    (tmp_path / "in").mkdir()
    for number in range(3):
        with Session(tmp_path / "state", host="local") as session:
            write(folder + b"/\xff%d." % number + form.encode(), form, 10 + number)
            write(folder + b"/a%d." % number + form.encode(), form, number)
            if number == 0:
                session.execute(STATEMENTS.format(tmp_path, form))
            session.start()
            while local_host(session).step():
                pass
    assert results(tmp_path / "q") == results(tmp_path / "r") == [(0,), (1,), (2,)]
    why = "the name of the file is not UTF-8: rename it, and it is read"
    assert results(tmp_path / "bad") == [(why, f"{tmp_path}/in/\\xff{n}.{form}") for n in range(3)]
    with Session(tmp_path / "state", host="local") as session:
        os.rename(folder + b"/\xff1." + form.encode(), folder + b"/renamed." + form.encode())
        session.start()
        while local_host(session).step():
            pass
    assert results(tmp_path / "q") == [(0,), (1,), (2,), (11,)]


def test_a_table_is_not_read_without_a_file_that_has_no_readable_name(tmp_path: Path) -> None:
    write(os.fsencode(tmp_path) + b"/\xff.csv", "csv", 1)
    with Session(host="local") as session, pytest.raises(SourceFault, match="is not UTF-8"):
        session.execute(f"CREATE TABLE x (n INT) FROM FILES (path '{tmp_path}', format 'csv'); SELECT n FROM x")
