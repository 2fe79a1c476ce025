"""A file that cannot be read makes every micro-batch fail; a repair leaves it out, and the others lose nothing."""

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.errors import NameFault, SourceFault
from headrace.session import Session
from headrace.testing.watching import local_host

STATEMENTS = """
CREATE STREAM s (at TIMESTAMP, id INT) TIMESTAMP BY at FROM FILES (path '{folder}', format 'csv');
CREATE STREAM t (at TIMESTAMP, id INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY q AS SELECT id FROM s INTO MEMORY;
CREATE QUERY total AS SELECT sum(id) AS total FROM s [RANGE 1 MINUTE] INTO MEMORY;
CREATE QUERY bad AS SELECT origin, reason FROM s.bad INTO MEMORY;
CREATE QUERY other AS SELECT id FROM t INTO MEMORY;
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def save(folder, name, *lines, header="at,id"):
    (folder / name).write_text("\n".join((header, *lines)) + "\n")


def step_all(session):
    while local_host(session).step():
        pass


@pytest.mark.parametrize("how", ["of other columns", "deleted"])
def test_the_deployment_goes_on_without_the_file(tmp_path, folder, how):
    state = tmp_path / "state"
    save(folder, "a.csv", "2026-01-01 00:00:01,1")
    with Session(state, host="local") as session:
        session.execute(STATEMENTS.format(folder=folder))
        step_all(session)
        assert session.results("q") == [{"id": 1}]
        save(folder, "b.csv", "2026-01-01 00:00:02,2", header="at,number")
        with pytest.raises(SourceFault, match=r"b\.csv has no column 'id'"):
            step_all(session)
    if how == "deleted":
        (folder / "b.csv").unlink()
    save(folder, "c.csv", "2026-01-01 00:00:03,3")
    with Session(state, host="local") as session:
        session.push("t", [{"at": "2026-01-01 00:00:01", "id": 7}])
        with pytest.raises(SourceFault, match="deleted before it was read" if how == "deleted" else "no column 'id'"):
            step_all(session)

    done = CliRunner().invoke(app, ["repair", "--checkpoint", str(state), "--skip-file", str(folder / "b.csv")])
    assert done.exit_code == 0
    assert " ".join(done.output.split()).startswith(f"{folder / 'b.csv'} is left out of s: the next run on")

    with Session(state, host="local") as session:
        step_all(session)
        assert session.results("q") == [{"id": 1}, {"id": 3}]  # this host repeats what it did before it failed
        assert session.results("other") == [{"id": 7}]
        assert session.results("bad") == [
            {
                "origin": str(folder / "b.csv"),
                "reason": "the file could not be read, and was left out by headrace repair",
            }
        ]
        session.drain()
        assert session.results("total") == [{"total": 4}], "what was counted before is still there"


def test_a_file_that_no_stream_has_found_is_told(tmp_path, folder):
    with Session(tmp_path / "state", host="local") as session:
        session.execute(STATEMENTS.format(folder=folder), start=False)
        with pytest.raises(NameFault, match=r"has found the file .*/x\.csv"):
            session.repair_file(str(folder / "x.csv"))
